"""The many connections of the load: what they send, and that nothing is missing or comes twice."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from timeouts import TIMEOUT_SECONDS

from benchmarks import wire
from benchmarks.many_publishers import Messages, Publisher
from benchmarks.many_workers import Worker

MESSAGES = [wire.publish(1, "", "q", wire.body_of(20 + number)) for number in range(5)]


@pytest.fixture
def ends() -> Iterator[tuple[Any, socket.socket]]:
    """A client, and the broker's end of its socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(TIMEOUT_SECONDS)
        yield SimpleNamespace(socket=ours), theirs


def delivery(tag: int, body: bytes = wire.body_of(100)) -> bytes:
    deliver = wire.shortstr("consumer") + struct.pack(">QB", tag, 0) + wire.shortstr("") * 2
    # Behind the method of a publish stand header and body, as they do in a delivery.
    method = wire.method(1, 60, 40, bytes(2) + wire.shortstr("") + wire.shortstr("q") + b"\0")
    return wire.method(1, 60, 60, deliver) + wire.publish(1, "", "q", body).removeprefix(method)


def test_a_publisher_sends_the_next_message_when_one_is_confirmed(ends: Any) -> None:
    client, broker = ends
    publisher = Publisher(client, Messages(MESSAGES), window=1)
    publisher.publish()
    publisher.publish()
    assert broker.recv(10_000) == MESSAGES[0]
    broker.sendall(wire.ack(1, 1))
    publisher.turn(publishing=True)
    assert broker.recv(10_000) == MESSAGES[1]
    assert (publisher.sent, publisher.confirmed, len(publisher.latencies)) == (2, 1, 1)


def test_a_window_of_several_is_filled_whatever_the_confirms_are(ends: Any) -> None:
    client, broker = ends
    publisher = Publisher(client, Messages(MESSAGES), window=3)
    publisher.publish()
    assert broker.recv(10_000) == b"".join(MESSAGES[:3])
    single, multiple = wire.ack(1, 2), wire.ack(1, 3, multiple=True)
    broker.sendall(single + multiple[:5])
    publisher.turn(publishing=True)
    assert broker.recv(10_000) == MESSAGES[3]
    broker.sendall(multiple[5:])
    publisher.turn(publishing=True)
    # The pool goes round.
    assert broker.recv(10_000) == MESSAGES[4] + MESSAGES[0]
    assert (publisher.sent, publisher.confirmed) == (6, 3)


@pytest.mark.parametrize(
    "answer",
    [wire.ack(1, 2), wire.method(1, *wire.NACK, struct.pack(">QB", 1, 0)), delivery(1)],
    ids=["a number that is not on its way", "nack", "something else"],
)
def test_a_publisher_takes_nothing_but_its_confirm(ends: Any, answer: bytes) -> None:
    client, broker = ends
    publisher = Publisher(client, Messages(MESSAGES), window=1)
    publisher.publish()
    broker.sendall(answer)
    with pytest.raises(ValueError, match=r"confirm"):
        publisher.turn(publishing=True)


def test_a_worker_acks_each_delivery_wherever_the_reads_end(ends: Any) -> None:
    client, broker = ends
    worker = Worker(client)
    stream = b"".join(delivery(tag, wire.body_of(50 + tag)) for tag in range(1, 11))
    step = 37
    for begin in range(0, len(stream), step):
        broker.sendall(stream[begin : begin + step])
        worker.turn()
    assert worker.delivered == 10
    assert broker.recv(10_000) == b"".join(wire.ack(1, tag) for tag in range(1, 11))


@pytest.mark.parametrize(
    "stream",
    [
        delivery(2),
        delivery(1) + delivery(1),
        delivery(1, b"x" * 50),
        wire.ack(1, 1) + delivery(1),
    ],
    ids=["one is missing", "one comes twice", "another body", "no delivery"],
)
def test_a_worker_finds_what_is_missing_or_comes_twice(ends: Any, stream: bytes) -> None:
    client, broker = ends
    worker = Worker(client)
    broker.sendall(stream)
    with pytest.raises(ValueError, match=r"delivery|frame of kind"):
        worker.turn()
