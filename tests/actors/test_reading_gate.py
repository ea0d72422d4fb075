"""When a socket is read: not for ever in one go, and not while the broker cannot keep up."""

from __future__ import annotations

import pytest
from hand_scheduler import HandScheduler
from leveret.actors.connection.flow import ReadingGate
from leveret.actors.connection.listener import READ_BYTES_MAX
from leveret.actors.runtime.read_rounds import ReadRounds
from leveret.actors.runtime.runtime import Runtime
from leveret.core.connection.publish_window import NodeWindow, PublishWindow
from leveret.core.connection.reading_time import Pause
from structlog.testing import ReturnLogger

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
def scheduler() -> HandScheduler:
    return HandScheduler()


@pytest.fixture
def rounds(scheduler: HandScheduler) -> ReadRounds:
    return ReadRounds(Runtime(scheduler, ReturnLogger()), READ_BYTES_MAX, READ_BYTES_MAX)  # type: ignore[arg-type]


@pytest.fixture
def gate(transport: Socket, rounds: ReadRounds) -> ReadingGate:
    return ReadingGate(transport, PublishWindow(1000, NodeWindow(10_000), None), rounds)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_running", [True, False])
def test_after_its_share_of_a_round_everything_else_has_its_turn(
    gate: ReadingGate, transport: Socket, is_running: bool
) -> None:
    """Also while the connection opens or closes: who floods then has not even logged in."""
    reads = 0
    while not gate.received(FULL_READ_BYTES):
        reads += 1
        assert reads * FULL_READ_BYTES < READ_BYTES_MAX
    gate.balance(is_running=is_running)
    assert transport.calls == ["pause"]
    # What the event loop still hands over asks for no second rest.
    assert not any(gate.received(FULL_READ_BYTES) for _ in range(10))
    gate.is_resting = False
    gate.balance(is_running=is_running)
    assert transport.calls == ["pause", "resume"]


def test_what_a_connection_brings_is_counted_anew_in_each_round(
    gate: ReadingGate, scheduler: HandScheduler
) -> None:
    for _ in range(10):
        assert not gate.received(READ_BYTES_MAX - 1)
        scheduler.run()


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


def test_the_gate_gives_a_reason_when_it_is_closed_for_longer_than_a_round(
    rounds: ReadRounds,
) -> None:
    window = PublishWindow(1000, NodeWindow(2000), None)
    gate = ReadingGate(Socket(), window, rounds)  # type: ignore[arg-type]
    gate.is_resting = True
    assert gate.reason() is None
    window.add(1001)
    assert gate.reason() is Pause.WINDOW
    window.add(1000)
    window.published()
    assert gate.reason() is Pause.NODE_WINDOW
    gate.is_write_blocked = True
    assert gate.reason() is Pause.CLIENT
    gate.is_alarmed = True
    assert gate.reason() is Pause.ALARM
