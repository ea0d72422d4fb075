"""Clients that say nothing: the handshake's time-out, heartbeats both ways, an unanswered close."""

from __future__ import annotations

from collections.abc import Callable

import leveret
import pytest
from held_clock import HeldClock
from holding import part
from insides import inside, on_loop, readers, wait_until
from leveret.amqp_frames.constants import FRAME_HEARTBEAT, HEARTBEAT_FRAME
from leveret.amqp_frames.methods import ConnectionClose, ConnectionOpen, ConnectionTune
from leveret.core.statistics.traffic import Traffic
from timeouts import TIMEOUT_SECONDS
from wire import Client, Frame

# The setting's default.
HANDSHAKE_SECONDS = 10
HEARTBEAT = Frame(FRAME_HEARTBEAT, 0, b"")


@pytest.fixture
def settings() -> dict[str, object]:
    return {"drain_timeout_ms": 100}


@pytest.fixture
def clock(broker: leveret.Broker, connect: Callable[..., Client]) -> HeldClock:
    """Behind a first login, whose password check is no matter of this clock."""
    connect().drop()
    wait_until(lambda: not readers(broker))
    return HeldClock(broker)


def assert_closed_in_time(client: Client, clock: HeldClock) -> None:
    """When the handshake's time is over, and not before."""
    clock.advance(HANDSHAKE_SECONDS - 0.001)
    client.socket.settimeout(0.1)
    with pytest.raises(TimeoutError):
        client.read_frame()
    client.socket.settimeout(TIMEOUT_SECONDS)
    clock.advance(0.001)
    client.expect_closed()


def test_a_client_that_never_speaks_is_closed(broker: leveret.Broker, clock: HeldClock) -> None:
    with Client(broker.host, broker.port) as client:
        wait_until(lambda: bool(readers(broker)))
        # Behind the round in which it came.
        on_loop(broker)
        assert_closed_in_time(client, clock)


def test_a_client_that_stops_in_the_handshake_is_closed(
    broker: leveret.Broker, clock: HeldClock
) -> None:
    with Client(broker.host, broker.port) as client:
        client.offer()
        client.expect_type(0, ConnectionTune)
        assert_closed_in_time(client, clock)


def test_a_client_that_has_shaken_hands_is_not(
    connect: Callable[..., Client], clock: HeldClock
) -> None:
    client = connect()
    clock.advance(2 * HANDSHAKE_SECONDS)
    client.open_channel(1)


def test_a_client_that_does_not_answer_a_close_is_closed(connect: Callable[..., Client]) -> None:
    client = connect()
    client.send_methods(0, ConnectionOpen())
    assert client.expect_type(0, ConnectionClose).reply_code == 504
    client.expect_closed()


def test_heartbeats_come_every_interval_and_a_client_without_any_is_closed(
    connect: Callable[..., Client], clock: HeldClock
) -> None:
    client = connect(heartbeat_seconds=10)
    for _ in range(2):
        clock.advance(5)
        clock.advance(5)
        assert client.read_frame() == HEARTBEAT
    # Two intervals of silence, looked at twice an interval; the first look saw the handshake.
    clock.advance(5)
    client.expect_closed()


def test_a_client_that_only_sends_heartbeats_stays(
    broker: leveret.Broker, connect: Callable[..., Client], clock: HeldClock
) -> None:
    client = connect(heartbeat_seconds=10)
    traffic = part(inside(readers(broker)[0]), Traffic)
    clock.advance(5)
    # Longer than the two intervals of silence that are granted.
    for _ in range(6):
        reads = traffic.received_count
        client.send(HEARTBEAT_FRAME)
        wait_until(lambda before=reads: traffic.received_count > before)  # type: ignore[misc]
        clock.advance(5)
    client.open_channel(1)


def test_no_heartbeats_are_sent_to_a_client_that_wants_none(
    connect: Callable[..., Client], clock: HeldClock
) -> None:
    client = connect(heartbeat_seconds=0)
    clock.advance(3600)
    client.open_channel(1)
