"""A dead letter whose target is deleted, full or failing: what becomes of it and its original."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import leveret
import pytest
from gated_files import GatedFiles
from holding import part, parts
from insides import context_of, fail, inside, on_loop, queue_actor, wait_until
from leveret.amqp_frames.methods import (
    BasicDeliver,
    BasicNack,
    BasicReject,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
)
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.dead_letters.letters import (
    DEAD_LETTER_BYTES_PER_ROUND_MIN,
    DEAD_LETTERS_PER_ROUND_MIN,
    DeadLetterRounds,
    DeadLetters,
    Stranded,
)
from leveret.core.definitions import QueueDefinition
from wire import PERSISTENT, Client

TO_DEAD = table_of({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})


def rejected_while_syncing(client: Client, files: GatedFiles) -> None:
    """The dead letter is in the queue "dead", and its sync has not come back."""
    client.declare("q", durable=True, arguments=TO_DEAD)
    client.declare("dead", durable=True)
    client.publish_all("q", b"1", properties=PERSISTENT)
    got = client.get("q")
    assert got is not None
    files.hold()
    client.send_methods(1, BasicReject(got.delivery_tag, False))
    client.wait_for_counts("dead", (1, 0))
    files.wait_until_syncing()


def is_drained(broker: leveret.Broker) -> bool:
    """Asked between two turns: in the midst of one the answer would mean nothing."""
    publisher = inside(context_of(broker).dead_letters)
    answers: list[bool] = []
    on_loop(broker, lambda: answers.append(publisher.is_drained()))
    return answers[0]


def left_in(data_dir: Path, *queues: str) -> list[int]:
    """How many messages a start on the directory finds in each of these queues."""
    with (
        leveret.Broker(data_dir=data_dir, port=0, log_level="error") as broker,
        Client(broker.host, broker.port) as client,
    ):
        client.log_in().open_channel(1)
        return [client.counts(queue)[0] for queue in queues]


def test_a_dead_letter_goes_with_the_queue_that_is_deleted(tmp_path: Path) -> None:
    files = GatedFiles()
    data_dir = tmp_path / "data"
    with (
        leveret.Broker(data_dir=data_dir, port=0, log_level="error", files=files) as broker,
        Client(broker.host, broker.port) as client,
    ):
        client.log_in().open_channel(1, confirms=True)
        rejected_while_syncing(client, files)
        assert client.ask(1, QueueDelete(queue="dead")) == QueueDeleteOk(1)
        files.release()
    assert left_in(data_dir, "q") == [0]


def test_the_original_stays_when_the_target_fails_before_it_has_the_dead_letter(
    tmp_path: Path,
) -> None:
    files = GatedFiles()
    data_dir = tmp_path / "data"
    with (
        leveret.Broker(data_dir=data_dir, port=0, log_level="error", files=files) as broker,
        Client(broker.host, broker.port) as client,
    ):
        client.log_in().open_channel(1, confirms=True)
        rejected_while_syncing(client, files)
        fail(queue_actor(broker, "dead"))
        wait_until(lambda: not queue_actor(broker, "dead").is_alive())
        files.release()
        # And one that dies when its target has failed already.
        client.publish_all("q", b"2", properties=PERSISTENT)
        got = client.get("q")
        assert got is not None
        client.send_methods(1, BasicReject(got.delivery_tag, False))
        client.nothing_more()
    # The first dead letter was on disk after all: it is in both places, the other in its own.
    assert left_in(data_dir, "q", "dead") == [2, 1]


class Settled(dict[QueueDefinition, Any]):
    """The originals that are settled, by queue; counts them, because the publisher clears it."""

    count = 0

    def setdefault(self, source: QueueDefinition, entry_ids: Any = None) -> Any:
        self.count += 1
        return super().setdefault(source, entry_ids)


def test_a_target_that_fails_and_is_deleted_at_once_lets_nothing_go_that_another_queue_owes(
    tmp_path: Path,
) -> None:
    files = GatedFiles()
    data_dir = tmp_path / "data"
    with (
        leveret.Broker(data_dir=data_dir, port=0, log_level="error", files=files) as broker,
        Client(broker.host, broker.port) as client,
    ):
        client.log_in().open_channel(1, confirms=True)
        to_both = table_of({"x-dead-letter-exchange": "amq.fanout"})
        client.declare("q", durable=True, arguments=to_both)
        for name in ("dead", "other"):
            client.declare(name, durable=True)
            bind = QueueBind(queue=name, exchange="amq.fanout")
            assert client.ask(1, bind) == QueueBindOk()
        client.publish_all("q", b"1", properties=PERSISTENT)
        got = client.get("q")
        assert got is not None
        settled = part(inside(context_of(broker).dead_letters), DeadLetters).settled = Settled()
        files.hold()
        client.send_methods(1, BasicReject(got.delivery_tag, False))
        client.wait_for_counts("other", (1, 0))
        files.wait_until_syncing()
        fail(queue_actor(broker, "dead"))
        # The queue is down: it says no count.
        client.send_methods(1, QueueDelete(queue="dead"))
        assert client.expect_type(1, QueueDeleteOk).message_count in (0, 1)
        # "other" has not got it on disk.
        assert settled.count == 0
        files.release()
        client.wait_for_counts("other", (1, 0))
        wait_until(lambda: is_drained(broker))
    assert left_in(data_dir, "other") == [1]
    assert settled.count <= 1


def test_what_is_stranded_by_a_failed_target_goes_to_the_one_that_takes_its_place(
    tmp_path: Path,
) -> None:
    data_dir = tmp_path / "data"
    with (
        leveret.Broker(data_dir=data_dir, port=0, log_level="error") as broker,
        Client(broker.host, broker.port) as client,
    ):
        client.log_in().open_channel(1, confirms=True)
        client.declare("q", durable=True, arguments=TO_DEAD)
        client.declare("dead", durable=True)
        fail(queue_actor(broker, "dead"))
        wait_until(lambda: not queue_actor(broker, "dead").is_alive())
        client.publish_all("q", b"1", b"2", properties=PERSISTENT)
        for _ in range(2):
            got = client.get("q")
            assert got is not None
            client.send_methods(1, BasicReject(got.delivery_tag, False))
        publisher = inside(context_of(broker).dead_letters)
        wait_until(lambda: len(parts(publisher, Stranded)) == 2)
        assert client.ask(1, QueueDelete(queue="dead")) == QueueDeleteOk(0)
        client.declare("dead", durable=True)
        client.wait_for_counts("dead", (2, 0))
        assert not parts(publisher, Stranded)
        wait_until(lambda: is_drained(broker))
    assert left_in(data_dir, "q", "dead") == [0, 2]


def test_a_target_that_is_full_and_rejects_drops_the_dead_letter(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with (
        leveret.Broker(data_dir=data_dir, port=0, log_level="error") as broker,
        Client(broker.host, broker.port) as client,
    ):
        client.log_in().open_channel(1, confirms=True)
        client.declare("q", durable=True, arguments=TO_DEAD)
        full = table_of({"x-max-length": 1, "x-overflow": "reject-publish"})
        client.declare("dead", durable=True, arguments=full)
        client.publish_all("q", b"1", b"2", properties=PERSISTENT)
        for _ in range(2):
            got = client.get("q")
            assert got is not None
            client.send_methods(1, BasicReject(got.delivery_tag, False))
        client.wait_for_counts("dead", (1, 0))
        client.wait_for_counts("q", (0, 0))
    assert left_in(data_dir, "q", "dead") == [0, 1]


def test_what_a_full_target_dead_letters_in_its_turn_stays_until_that_is_on_disk(
    tmp_path: Path,
) -> None:
    files = GatedFiles()
    data_dir, crashed = tmp_path / "data", tmp_path / "crashed"
    count = 3 * DEAD_LETTERS_PER_ROUND_MIN
    with (
        leveret.Broker(data_dir=data_dir, port=0, log_level="error", files=files) as broker,
        Client(broker.host, broker.port) as client,
    ):
        client.log_in().open_channel(1, confirms=True)
        full = {"x-max-length": 0, "x-overflow": "reject-publish-dlx"}
        onward = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "last"}
        client.declare("q", durable=True, arguments=TO_DEAD)
        client.declare("dead", durable=True, arguments=table_of(full | onward))
        client.declare("last", durable=True)
        client.publish_all("q", *(b"%d" % n for n in range(count)), properties=PERSISTENT)
        client.consume("q")
        for _ in range(count):
            client.expect_type(1, BasicDeliver)
            client.read_content(1)
        files.hold()
        client.send_methods(1, BasicNack(0, True, False))
        client.wait_for_counts("last", (count, 0))
        files.wait_until_syncing()
        shutil.copytree(data_dir, crashed, ignore=shutil.ignore_patterns("*.sock"))
        files.release()
        wait_until(lambda: is_drained(broker))
    assert left_in(crashed, "q", "dead") == [count, 0]
    assert left_in(data_dir, "q", "dead", "last") == [0, 0, count]


def left_by_rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many dead letters each round leaves to the next."""
    left: list[int] = []
    ended = DeadLetterRounds.ended

    def noted(rounds: DeadLetterRounds, count: int) -> None:
        left.append(count)
        ended(rounds, count)

    monkeypatch.setattr(DeadLetterRounds, "ended", noted)
    return left


