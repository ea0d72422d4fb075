"""A queue longer than the memory that messages may take: paged, read back, in order and unaltered.

The budget is the least that there is, and what is published is several times that. Clients are
pika's.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import leveret
import pika
import pytest
from gated_files import GatedFiles
from holding import part
from insides import context_of, inside, on_loop, queue_actor, wait_until
from leveret.actors.messages import EntriesRead
from leveret.actors.queue.paging import READ_BYTES_MIN
from leveret.actors.runtime.runtime import tell
from leveret.amqp_frames.methods import BasicGet, BasicGetOk
from leveret.configuration import MEMORY_BUDGET_BYTES_MIN
from leveret.core.queue.rules import MessageQueue
from leveret.storage.files import Files
from leveret.storage.journal.locating import ReadPlan
from leveret.storage.journal.reading import JournalReader, PageRead
from log_lines import LogLines
from pika.adapters.blocking_connection import BlockingChannel
from timeouts import TIMEOUT_SECONDS
from wire import Client

COUNT = 4_000
SIZE = 1_000


def body_of(number: int) -> bytes:
    """Unlike any other, and told from its number."""
    seed = hashlib.sha256(b"%d" % number).digest()
    return b"%d " % number + (seed * (SIZE // 32))[: SIZE + number % 7]


@contextmanager
def started(
    tmp_path: Path, files: Files | None = None, **settings: int
) -> Iterator[leveret.Broker]:
    about: dict[str, Any] = {
        "memory_budget_bytes": MEMORY_BUDGET_BYTES_MIN,
        "segment_bytes_max": 1024 * 1024,
        "log_level": "warning",
    }
    path = tmp_path / "data"
    with leveret.Broker(files=files, data_dir=path, port=0, **(about | settings)) as broker:
        yield broker


@contextmanager
def opened(broker: leveret.Broker) -> Iterator[BlockingChannel]:
    parameters = pika.ConnectionParameters(broker.host, broker.port)
    with pika.BlockingConnection(parameters) as connection:
        yield connection.channel()


def fill(connected: BlockingChannel, queue: str, numbers: range, **properties: int | str) -> None:
    """Publish these; when it returns the queue has them."""
    # Of its own, because acks of a transactional channel wait for a commit, too.
    channel = connected.connection.channel()
    channel.tx_select()
    for number in numbers:
        channel.basic_publish(
            "", queue, body_of(number), pika.BasicProperties(**{"delivery_mode": 2, **properties})
        )
        if number % 500 == 499:
            channel.tx_commit()
    channel.tx_commit()
    channel.close()


def drain(channel: BlockingChannel, queue: str, count: int, prefetch: int = 100) -> list[bytes]:
    """The bodies of so many messages, each acked."""
    bodies: list[bytes] = []
    channel.basic_qos(prefetch_count=prefetch)
    for method, _, body in channel.consume(queue):
        bodies.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(bodies) == count:
            break
    channel.cancel()
    return bodies


def held_bytes(broker: leveret.Broker) -> int:
    return context_of(broker).memory_budget.used_bytes


def test_a_long_queue_holds_no_more_than_the_budget_and_comes_back_in_order(
    tmp_path: Path,
) -> None:
    with started(tmp_path) as broker, opened(broker) as channel:
        channel.queue_declare("q", durable=True)
        fill(channel, "q", range(COUNT))
        assert held_bytes(broker) <= MEMORY_BUDGET_BYTES_MIN
        assert drain(channel, "q", COUNT) == [body_of(number) for number in range(COUNT)]
        assert channel.queue_declare("q", passive=True).method.message_count == 0
        wait_until(lambda: held_bytes(broker) == 0)


@pytest.mark.parametrize("delivery_mode", [1, 2])
def test_a_message_larger_than_all_may_hold_stops_no_publisher_for_good(
    tmp_path: Path, delivery_mode: int
) -> None:
    bodies = [b"%d" % number + bytes(4 * MEMORY_BUDGET_BYTES_MIN) for number in range(3)]
    properties = pika.BasicProperties(delivery_mode=delivery_mode)
    with started(tmp_path) as broker, opened(broker) as channel:
        for number, body in enumerate(bodies):
            channel.queue_declare(f"q{number}", durable=True)
            fill_one = channel.connection.channel()
            fill_one.confirm_delivery()
            # Confirmed, though publishers are not read while the one before is held.
            fill_one.basic_publish("", f"q{number}", body, properties)
        for number, body in enumerate(bodies):
            assert channel.basic_get(f"q{number}", auto_ack=True)[2] == body


def test_many_queues_with_one_large_message_each_page(tmp_path: Path) -> None:
    # Together several times what stops publishers, and each but a part of the budget.
    names = [f"q{number}" for number in range(60)]
    body = bytes(MEMORY_BUDGET_BYTES_MIN // 5)
    with started(tmp_path) as broker, opened(broker) as channel:
        for name in names:
            channel.queue_declare(name, durable=True)
        channel.confirm_delivery()
        for name in names:
            channel.basic_publish("", name, body, pika.BasicProperties(delivery_mode=2))
        assert context_of(broker).memory_budget.used_bytes < 3 * MEMORY_BUDGET_BYTES_MIN
        for name in names:
            assert channel.basic_get(name, auto_ack=True)[2] == body


def test_transient_messages_are_paged_in_order_with_persistent_ones(tmp_path: Path) -> None:
    random = Random(7)
    with started(tmp_path) as broker, opened(broker) as channel:
        channel.queue_declare("q", durable=True)
        at = 0
        while at < COUNT:
            count = random.choice((1, 3, 200))
            fill(channel, "q", range(at, at + count), delivery_mode=random.choice((1, 2)))
            at += count
        assert drain(channel, "q", at) == [body_of(number) for number in range(at)]


def test_spill_files_have_the_size_of_their_setting(tmp_path: Path) -> None:
    with started(tmp_path, spill_segment_bytes_max=65_536) as broker, opened(broker) as channel:
        channel.queue_declare("q", durable=True)
        fill(channel, "q", range(COUNT), delivery_mode=1)
        sizes = [path.stat().st_size for path in (tmp_path / "data" / "spill").iterdir()]
    # Some 3 MB; a record of messages that are joined is not divided.
    assert len(sizes) > 5
    assert max(sizes) < 65_536 + 2 * 256 * 1024


def test_as_much_is_read_ahead_as_the_setting_says(tmp_path: Path) -> None:
    with started(tmp_path) as broker, opened(broker) as channel:
        channel.queue_declare("q", durable=True)
        # In small records: one is read at least, however large.
        for first in range(0, COUNT, 20):
            fill(channel, "q", range(first, first + 20))
    held = []
    for ahead_bytes in (16_384, 131_072):
        budget = {"memory_budget_bytes": 16 * 1024 * 1024, "read_ahead_bytes_max": ahead_bytes}
        with started(tmp_path, **budget) as broker, opened(broker) as channel:
            channel.basic_qos(prefetch_count=1)
            _, _, body = next(channel.consume("q"))
            assert body == body_of(0)
            wait_until(lambda: held_bytes(broker) >= ahead_bytes)  # noqa: B023 (at once)
            held.append(held_bytes(broker))
    # What one read brings, and one more before that is used up.
    assert held[0] < 4 * 16_384 < 131_072 <= held[1] < 4 * 131_072


def test_basic_get_waits_for_the_disk(tmp_path: Path) -> None:
    with started(tmp_path) as broker, opened(broker) as channel:
        channel.queue_declare("q", durable=True)
        fill(channel, "q", range(COUNT))
        for number in range(1_200):
            method, _, body = channel.basic_get("q", auto_ack=number % 2 == 0)
            assert body == body_of(number)
            assert method.message_count == COUNT - number - 1
        assert channel.queue_purge("q").method.message_count == COUNT - 1_200
        assert channel.basic_get("q") == (None, None, None)


def test_basic_get_that_waits_for_the_disk_is_answered_with_a_message_that_came_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [b"%d" % number * READ_BYTES_MIN for number in range(3)]
    settings = {"read_ahead_bytes_max": READ_BYTES_MIN}
    with started(tmp_path, **settings) as broker, opened(broker) as channel:
        channel.queue_declare("other", durable=True)
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        for body in bodies:
            # In a record each, and so in a read each.
            channel.basic_publish("", "q", body, pika.BasicProperties(delivery_mode=2))
    may_read = Event()
    read = JournalReader.read
    reads: list[ReadPlan] = []

    def held_read(reader: JournalReader, plan: ReadPlan, joins: bool) -> PageRead:
        reads.append(plan)
        assert len(reads) == 1 or may_read.wait(TIMEOUT_SECONDS)
        return read(reader, plan, joins)

    monkeypatch.setattr(JournalReader, "read", held_read)
    with started(tmp_path, **settings) as broker, opened(broker) as channel:
        method, _, body = channel.basic_get("q")
        assert body == bodies[0]
        with Client(broker.host, broker.port).log_in() as other:
            other.open_channel()
            other.send_methods(1, BasicGet(queue="q", no_ack=True))
            messages = part(inside(queue_actor(broker, "q")), MessageQueue)
            wait_until(lambda: messages.wants_head)
            channel.basic_nack(method.delivery_tag)
            assert other.expect_type(1, BasicGetOk).redelivered
            assert other.read_content(1).body == bodies[0]
            # It is settled now, not when the queue has something to do again.
            fill(channel, "other", range(1))
            shutil.copytree(
                tmp_path / "data",
                tmp_path / "killed" / "data",
                ignore=shutil.ignore_patterns("*.sock"),
            )
        may_read.set()
    with started(tmp_path / "killed") as broker, opened(broker) as channel:
        assert drain(channel, "q", 2) == bodies[1:]


def test_a_restart_reads_no_body_before_it_is_needed(tmp_path: Path) -> None:
    with started(tmp_path) as broker, opened(broker) as channel:
        channel.queue_declare("q", durable=True)
        fill(channel, "q", range(COUNT))
    with started(tmp_path) as broker, opened(broker) as channel:
        assert held_bytes(broker) == 0
        assert drain(channel, "q", COUNT) == [body_of(number) for number in range(COUNT)]


def test_what_a_channel_held_comes_back_though_it_was_paged(tmp_path: Path) -> None:
    with started(tmp_path) as broker, opened(broker) as channel:
        channel.queue_declare("q", durable=True)
        fill(channel, "q", range(COUNT))
        with opened(broker) as other:
            for number, (_, _, body) in enumerate(other.consume("q"), 1):
                assert body == body_of(number - 1)
                if number == COUNT:
                    break
            # More comes, so those in flight are paged.
            channel.queue_declare("more", durable=True)
            fill(channel, "more", range(COUNT))
            assert held_bytes(broker) <= 2 * MEMORY_BUDGET_BYTES_MIN
            other.basic_ack(3, multiple=True)
        bodies = []
        for method, _, body in channel.consume("q"):
            assert method.redelivered
            bodies.append(body)
            channel.basic_ack(method.delivery_tag)
            if len(bodies) == COUNT - 3:
                break
        assert bodies == [body_of(number) for number in range(3, COUNT)]


def test_priorities_are_kept_by_paged_messages_also_over_a_restart(tmp_path: Path) -> None:
    arguments = {"x-max-priority": 3}
    with started(tmp_path) as broker, opened(broker) as channel:
        channel.queue_declare("q", durable=True, arguments=arguments)
        for first in range(0, COUNT, 100):
            fill(channel, "q", range(first, first + 100), priority=first // 100 % 4)
    expected = sorted(range(COUNT), key=lambda number: (-(number // 100 % 4), number))
    with started(tmp_path) as broker, opened(broker) as channel:
        assert drain(channel, "q", COUNT) == [body_of(number) for number in expected]


def test_transient_messages_of_several_priorities_are_spilled_and_come_back(
    tmp_path: Path,
) -> None:
    with started(tmp_path) as broker, opened(broker) as channel:
        channel.queue_declare("q", arguments={"x-max-priority": 3})
        for first in range(0, COUNT, 100):
            numbers = range(first, first + 100)
            fill(channel, "q", numbers, priority=first // 100 % 4, delivery_mode=1)
        wait_until(lambda: held_bytes(broker) <= MEMORY_BUDGET_BYTES_MIN)
        expected = sorted(range(COUNT), key=lambda number: (-(number // 100 % 4), number))
        assert drain(channel, "q", COUNT) == [body_of(number) for number in expected]
        # A queue that goes leaves nothing in the spill.
        fill(channel, "q", range(COUNT), delivery_mode=1)
        assert list((tmp_path / "data" / "spill").iterdir())
        channel.queue_delete("q")
        wait_until(lambda: not list((tmp_path / "data" / "spill").iterdir()))


def test_paged_messages_expire_into_a_dead_letter_exchange(tmp_path: Path) -> None:
    with started(tmp_path) as broker, opened(broker) as channel:
        channel.queue_declare("letters", durable=True)
        arguments = {
            "x-message-ttl": 1,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "letters",
        }
        channel.queue_declare("q", durable=True, arguments=arguments)
        fill(channel, "q", range(COUNT))
        assert drain(channel, "letters", COUNT) == [body_of(number) for number in range(COUNT)]


@pytest.mark.parametrize("delivery_mode", [1, 2])
def test_what_left_a_queue_before_its_delete_becomes_a_dead_letter_though_it_was_paged(
    tmp_path: Path, delivery_mode: int
) -> None:
    arguments = {
        "x-max-length": COUNT // 2,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "letters",
    }
    with started(tmp_path) as broker, opened(broker) as channel:
        channel.queue_declare("letters", durable=True)
        channel.queue_declare("q", durable=True, arguments=arguments)
        queue = queue_actor(broker, "q")
        fill(channel, "q", range(COUNT), delivery_mode=delivery_mode)
        # As a rule many of those that were pushed out still wait to be read.
        channel.queue_delete("q")
        assert not queue.is_alive()
        dropped = COUNT // 2
        assert drain(channel, "letters", dropped) == [body_of(number) for number in range(dropped)]
        wait_until(lambda: not context_of(broker).last_letters)
        assert channel.queue_declare("letters", passive=True).method.message_count == 0
        # Nothing stays of the queue.
        wait_until(lambda: not list((tmp_path / "data" / "spill").iterdir()))


def test_a_stop_waits_for_the_dead_letters_of_a_deleted_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = {
        "x-max-length": 20,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "letters",
    }
    with started(tmp_path) as broker, opened(broker) as channel:
        channel.queue_declare("letters", durable=True)
        channel.queue_declare("q", durable=True, arguments=arguments)
        fill(channel, "q", range(20))
    is_stopping = Event()
    read = JournalReader.read

    def held_read(reader: JournalReader, plan: ReadPlan, joins: bool) -> PageRead:
        assert is_stopping.wait(TIMEOUT_SECONDS)
        return read(reader, plan, joins)

    with monkeypatch.context() as patch:
        patch.setattr(JournalReader, "read", held_read)
        with started(tmp_path) as broker:
            with opened(broker) as channel:
                # They push those out that are paged since the start.
                fill(channel, "q", range(20, 40))
                channel.queue_delete("q")
            assert context_of(broker).last_letters
            stop = Thread(target=broker.stop)
            stop.start()
            wait_until(lambda: context_of(broker).is_stopping)
            is_stopping.set()
            stop.join()
    with started(tmp_path) as broker, opened(broker) as channel:
        assert drain(channel, "letters", 20) == [body_of(number) for number in range(20)]


def test_a_stop_while_dropped_messages_are_read_leaves_no_dead_letter_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = {
        "x-max-length": 20,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "letters",
    }
    with started(tmp_path) as broker, opened(broker) as channel:
        channel.queue_declare("letters", durable=True)
        channel.queue_declare("q", durable=True, arguments=arguments)
        fill(channel, "q", range(20))
    reading, is_closing = Event(), Event()
    read = JournalReader.read

    def held_read(reader: JournalReader, plan: ReadPlan, joins: bool) -> PageRead:
        reading.set()
        assert is_closing.wait(TIMEOUT_SECONDS)
        return read(reader, plan, joins)

    files = GatedFiles()
    with monkeypatch.context() as patch:
        patch.setattr(JournalReader, "read", held_read)
        with started(tmp_path, files) as broker:
            with opened(broker) as channel:
                # They push those out that are paged since the start.
                fill(channel, "q", range(20, 40))
            assert reading.wait(TIMEOUT_SECONDS)
            node = broker.node
            assert node is not None

            def close_when_all_is_handled() -> None:
                # Behind the end of the page reader: the journal may write what comes of it, and is
                # told to end before it says so.
                for _ in range(20):
                    on_loop(broker)
                ending.start()

            def release_the_journal() -> None:
                wait_until(lambda: node.open_files.open_name() == "the journal")
                for _ in range(20):
                    on_loop(broker)
                files.release()

            node.open_files.change("the trace", close_when_all_is_handled)
            ending = Thread(target=release_the_journal)
            stop = Thread(target=broker.stop)
            stop.start()
            wait_until(lambda: node.open_files.closed is not None)
            files.hold()
            is_closing.set()
            stop.join()
            ending.join()
    with started(tmp_path) as broker, opened(broker) as channel:
        found = drain(channel, "letters", 20)
        assert found == [body_of(number) for number in range(20)]
        wait_until(lambda: not part(inside(queue_actor(broker, "q")), MessageQueue).dying)
        assert channel.queue_declare("letters", passive=True).method.message_count == 0


@pytest.mark.parametrize("limit", [{"x-max-length": 2_500}, {"x-max-length-bytes": 2_500_000}])
def test_limits_hold_for_paged_messages(tmp_path: Path, limit: dict[str, int]) -> None:
    with started(tmp_path) as broker, opened(broker) as channel:
        channel.queue_declare("q", durable=True, arguments=limit)
        fill(channel, "q", range(COUNT))
        sizes = [len(body_of(number)) for number in range(COUNT)]
        kept = 2_500 if "x-max-length" in limit else 0
        if not kept:
            total = 0
            while total + sizes[COUNT - kept - 1] <= 2_500_000:
                total += sizes[COUNT - kept - 1]
                kept += 1
        assert channel.queue_declare("q", passive=True).method.message_count == kept
        bodies = drain(channel, "q", kept)
        assert bodies == [body_of(number) for number in range(COUNT - kept, COUNT)]


def test_what_the_disk_does_not_have_leaves_with_a_line_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogLines()
    monkeypatch.setattr(sys, "stderr", log.stream)
    with started(tmp_path) as broker, opened(broker) as channel:
        channel.queue_declare("q", durable=True)
        fill(channel, "q", range(COUNT))
        queue = queue_actor(broker, "q")
        # private: only here can a read find nothing.
        messages = inside(queue)._messages
        asked: list[object] = []
        # Nobody consumes, so nothing else reads meanwhile.
        on_loop(
            broker,
            lambda: messages.page_out(0, messages.next_entry_id),
            lambda: setattr(messages, "wants_head", True),
            lambda: asked.append(messages.wanted(0)),
            lambda: tell(queue, EntriesRead([], [(1, 2)], 3)),
        )
        wait_until(lambda: messages.ready.message_count == COUNT - 3)
        assert asked
        [line] = log.of("journal.lost")
        assert line["entries"] == 1
        assert "ids 3: not on the disk" in line["report"]
