"""Clients that publish as fast as they can do not keep the broker from one that sends a message."""

from __future__ import annotations

from collections.abc import Callable

import leveret
import pytest
from insides import (
    context_of,
    inside,
    listener_of,
    on_loop,
    publish_window,
    readers,
    reading_gate,
    wait_until,
)
from leveret.actors.messages import Ref
from leveret.amqp_frames.methods import BasicAck
from wire import PERSISTENT, Client, publish

Connect = Callable[..., Client]
FLOODS = 16
ROUND_BYTES_MAX = 262_144
# The most that a round brings: once it is full, the others still have the smallest share.
BOUND_BYTES = ROUND_BYTES_MAX + FLOODS * 4096
# An event loop reads a socket so often in a row, as long as each read fills the memory for it.
READS_IN_A_ROW_MAX = 32


@pytest.fixture
def settings() -> dict[str, object]:
    return {"read_round_bytes_max": ROUND_BYTES_MAX}


class Flood:
    """A socket that always has more to read than anybody reads."""

    def __init__(self, broker: leveret.Broker, reader: Ref) -> None:
        self._broker = broker
        self._reader = reader
        self.gate = reading_gate(reader)
        self._pending = b""
        self.read_bytes = 0

    def poll(self) -> None:
        """Read it as libuv does."""
        listener = inside(listener_of(self._broker))
        for _ in range(READS_IN_A_ROW_MAX):
            if self.gate.is_paused:
                return
            size = len(listener.next_read_memory)
            while len(self._pending) < size:
                self._pending += publish("flood", b"x" * 100) * 1000
            read, self._pending = self._pending[:size], self._pending[size:]
            self.read_bytes += size
            context_of(self._broker).runtime.tell_read(self._reader, read)


@pytest.fixture
def lone(connect: Connect) -> Client:
    """The first connection: one publish, and its confirm."""
    client = connect()
    client.open_channel(1, confirms=True)
    client.declare("flood", arguments={"x-max-length": 10})
    client.declare("lone", durable=True)
    return client


@pytest.fixture
def floods(broker: leveret.Broker, connect: Connect, lone: Client) -> list[Flood]:
    assert lone
    for _ in range(FLOODS):
        connect().open_channel(1)
    return [Flood(broker, reader) for reader in readers(broker)[1:]]


def poll_all(broker: leveret.Broker, floods: list[Flood], *more: Callable[[], object]) -> int:
    """One poll of all these sockets, which are ready together; returns what it read of floods."""
    wait_until(lambda: not any(flood.gate.is_resting for flood in floods))
    before = sum(flood.read_bytes for flood in floods)
    on_loop(broker, *[flood.poll for flood in floods], *more)
    return sum(flood.read_bytes for flood in floods) - before


def test_a_round_of_the_event_loop_brings_so_much_and_each_flood_an_equal_share(
    broker: leveret.Broker, floods: list[Flood]
) -> None:
    for _ in range(3):
        assert poll_all(broker, floods) <= BOUND_BYTES
    before = [flood.read_bytes for flood in floods]
    rounds = 20
    for _ in range(rounds):
        assert poll_all(broker, floods) <= BOUND_BYTES
    shares = {flood.read_bytes - each for flood, each in zip(floods, before, strict=True)}
    assert shares == {rounds * ROUND_BYTES_MAX // FLOODS}


def test_a_publish_behind_floods_waits_for_two_rounds_of_theirs_at_most(
    broker: leveret.Broker, lone: Client, floods: list[Flood]
) -> None:
    reader = readers(broker)[0]
    tell_read = context_of(broker).runtime.tell_read
    window = publish_window(reader)
    # A transient message: it waits for no disk.
    wire = publish("lone")
    unconfirmed_bytes: list[int] = []
    for number in range(1, 21):
        # Its socket is the last of its poll.
        read_bytes = poll_all(broker, floods, lambda: tell_read(reader, wire))
        read_bytes += poll_all(broker, floods, lambda: unconfirmed_bytes.append(window.used_bytes))
        assert read_bytes <= 2 * BOUND_BYTES
        lone.expect(1, BasicAck(number, False))
    assert unconfirmed_bytes == [0] * 20


def test_a_single_flood_has_the_whole_round(broker: leveret.Broker, floods: list[Flood]) -> None:
    poll_all(broker, floods)
    for _ in range(10):
        poll_all(broker, floods[:1])
    assert poll_all(broker, floods[:1]) == ROUND_BYTES_MAX


def test_what_floods_and_others_publish_all_arrives(
    broker: leveret.Broker, connect: Connect, lone: Client
) -> None:
    """Over real sockets, with shares much smaller than what a client sends."""
    clients = [connect() for _ in range(4)]
    count = 2000
    for client in clients:
        client.open_channel(1, confirms=True)
    wire = publish("lone", b"x" * 500, PERSISTENT) * count
    for client in clients:
        client.send(wire)
    for client in clients:
        acked = 0
        while acked < count:
            acked = client.expect_type(1, BasicAck).delivery_tag
    assert lone.counts("lone") == (len(clients) * count, 0)
    assert not any(reading_gate(reader).is_paused for reader in readers(broker))
