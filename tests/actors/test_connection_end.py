"""How long the socket of a closed connection stays, on a clock that is set by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from hand_scheduler import HandScheduler
from leveret.actors.connection.clock import ConnectionClock
from leveret.actors.connection.end import ConnectionEnd
from leveret.actors.messages import Abandon, CloseTransport, StartHeartbeats, Woken
from leveret.actors.runtime.runtime import LoopActor, Runtime
from leveret.actors.runtime.ticker import Ticker
from leveret.configuration import Configuration
from leveret.core.connection.draining import Draining
from leveret.core.connection.waiting_peers import WaitingPeers
from leveret.core.statistics.traffic import Traffic


class RecordingActor(LoopActor):
    """Writes down what it is told."""

    def __init__(self, received: list[object]) -> None:
        super().__init__()
        self.received = received

    def on_receive(self, message: object) -> None:
        self.received.append(message)


class Wire:
    """A transport that writes down its end."""

    def __init__(self) -> None:
        self.ended = ""
        self.waiting_bytes = 0

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def abort(self) -> None:
        self.ended = "aborted"


class Bench:
    """Connections on one event loop that a test turns by hand."""

    def __init__(self) -> None:
        self.scheduler = HandScheduler()
        self.runtime = Runtime(self.scheduler, structlog.get_logger("test"))
        self.context: Any = SimpleNamespace(
            runtime=self.runtime,
            ticker=Ticker.start_on(self.runtime, lambda *_: None),
            close_timeout_seconds=10,
            draining=Draining(2, Configuration().drain_timeout_ms),
            unopened=WaitingPeers[object](0.0),
            open_connections={},
        )

    def connection(self) -> Connection:
        return Connection(self)


class Connection:
    def __init__(self, bench: Bench) -> None:
        self.read: list[object] = []
        self.written: list[object] = []
        self.reader = RecordingActor.start_on(bench.runtime, self.read)
        self.writer = RecordingActor.start_on(bench.runtime, self.written)
        self.wire: Any = Wire()
        clock = ConnectionClock(bench.context, self.reader, Traffic())
        self.end = ConnectionEnd(bench.context, self.wire, clock, self.reader)
        bench.context.open_connections[self.reader] = "open"


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize(
    ("heartbeat_seconds", "seconds_max", "waits_seconds"),
    [(0, None, 30), (60, None, 30), (5, None, 5), (60, 3.0, 3)],
)
def test_a_client_has_30_seconds_or_its_heartbeat_to_close_its_socket(
    bench: Bench, heartbeat_seconds: int, seconds_max: float | None, waits_seconds: int
) -> None:
    connection = bench.connection()
    connection.end.drain(connection.writer, heartbeat_seconds, seconds_max)
    bench.scheduler.advance(waits_seconds - 0.1)
    assert connection.read == []
    bench.scheduler.advance(0.1)
    assert connection.read == [Woken("close")]
    # No heartbeat stands behind close-ok.
    assert connection.written == [StartHeartbeats(0)]


def test_a_closed_connection_counts_no_more_as_open(bench: Bench) -> None:
    connection = bench.connection()
    connection.end.drain(connection.writer, 0)
    assert bench.context.open_connections == {}


def test_the_one_closed_first_is_dropped_in_the_next_round_where_there_is_one_too_many(
    bench: Bench,
) -> None:
    connections = [bench.connection() for _ in range(3)]
    for connection in connections:
        connection.end.drain(connection.writer, 0)
    # Its close-ok may have been written in this round.
    assert connections[0].read == []
    bench.scheduler.run()
    assert [connection.read for connection in connections] == [[Abandon()], [], []]


def test_nobody_gives_way_when_all_are_closed_because_the_broker_stops(bench: Bench) -> None:
    connections = [bench.connection() for _ in range(3)]
    for connection in connections:
        connection.end.is_shut_down = True
        connection.end.drain(connection.writer, 0)
    bench.scheduler.run()
    assert [connection.read for connection in connections] == [[], [], []]


def test_a_stop_closes_a_socket_that_drains_and_aborts_one_that_takes_nothing(
    bench: Bench,
) -> None:
    takes, stuck = bench.connection(), bench.connection()
    stuck.wire.waiting_bytes = 1
    for connection in (takes, stuck):
        connection.end.close_now(connection.writer)
    bench.scheduler.run()
    assert (takes.wire.ended, takes.written) == ("", [CloseTransport()])
    assert (stuck.wire.ended, stuck.written) == ("aborted", [])
