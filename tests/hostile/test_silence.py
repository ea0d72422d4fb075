"""Clients that say too little, too slowly or nothing: a socket each, for a time, and no more.

Nothing here sleeps: a client waits for the broker's octets, and its own pace is that of the wait.
"""

from __future__ import annotations

import time

import frames_by_hand as wire
import pytest
from broker_process import BrokerProcess
from broker_watch import MIB, memory_bounded
from bystander import logged_in
from socket_client import EndedError, SocketClient
from timeouts import TIMEOUT_SECONDS

pytestmark = pytest.mark.usefixtures("bystander")

# As the broker under attack is configured; a little less, for its clock is another.
HANDSHAKE_MS = 1000
HANDSHAKE_SECONDS_MIN = 0.8
HANDSHAKE = wire.handshake()
TUNE_AT = HANDSHAKE.index(wire.tune_ok())
OPEN_AT = HANDSHAKE.index(wire.method(0, wire.OPEN, wire.short("/") + b"\0\0"))


@pytest.fixture(scope="module")
def handshake_timeout_ms() -> int:
    return HANDSHAKE_MS


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
    assert HANDSHAKE_SECONDS_MIN < closed_after(client, started) < TIMEOUT_SECONDS


def test_a_handshake_octet_by_octet_has_no_more_time_than_any(attacked: BrokerProcess) -> None:
    started = time.monotonic()
    client = SocketClient(attacked.port, opens=False)
    client.socket.settimeout(0.05)
    with pytest.raises(EndedError):
        drip_handshake(client)
    assert time.monotonic() - started > HANDSHAKE_SECONDS_MIN


def drip_handshake(client: SocketClient) -> None:
    for at in range(len(HANDSHAKE)):
        client.send(HANDSHAKE[at : at + 1])
        drip(client)


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
    client = logged_in(attacked.port, heartbeat=1)
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
    assert 1.5 < time.monotonic() - started < TIMEOUT_SECONDS
    assert frames
    assert {frame.kind for frame in frames} == {8}


def logged_in_octet_by_octet(port: int) -> SocketClient:
    """It has a second for these; what that takes on a busy machine is not sure."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        client = SocketClient(port, opens=False)
        try:
            for at in range(len(HANDSHAKE)):
                client.send(HANDSHAKE[at : at + 1])
            client.expect(wire.OPEN_OK)
        except EndedError:
            assert time.monotonic() < deadline, "no login is in time"
        else:
            return client


def test_a_session_octet_by_octet_is_served_and_costs_no_memory(attacked: BrokerProcess) -> None:
    body = b"x" * 2000
    session = b"".join(
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
        client = logged_in_octet_by_octet(attacked.port)
        client.socket.settimeout(0.002)
        for at in range(len(session)):
            client.send(session[at : at + 1])
            try:
                received += client.socket.recv(10_000)
            except TimeoutError:
                continue
        client.socket.settimeout(TIMEOUT_SECONDS)
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
            assert closed_after(client, time.monotonic()) < TIMEOUT_SECONDS
            client.abandon()
