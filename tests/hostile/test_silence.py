"""Clients that say too little, too slowly or nothing: a socket each, for a time, and no more.

Nothing here sleeps: a client waits for the broker's octets, and its own pace is that of the wait.
"""

from __future__ import annotations

import time

import frames_by_hand as wire
import pytest
from broker_process import BrokerProcess
from broker_watch import MIB, memory_bounded
from socket_client import EndedError, SocketClient

pytestmark = pytest.mark.usefixtures("bystander")

# As the broker under attack is configured, and room for a busy machine.
HANDSHAKE_SECONDS = (0.8, 10.0)
HANDSHAKE = wire.handshake()
TUNE_AT = HANDSHAKE.index(wire.tune_ok())
OPEN_AT = HANDSHAKE.index(wire.method(0, wire.OPEN, wire.short("/") + b"\0\0"))


def closed_after(client: SocketClient, started: float) -> float:
    """Read until the broker closes the socket; the seconds since, from before it was opened."""
    client.rest()
    return time.monotonic() - started


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"AMQ",
        wire.PROTOCOL_HEADER,
        HANDSHAKE[: TUNE_AT // 2],
        HANDSHAKE[:TUNE_AT],
        HANDSHAKE[:OPEN_AT],
        HANDSHAKE[:-1],
    ],
)
def test_half_a_handshake_and_silence_ends_in_a_closed_socket(
    said: bytes, attacked: BrokerProcess
) -> None:
    started = time.monotonic()
    client = SocketClient(attacked.port, opens=False)
    client.send(said)
    assert HANDSHAKE_SECONDS[0] < closed_after(client, started) < HANDSHAKE_SECONDS[1]


def test_a_handshake_octet_by_octet_has_no_more_time_than_any(attacked: BrokerProcess) -> None:
    started = time.monotonic()
    client = SocketClient(attacked.port, opens=False)
    client.socket.settimeout(0.05)
    try:
        for at in range(len(HANDSHAKE)):
            client.send(HANDSHAKE[at : at + 1])
            drip(client)
    except EndedError:
        pass
    assert HANDSHAKE_SECONDS[0] < time.monotonic() - started < HANDSHAKE_SECONDS[1]


def drip(client: SocketClient) -> None:
    """Take what comes, and give the broker time; EndedError when it has closed."""
    try:
        if not client.socket.recv(10_000):
            raise EndedError("end of stream")
    except TimeoutError:
        pass
    except OSError as error:
        raise EndedError(str(error)) from error


@pytest.mark.parametrize("said", [b"", wire.publish(1, "", "queue", b"x" * 1000)[:-500], b"\1"])
def test_half_a_frame_and_silence_ends_when_heartbeats_are_missed(
    said: bytes, attacked: BrokerProcess
) -> None:
    client = SocketClient(attacked.port, heartbeat=1)
    started = time.monotonic()
    client.open_channel()
    client.send(said)
    frames = []
    try:
        while True:
            frames.append(client.frame())
    except EndedError:
        pass
    # Two intervals without an octet; meanwhile the broker's own heartbeats come.
    assert 1.5 < time.monotonic() - started < 15.0
    assert frames
    assert {frame.kind for frame in frames} == {8}


def test_a_session_octet_by_octet_is_served_and_costs_no_memory(attacked: BrokerProcess) -> None:
    client = SocketClient(attacked.port, opens=False)
    client.socket.settimeout(0.002)
    body = b"x" * 2000
    session = HANDSHAKE + b"".join(
        (
            wire.method(1, wire.CHANNEL_OPEN, b"\0"),
            wire.method(1, wire.CONFIRM_SELECT, b"\0"),
            wire.queue_declare(1, "slow", durable=False),
            wire.publish(1, "", "slow", body),
            wire.method(0, wire.CLOSE, wire.close_arguments()),
        )
    )
    received = b""
    with memory_bounded(attacked, 4 * MIB, "a session octet by octet"):
        for at in range(len(session)):
            client.send(session[at : at + 1])
            if at < len(HANDSHAKE):
                # It has a second for these; what a wait takes on a busy machine is not sure.
                continue
            try:
                received += client.socket.recv(10_000)
            except TimeoutError:
                continue
        client.socket.settimeout(10)
        while more := client.socket.recv(10_000):
            received += more
    assert wire.ack(1, 1) in received
    assert received.endswith(wire.method(0, wire.CLOSE_OK))


def test_five_hundred_silent_connections_cost_little_and_then_nothing(
    attacked: BrokerProcess,
) -> None:
    with memory_bounded(attacked, 24 * MIB, "500 half handshakes"):
        silent = [SocketClient(attacked.port, opens=False) for _ in range(500)]
        for number, client in enumerate(silent):
            client.send(HANDSHAKE[: number % len(HANDSHAKE)])
        for client in silent:
            assert closed_after(client, time.monotonic()) < HANDSHAKE_SECONDS[1]
            client.abandon()
