"""When a socket is read: not for ever in one go, and not while the broker cannot keep up."""

from __future__ import annotations

import pytest
from leveret.actors.connection.flow import BURST_BYTES_MAX, ReadingGate
from leveret.core.connection.publish_window import NodeWindow, PublishWindow

FULL_READ_BYTES = 250_000


class Socket:
    """A transport that notes what it is told."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.is_closed = False

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


@pytest.fixture
def transport() -> Socket:
    return Socket()


@pytest.fixture
def gate(transport: Socket) -> ReadingGate:
    return ReadingGate(transport, PublishWindow(1000, NodeWindow(10_000), None))  # type: ignore[arg-type]


@pytest.mark.parametrize("is_running", [True, False])
def test_after_a_burst_of_full_reads_everything_else_has_its_turn(
    gate: ReadingGate, transport: Socket, is_running: bool
) -> None:
    """Also while the connection opens or closes: who floods then has not even logged in."""
    reads = 0
    while not gate.received(FULL_READ_BYTES):
        reads += 1
        assert reads * FULL_READ_BYTES < BURST_BYTES_MAX
    gate.balance(is_running=is_running)
    assert transport.calls == ["pause"]
    # What the event loop still hands over is no second burst.
    assert not any(gate.received(FULL_READ_BYTES) for _ in range(10))
    gate.is_resting = False
    gate.balance(is_running=is_running)
    assert transport.calls == ["pause", "resume"]


def test_reads_that_empty_the_socket_are_no_burst(gate: ReadingGate) -> None:
    assert not any(gate.received(60_000) for _ in range(100))


def test_a_rest_that_is_over_does_not_open_what_is_closed_for_another_reason(
    gate: ReadingGate, transport: Socket
) -> None:
    gate.is_write_blocked = True
    gate.is_resting = True
    gate.balance(is_running=True)
    gate.is_resting = False
    gate.balance(is_running=True)
    assert transport.calls == ["pause"]
    gate.is_write_blocked = False
    gate.balance(is_running=True)
    assert transport.calls == ["pause", "resume"]


def test_a_closing_transport_is_neither_paused_nor_resumed(
    gate: ReadingGate, transport: Socket
) -> None:
    gate.is_resting = True
    gate.balance(is_running=True)
    transport.is_closed = True
    gate.is_resting = False
    gate.balance(is_running=True)
    assert transport.calls == ["pause"]


def test_the_gate_gives_a_reason_when_it_is_closed_for_longer_than_a_round() -> None:
    window = PublishWindow(1000, NodeWindow(2000), None)
    gate = ReadingGate(Socket(), window)  # type: ignore[arg-type]
    gate.is_resting = True
    assert gate.reason() == ""
    window.add(1001)
    assert gate.reason() == "its publishes wait inside the broker"
    window.add(1000)
    window.published()
    assert gate.reason() == "the publishes of all connections wait inside the broker"
    gate.is_write_blocked = True
    assert gate.reason() == "its client does not read"
    gate.is_alarmed = True
    assert gate.reason() == "there is an alarm"
