"""Clients that do not read what they asked for: they stop getting it, and memory does not grow.

Their sockets' buffers are small, so that what is not read is the broker's to hold, or not to.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator

import frames_by_hand as wire
import pytest
from broker_process import BrokerProcess
from broker_watch import MIB, memory_bounded
from socket_client import EndedError, SocketClient
from timeouts import TIMEOUT_SECONDS

pytestmark = pytest.mark.usefixtures("bystander")

SMALL_BUFFER_BYTES = 4096
# What one connection may have waiting to be written, in its write buffer and its consumers'
# windows, and twice as much again for the allocator.
UNREAD_BYTES_MAX = 24 * MIB
# So long nothing is read.
UNREAD_SECONDS = 1.5


@pytest.fixture
def filled(attacked: BrokerProcess) -> Iterator[str]:
    """A queue with 40 MB in messages of 10 KB, for one test."""
    client = SocketClient(attacked.port)
    client.open_channel(confirm=True)
    client.declare("filled")
    client.ask(wire.queue_purge(1, "filled"), wire.QUEUE_PURGE_OK)
    message = wire.publish(1, "", "filled", b"x" * 10_000, wire.TRANSIENT)
    for _ in range(40):
        client.send(message * 100)
    while struct.unpack_from(">Q", client.expect(wire.ACK))[0] < 4_000:
        pass
    yield "filled"
    client.ask(wire.queue_purge(1, "filled"), wire.QUEUE_PURGE_OK)
    client.close()


def flood(client: SocketClient, block: bytes, blocks: int) -> int:
    """Send until the broker no longer takes it; how many blocks it took whole."""
    client.socket.settimeout(UNREAD_SECONDS)
    for sent in range(blocks):
        try:
            client.send(block)
        except EndedError:
            return sent
    threading.Event().wait(UNREAD_SECONDS)
    return blocks


@pytest.mark.parametrize("channels", [1, 100])
@pytest.mark.parametrize("no_ack", [False, True])
def test_deliveries_that_are_not_read_stop(
    channels: int, no_ack: bool, attacked: BrokerProcess, filled: str
) -> None:
    with memory_bounded(attacked, UNREAD_BYTES_MAX, f"{channels} consumers, nothing read"):
        client = SocketClient(attacked.port, receive_buffer_bytes=SMALL_BUFFER_BYTES)
        for channel in range(1, channels + 1):
            client.send(wire.method(channel, wire.CHANNEL_OPEN, b"\0"))
            client.send(wire.consume(channel, filled, "tag", no_ack))
        flood(client, b"", 1)
        client.abandon()


def test_deliveries_from_many_queues_that_are_not_read_stop(attacked: BrokerProcess) -> None:
    owner = SocketClient(attacked.port)
    owner.open_channel(confirm=True)
    queues = [f"many-{number}" for number in range(60)]
    for queue in queues:
        owner.ask(wire.queue_declare(1, queue, durable=False), wire.QUEUE_DECLARE_OK)
        owner.send(wire.publish(1, "", queue, b"x" * 10_000, wire.TRANSIENT) * 100)
    while struct.unpack_from(">Q", owner.expect(wire.ACK))[0] < 6_000:
        pass
    with memory_bounded(attacked, UNREAD_BYTES_MAX, "60 queues of 1 MB, nothing read"):
        client = SocketClient(attacked.port, receive_buffer_bytes=SMALL_BUFFER_BYTES)
        client.open_channel()
        client.send(b"".join(wire.consume(1, queue, queue) for queue in queues))
        flood(client, b"", 1)
        # Once it reads, it gets everything.
        client.socket.settimeout(TIMEOUT_SECONDS)
        received = 0
        while received < 6_000:
            received += not isinstance(client.delivery(), wire.Frame)
        client.abandon()
    for queue in queues:
        owner.ask(wire.queue_delete(1, queue), wire.QUEUE_DELETE_OK)
    owner.close()


def test_gets_that_are_not_read_stop(attacked: BrokerProcess, filled: str) -> None:
    with memory_bounded(attacked, UNREAD_BYTES_MAX, "gets, nothing read"):
        client = SocketClient(attacked.port, receive_buffer_bytes=SMALL_BUFFER_BYTES)
        client.open_channel()
        # Got and given back: a small queue would do.
        flood(client, (wire.get(1, filled) + wire.nack(1, 0, multiple=True)) * 1_000, 20)
        client.abandon()


def test_returns_that_are_not_read_stop(attacked: BrokerProcess) -> None:
    message = wire.publish(1, "", "nowhere", b"x" * 1_000, wire.TRANSIENT, mandatory=True)
    with memory_bounded(attacked, UNREAD_BYTES_MAX, "returns, nothing read"):
        client = SocketClient(attacked.port, receive_buffer_bytes=SMALL_BUFFER_BYTES)
        client.open_channel(confirm=True)
        assert flood(client, message * 1_000, 1_000) < 1_000
        client.abandon()


def test_confirms_that_are_not_read_stop(attacked: BrokerProcess) -> None:
    with memory_bounded(attacked, UNREAD_BYTES_MAX, "single acks, nothing read"):
        client = SocketClient(attacked.port, receive_buffer_bytes=SMALL_BUFFER_BYTES)
        client.open_channel(confirm=True)
        message = wire.publish(1, "", "nowhere", b"", wire.TRANSIENT, mandatory=True)
        assert flood(client, message * 1_000, 1_000) < 1_000
        client.abandon()


COMMANDS = {
    "declare": wire.queue_declare(1, "bystander", passive=True),
    "qos": wire.qos(1, 1),
    "exchange": wire.exchange_declare(1, "amq.topic", "topic"),
    "recover": wire.method(1, (60, 110), b"\1"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_answers_that_are_not_read_stop(name: str, attacked: BrokerProcess) -> None:
    command = COMMANDS[name]
    with memory_bounded(attacked, UNREAD_BYTES_MAX, f"{name}, nothing read"):
        client = SocketClient(attacked.port, receive_buffer_bytes=SMALL_BUFFER_BYTES)
        client.open_channel()
        assert flood(client, command * 1_000, 3_000) < 3_000
        client.abandon()


def test_a_close_is_heard_from_a_client_that_does_not_read(
    attacked: BrokerProcess, filled: str
) -> None:
    with memory_bounded(attacked, UNREAD_BYTES_MAX, "a broken frame, nothing read"):
        client = SocketClient(attacked.port, receive_buffer_bytes=SMALL_BUFFER_BYTES)
        client.open_channel()
        client.send(wire.consume(1, filled, "tag"))
        client.send(wire.frame(9, 1, b"not a frame"))
        # Aborted when it does not answer in its time, though its buffer is full.
        flood(client, b"", 1)
        client.abandon()
