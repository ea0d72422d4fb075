"""Input behind a command whose answer is awaited: never more than the window allows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import leveret
import pytest
from gated_files import GatedFiles
from holding import parts
from insides import channel_actor, inside, publish_window, readers, reading_gate, wait_until
from leveret.actors.connection.listener import READ_BYTES_MAX
from leveret.amqp_frames.decoder import ChannelInput
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    QueuePurge,
    QueuePurgeOk,
    TxCommit,
    TxCommitOk,
)
from transactions import COMMIT, transactional
from wire import PERSISTENT, Client, methods_of, publish

WINDOW_BYTES = 65_536
# Of all that is unacked, also where nothing is.
ACK = methods_of(1, BasicAck(0, True))
ROW = 1000


@pytest.fixture
def settings() -> dict[str, object]:
    return {"publish_window_bytes_max": WINDOW_BYTES}


def committing(connect: Callable[..., Client], files: GatedFiles) -> Client:
    """A client whose commit waits for the disk."""
    client = transactional(connect)
    client.declare("durable", durable=True)
    files.hold()
    client.send(publish("durable", b"body", PERSISTENT), COMMIT)
    files.wait_until_syncing()
    return client


def held_tags(broker: leveret.Broker) -> int:
    """How many acks of the first connection's channel 1 wait for their turn."""
    channel = inside(channel_actor(readers(broker)[0]))
    held = [each.acks for each in parts(channel, ChannelInput)]
    return sum(len(acks.tags) for acks in held if acks is not None)


@contextmanager
def acks_without_end(client: Client) -> Iterator[None]:
    """Sent at line speed by a thread: it waits in its turn when the broker reads no more."""
    is_enough = threading.Event()

    def send() -> None:
        while not is_enough.is_set():
            client.send(ACK * ROW)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        is_enough.set()
        sender.join()


def wait_until_it_reads_no_more(broker: leveret.Broker) -> None:
    reader = readers(broker)[0]
    wait_until(lambda: publish_window(reader).is_closed and reading_gate(reader).is_paused)


def assert_all_is_handled(client: Client, broker: leveret.Broker) -> None:
    client.nothing_more()
    reader = readers(broker)[0]
    window, gate = publish_window(reader), reading_gate(reader)
    wait_until(lambda: window.used_bytes == 0 and not gate.is_paused)


def test_acks_behind_a_purge_that_waits_for_the_disk_stop_the_reading_and_are_then_carried_out(
    client: Client, broker: leveret.Broker, files: GatedFiles
) -> None:
    client.declare("work")
    client.publish_all("work", *[b"body"] * 5)
    client.declare("durable", durable=True)
    client.publish_all("durable", b"body", properties=PERSISTENT)
    client.consume("work")
    for _ in range(5):
        client.expect_type(1, BasicDeliver)
        client.read_content(1)
    files.hold()
    client.send_methods(1, QueuePurge(queue="durable"))
    files.wait_until_syncing()
    client.send_methods(1, *(BasicAck(tag, False) for tag in range(1, 6)))
    with acks_without_end(client):
        wait_until_it_reads_no_more(broker)
        # One read more than the window holds, and one that was under way.
        assert held_tags(broker) < WINDOW_BYTES // 16 + 2 * READ_BYTES_MAX // len(ACK)
        files.release()
    client.expect(1, QueuePurgeOk(1))
    assert_all_is_handled(client, broker)
    assert client.counts("work") == (0, 1)


def test_acks_behind_a_commit_that_waits_for_the_disk_stop_the_reading(
    connect: Callable[..., Client], broker: leveret.Broker, files: GatedFiles
) -> None:
    client = committing(connect, files)
    with acks_without_end(client):
        wait_until_it_reads_no_more(broker)
        files.release()
    client.expect(1, TxCommitOk())
    assert_all_is_handled(client, broker)
    assert client.ask(1, TxCommit()) == TxCommitOk()


def test_small_publishes_read_one_by_one_are_held_back_with_their_keep(
    connect: Callable[..., Client], broker: leveret.Broker, files: GatedFiles
) -> None:
    client = transactional(connect)
    client.declare("durable", durable=True)
    client.send(publish("durable", b"body", PERSISTENT))
    files.hold()
    client.send(COMMIT)
    files.wait_until_syncing()
    window = publish_window(readers(broker)[0])
    count = 0
    while not window.is_closed:
        count += 1
        assert count < 100, "the window counts their bytes only"
        client.send(publish("durable"))
        client.nothing_more(2)
    files.release()
    client.expect(1, TxCommitOk())
    assert_all_is_handled(client, broker)
    assert client.ask(1, TxCommit()) == TxCommitOk()
    assert client.counts("durable", 2) == (count + 1, 0)


def test_a_publish_that_is_held_back_keeps_no_whole_read(
    connect: Callable[..., Client], broker: leveret.Broker, files: GatedFiles
) -> None:
    client = committing(connect, files)
    client.send(publish("durable", b"held"), publish("nowhere", bytes(50_000), channel=2))
    client.nothing_more(2)
    (held,) = parts(inside(channel_actor(readers(broker)[0])), ChannelInput)
    assert held.batch is not None
    assert len(held.batch.wire) < 1000
    files.release()
    client.expect(1, TxCommitOk())
    assert client.ask(1, TxCommit()) == TxCommitOk()
    assert client.counts("durable", 2) == (2, 0)
    assert client.get("durable", channel=2) is not None
    got = client.get("durable", channel=2)
    assert got is not None
    assert got.body == b"held"
    assert_all_is_handled(client, broker)


def test_acks_that_are_handled_at_once_take_up_nothing_of_the_window(
    client: Client, broker: leveret.Broker
) -> None:
    window = publish_window(readers(broker)[0])
    for _ in range(20):
        client.send(ACK * ROW)
        assert not window.is_closed
    assert_all_is_handled(client, broker)