@pytest.mark.parametrize(
    ("count", "body_bytes", "left"),
    [
        (3 * DEAD_LETTERS_PER_ROUND_MIN, 10, [512, 256]),
        # One fills a round.
        (3, DEAD_LETTER_BYTES_PER_ROUND_MIN, [2, 1]),
    ],
)
def test_dead_letters_are_made_in_rounds_and_others_are_served_in_between(
    monkeypatch: pytest.MonkeyPatch,
    broker: leveret.Broker,
    client: Client,
    count: int,
    body_bytes: int,
    left: list[int],
) -> None:
    client.declare("q", arguments=TO_DEAD)
    client.declare("dead")
    client.publish_all("q", *(b"%d" % index + bytes(body_bytes) for index in range(count)))
    client.consume("q")
    for _ in range(count):
        client.read_method(1)
        client.read_content(1)
    waiting = left_by_rounds(monkeypatch)
    client.send_methods(1, BasicNack(0, True, False))
    client.wait_for_counts("dead", (count, 0))
    wait_until(lambda: is_drained(broker))
    assert [count for count in waiting if count] == left


def test_waiting_dead_letters_are_bounded_when_publishers_are_faster(
    monkeypatch: pytest.MonkeyPatch, broker: leveret.Broker, client: Client
) -> None:
    client.declare("q", arguments=TO_DEAD | table_of({"x-max-length": 0}))
    client.declare("dead", arguments=table_of({"x-max-length": 10}))
    left = left_by_rounds(monkeypatch)
    client.publish_all("q", *[bytes(100)] * 200_000)
    client.wait_for_counts("dead", (10, 0))
    wait_until(lambda: is_drained(broker))
    assert left[-1] == 0
    # Of 200,000.
    assert max(left) < 100_000
