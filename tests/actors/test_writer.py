"""The writer: one write for what came together, windows, heartbeats, the close at the end."""

from __future__ import annotations

import pytest
import structlog
from hand_scheduler import HandScheduler
from insides import inside
from leveret.actors.connection.writer import GATHERED_BYTES_MIN, Writer
from leveret.actors.messages import (
    CloseTransport,
    Down,
    Ref,
    Sent,
    StartHeartbeats,
    WriteBuffer,
    WriteDeliveries,
    WriteStalled,
)
from leveret.actors.runtime.runtime import Runtime, tell
from leveret.actors.runtime.ticker import Ticker
from leveret.amqp_frames.constants import HEARTBEAT_FRAME
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.connection.outlet import NodeOutlet, Outlet
from leveret.core.connection.reading_time import ReadingTime
from leveret.core.queue.consumers import Consumer
from leveret.core.statistics.traffic import Traffic
from recorders import RecordingActor

MIB = 1 << 20


class Wire:
    """A transport that writes down what it is given."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.gathered: list[list[bytes]] = []
        self.ended = ""
        # Bytes that the client has not taken yet, while it takes none.
        self.is_stuck = False
        self.waiting_bytes = 0

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def get_extra_info(self, name: str) -> None:
        return None

    def write(self, data: bytes) -> None:
        assert not self.ended
        self.writes.append(data)
        self.waiting_bytes += len(data) if self.is_stuck else 0

    def writelines(self, pieces: list[bytes]) -> None:
        self.gathered.append(list(pieces))

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"


class Bench:
    def __init__(self) -> None:
        self.scheduler = HandScheduler()
        self.runtime = Runtime(self.scheduler, structlog.get_logger("test"))
        self.wire = Wire()
        self.listener = RecordingActor.start_on(self.runtime)
        ticker = Ticker.start_on(self.runtime, lambda actor, error: None)
        outlet = Outlet(MIB, NodeOutlet(MIB)).share()
        credit = ChannelCredit(outlet, ReadingTime())
        self.consumer = Consumer("channel", b"\3tag", 0, credit, no_ack=True, exclusive=False)
        self.traffic = Traffic()
        self.writer: Ref = Writer.start_on(
            self.runtime, self.wire, self.listener, ticker, self.traffic
        )

    def tell(self, *messages: object) -> None:
        for message in messages:
            tell(self.writer, message)
        self.scheduler.run()

    @property
    def received(self) -> list[object]:
        return inside(self.listener).received


@pytest.fixture
def bench() -> Bench:
    return Bench()


def deliveries(bench: Bench, data: bytes, window_bytes: int) -> WriteDeliveries:
    consumer = bench.consumer
    consumer.window_bytes += window_bytes
    consumer.waits_for_socket = True
    outlet = Outlet(MIB, NodeOutlet(MIB)).share()
    outlet.add(window_bytes)
    return WriteDeliveries([data], outlet, window_bytes, bench.listener, consumer)


def test_frames_of_one_turn_go_out_in_one_write_and_in_order(bench: Bench) -> None:
    bench.tell(b"1", deliveries(bench, b"2", 5), b"3")
    assert bench.wire.writes == [b"123"]


def test_much_is_handed_over_in_pieces_and_not_copied(bench: Bench) -> None:
    large = bytes(GATHERED_BYTES_MIN)
    bench.tell(b"1", large)
    assert bench.wire.writes == []
    assert bench.wire.gathered == [[b"1", large]]


def test_a_window_opens_when_the_socket_has_taken_its_bytes(bench: Bench) -> None:
    bench.tell(deliveries(bench, b"1", 5))
    assert bench.received == [Sent(bench.consumer)]
    assert bench.consumer.window_bytes == 0


def test_windows_stay_closed_while_the_socket_is_full(bench: Bench) -> None:
    bench.tell(WriteBuffer(True))
    bench.tell(deliveries(bench, b"1", 5), deliveries(bench, b"2", 6))
    assert bench.wire.writes == [b"12"]
    assert bench.received == []
    bench.tell(WriteBuffer(False))
    # Once: the queue then gives it what it has room for.
    assert bench.received == [Sent(bench.consumer)]
    assert bench.consumer.window_bytes == 0


def test_a_queue_that_does_not_wait_for_the_socket_is_not_told(bench: Bench) -> None:
    written = deliveries(bench, b"1", 5)
    bench.consumer.waits_for_socket = False
    bench.tell(written)
    assert bench.consumer.window_bytes == 0
    assert bench.received == []


def test_nothing_is_written_and_no_window_opened_once_the_socket_closes(bench: Bench) -> None:
    bench.wire.abort()
    bench.tell(b"1", deliveries(bench, b"2", 5))
    assert bench.wire.writes == []
    assert bench.received == []


def test_a_heartbeat_is_written_in_each_interval_in_which_nothing_else_was(bench: Bench) -> None:
    bench.tell(StartHeartbeats(5.0))
    bench.scheduler.advance(5)
    assert bench.wire.writes == [HEARTBEAT_FRAME]
    # The heartbeat was a write of the second interval.
    bench.scheduler.advance(5)
    assert bench.wire.writes == [HEARTBEAT_FRAME]
    bench.scheduler.advance(5)
    assert bench.wire.writes == [HEARTBEAT_FRAME] * 2
    bench.scheduler.advance(5)
    bench.tell(b"1")
    bench.scheduler.advance(5)
    assert bench.wire.writes == [HEARTBEAT_FRAME, HEARTBEAT_FRAME, b"1"]


def test_a_client_that_takes_nothing_for_two_intervals_is_reported(bench: Bench) -> None:
    bench.wire.is_stuck = True
    bench.tell(StartHeartbeats(5.0), WriteBuffer(True), b"x" * 100)
    # The looks are half intervals apart; heartbeats that are written meanwhile are no sign of life.
    for _ in range(4):
        assert bench.received == []
        bench.scheduler.advance(5)
    assert bench.received == [WriteStalled()]


def test_a_client_that_takes_a_little_now_and_then_is_not(bench: Bench) -> None:
    bench.wire.is_stuck = True
    bench.tell(StartHeartbeats(5.0), WriteBuffer(True), b"x" * 1000)
    for _ in range(10):
        bench.scheduler.advance(15)
        bench.wire.waiting_bytes -= 1
        # The buffer grows all the same.
        bench.tell(b"x" * 10)
    assert bench.received == []


def test_a_client_whose_buffer_has_room_is_not(bench: Bench) -> None:
    bench.wire.is_stuck = True
    bench.tell(StartHeartbeats(5.0), WriteBuffer(True), b"x" * 100)
    bench.scheduler.advance(15)
    bench.tell(WriteBuffer(False))
    bench.scheduler.advance(60)
    assert bench.received == []


def test_the_close_comes_behind_what_is_left_to_write(bench: Bench) -> None:
    bench.tell(b"last", CloseTransport())
    assert bench.wire.writes == [b"last"]
    assert bench.wire.ended == "closed"


def test_a_writer_that_fails_tells_its_reader(bench: Bench) -> None:
    bench.tell(StartHeartbeats(None))  # type: ignore[arg-type]
    assert bench.received == [Down(bench.writer, "writer")]
