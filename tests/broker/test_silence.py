"""Clients that say nothing: the handshake's time-out, heartbeats both ways, an unanswered close."""

from __future__ import annotations

import time
from collections.abc import Callable

import leveret
import pytest
from insides import context_of
from leveret.amqp_frames.constants import FRAME_HEARTBEAT, HEARTBEAT_FRAME
from leveret.amqp_frames.methods import ConnectionClose, ConnectionOpen, ConnectionTune
from wire import Client, Frame

HEARTBEAT = Frame(FRAME_HEARTBEAT, 0, b"")


@pytest.fixture
def settings() -> dict[str, object]:
    return {"drain_timeout_ms": 100}


@pytest.fixture
def impatient(broker: leveret.Broker, connect: Callable[..., Client]) -> leveret.Broker:
    """Behind a first login, whose password check may take its time on a busy machine."""
    connect().drop()
    context_of(broker).handshake_timeout_seconds = 0.5
    return broker


@pytest.mark.parametrize("settings", [{"handshake_timeout_ms": 500}])
def test_a_client_that_never_speaks_is_closed(broker: leveret.Broker) -> None:
    with Client(broker.host, broker.port) as client:
        client.expect_closed()


def test_a_client_that_stops_in_the_handshake_is_closed(impatient: leveret.Broker) -> None:
    with Client(impatient.host, impatient.port) as client:
        client.offer()
        client.expect_type(0, ConnectionTune)
        client.expect_closed()


def test_a_client_that_has_shaken_hands_is_not(
    impatient: leveret.Broker, connect: Callable[..., Client]
) -> None:
    client = connect()
    client.socket.settimeout(0.7)
    with pytest.raises(TimeoutError):
        client.read_frame()


def test_a_client_that_does_not_answer_a_close_is_closed(connect: Callable[..., Client]) -> None:
    client = connect()
    client.send_methods(0, ConnectionOpen())
    assert client.expect_type(0, ConnectionClose).reply_code == 504
    client.expect_closed()


def test_heartbeats_come_twice_an_interval_and_a_client_without_any_is_closed(
    connect: Callable[..., Client],
) -> None:
    start = time.monotonic()
    client = connect(heartbeat_seconds=1)
    beats = 0
    while True:
        try:
            assert client.read_frame() == HEARTBEAT
        except (AssertionError, ConnectionError):
            break
        beats += 1
    elapsed = time.monotonic() - start
    # Two intervals of silence, looked at twice an interval.
    assert 1.5 <= elapsed <= 10
    assert beats >= 2


def test_a_client_that_only_sends_heartbeats_stays(connect: Callable[..., Client]) -> None:
    client = connect(heartbeat_seconds=1)
    # Longer than the two intervals of silence that are granted.
    for _ in range(3):
        assert client.read_frame() == HEARTBEAT
        client.send(HEARTBEAT_FRAME)
    client.open_channel(1)


def test_no_heartbeats_are_sent_to_a_client_that_wants_none(
    connect: Callable[..., Client],
) -> None:
    client = connect(heartbeat_seconds=0)
    client.socket.settimeout(0.7)
    with pytest.raises(TimeoutError):
        client.read_frame()
