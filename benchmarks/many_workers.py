"""Many connections that consume one queue, as workers do: one thread, one epoll.

Each holds few deliveries unacked, one as a rule, acks each by itself and then gets the next. One
more connection publishes, so that the queue does not run dry.
"""

from __future__ import annotations

import select
import struct
from collections.abc import Callable, Sequence
from time import perf_counter

from benchmarks import wire
from benchmarks.client import Client
from benchmarks.load import LoadedConnection
from benchmarks.poll import STALLED_SECONDS, Poll, drain_samples, plain_socket, received, send_all

_frame_head = struct.Struct(">BHI")
_DELIVER_IDS = struct.pack(">HH", 60, 60)
# Of a basic.deliver, from the begin of its frame: its ids, and the length of its consumer tag.
_IDS_AT = 7
_CONSUMER_TAG_AT = 11
_BODY_END = wire.BODY_MARKER + wire.FRAME_END


class Worker:
    """One connection with a consumer that acks each message by itself."""

    def __init__(self, client: Client) -> None:
        self.socket = plain_socket(client)
        self.delivered = 0
        # From an ack to the delivery that follows it.
        self.latencies: list[float] = []
        self._acked_at = 0.0
        self._unread = b""

    def turn(self) -> int:
        """Take the deliveries that have come, and ack them; say how many they were."""
        data = self._unread + received(self.socket)
        now = perf_counter()
        position, acks = 0, []
        while (end := _end_of_delivery(data, position, self.delivered + 1)) > 0:
            self.delivered += 1
            acks.append(wire.ack(1, self.delivered))
            position = end
        self._unread = data[position:]
        if acks:
            if self._acked_at:
                self.latencies.append(now - self._acked_at)
            self._acked_at = perf_counter()
            send_all(self.socket, b"".join(acks))
        return len(acks)


class ManyWorkers:
    """The load of all workers, with the connection that fills their queue."""

    def __init__(self, workers: Sequence[Worker], filler: LoadedConnection, backlog: int) -> None:
        """The filler publishes while fewer than `backlog` messages are not delivered."""
        self._workers = workers
        self._filler = filler
        self._backlog = backlog
        # Deliveries so far.
        self.messages_back = 0
        self._poll = Poll()
        for worker in workers:
            self._poll.add(worker.socket.fileno(), self._turn_of(worker))
        self._poll.add(filler.socket.fileno(), self._filler_turn)

    @property
    def confirmed(self) -> int:
        """Publishes confirmed so far."""
        assert self._filler.publisher is not None
        return self._filler.publisher.confirmed

    @property
    def sent(self) -> int:
        """Publishes sent so far."""
        assert self._filler.publisher is not None
        return self._filler.publisher.sent

    def _turn_of(self, worker: Worker) -> Callable[[int], None]:
        def turn(_events: int) -> None:
            self.messages_back += worker.turn()

        return turn

    def latencies(self) -> list[float]:
        """Give the times from an ack to the next delivery since this was asked last."""
        return drain_samples([each.latencies for each in self._workers])

    def run(self, seconds: float) -> None:
        """Consume for this long."""
        end = perf_counter() + seconds
        while perf_counter() < end:
            self._fill()
            self._poll.turn(STALLED_SECONDS)

    def drain(self) -> None:
        """Publish no more; go on until every publish is confirmed and consumed."""
        while self.confirmed < self.sent or self.messages_back < self.sent:
            self._poll.turn(STALLED_SECONDS)

    def _fill(self) -> None:
        missing = self._backlog - (self.sent - self.messages_back)
        if missing > 0:
            self._filler.publish(missing)
            self._flush()

    def _filler_turn(self, events: int) -> None:
        if events & select.EPOLLIN:
            self._filler.read()
        self._flush()

    def _flush(self) -> None:
        is_waiting = self._filler.flush()
        self._poll.wait_for_room(self._filler.socket.fileno(), is_waiting)


def _end_of_delivery(data: bytes, begin: int, tag: int) -> int:
    """Say where the delivery that begins there ends; 0 if it is not whole yet.

    ValueError if it is no delivery, or has another tag: none may be missing, or come twice.
    """
    end = begin
    for kind in (1, 2, 3):
        if len(data) - end < _frame_head.size:
            return 0
        found, _channel, size = _frame_head.unpack_from(data, end)
        if found != kind:
            raise ValueError(f"a frame of kind {found}, not {kind}: {data[end:].hex()}")
        end += wire.FRAME_OVERHEAD_BYTES + size
    if end > len(data):
        return 0
    tag_at = begin + _CONSUMER_TAG_AT + 1 + data[begin + _CONSUMER_TAG_AT]
    if (
        data[begin + _IDS_AT : begin + _CONSUMER_TAG_AT] != _DELIVER_IDS
        or data[tag_at : tag_at + 8] != tag.to_bytes(8)
        or not data.endswith(_BODY_END, begin, end)
    ):
        raise ValueError(f"not the delivery with tag {tag}: {data[begin:end].hex()}")
    return end
