"""The part of a queue whose deliveries have a deadline: `x-in-flight-timeout`.

A delivery that its client has not answered when the time is over returns to the queue, and nobody's
channel is closed (nsqd's message time-out; RabbitMQ closes the channel instead). The argument of a
queue holds for all its deliveries, those of basic.get too; a consumer with the same argument has a
time of its own. The clock is one that only goes forward, in milliseconds, because a step of the
wall clock must not end the work of every client at once.

The deadlines lie in a heap, so a queue that is woken pays for the due deliveries, and not for all
in flight. An answered delivery stays there until its time is over, or until half of the heap is of
this kind. A delivery's deadline moves by the time for which its connection was not read: the queue
reckons with it when the delivery would be due.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import ClassVar, Final

from ...amqp_frames.values.field_table import Table
from ..connection.reading_time import ReadingTime
from .in_flight import Delivery
from .parts import Part

# Fewer deadlines are not worth a look for answered deliveries among them.
NOTED_MIN: Final = 64

# When it is over, the number of the note, the channel that holds the delivery, the delivery, its
# connection, and for how long this had not been read when the time was reckoned.
_Note = tuple[int, int, object, Delivery, ReadingTime, int]


class InFlightTimeouts(Part):
    """Notes deliveries with their deadlines, and gives back the due ones.

    timeout_ms: of deliveries to whom nobody gave another; None for no deadline
    """

    __slots__ = ("_noted", "_noted_max", "_number", "timeout_ms", "was_late")

    name: ClassVar[str] = "in-flight time-outs"

    def __init__(self, timeout_ms: int | None = None) -> None:
        self.timeout_ms = timeout_ms
        # Has a delivery timed out? Then a late answer may still come, and gives its credit back.
        self.was_late = False
        self._noted: list[_Note] = []
        self._noted_max = NOTED_MIN
        # Notes of one deadline stay in order, and deliveries are never compared.
        self._number = 0

    def succeed(self, before: Part, _now_ms: int) -> None:
        """Deliveries keep the deadlines that they have."""
        assert isinstance(before, InFlightTimeouts)
        self._noted, self._noted_max = before._noted, before._noted_max
        self._number = before._number
        self.was_late = before.was_late

    def remainder(self, _rows: object) -> Part | None:
        """Deliveries that have a deadline keep it, and late answers are known as such."""
        rest = InFlightTimeouts()
        rest.succeed(self, 0)
        rest._forget_answered()
        return rest if rest._noted or rest.was_late else None

    def __len__(self) -> int:
        """How many deliveries are noted, answered ones included."""
        return len(self._noted)

    def note(
        self, channel: object, delivery: Delivery, reading: ReadingTime, uptime_ms: int
    ) -> None:
        """The channel gets this delivery now; `reading` is its connection's."""
        consumer = delivery.consumer
        timeout_ms = self.timeout_ms
        if consumer is not None and consumer.in_flight_timeout_ms is not None:
            timeout_ms = consumer.in_flight_timeout_ms
        if timeout_ms is None:
            return
        paused_ms = reading.paused_ms(uptime_ms)
        self._push(uptime_ms + timeout_ms, channel, delivery, reading, paused_ms)
        if len(self._noted) > self._noted_max:
            self._forget_answered()

    def _push(
        self,
        due_ms: int,
        channel: object,
        delivery: Delivery,
        reading: ReadingTime,
        paused_ms: int,
    ) -> None:
        self._number += 1
        heappush(self._noted, (due_ms, self._number, channel, delivery, reading, paused_ms))

    def _forget_answered(self) -> None:
        self._noted = [note for note in self._noted if note[3].remaining]
        heapify(self._noted)
        self._noted_max = max(NOTED_MIN, 2 * len(self._noted))

    def next_due_ms(self) -> int | None:
        """When the first deadline passes, on the clock of `note`; None if there is none."""
        noted = self._noted
        while noted and not noted[0][3].remaining:
            heappop(noted)
        return noted[0][0] if noted else None

    def due(self, uptime_ms: int, count_max: int) -> list[tuple[object, Delivery]]:
        """Up to so many deliveries whose time is over, with their channels: noted no longer."""
        over: list[tuple[object, Delivery]] = []
        while self._noted and self._noted[0][0] <= uptime_ms and len(over) < count_max:
            due_ms, _, channel, delivery, reading, paused_before_ms = heappop(self._noted)
            if not delivery.remaining:
                continue
            paused_ms = reading.paused_ms(uptime_ms)
            due_ms += paused_ms - paused_before_ms
            if due_ms > uptime_ms:
                self._push(due_ms, channel, delivery, reading, paused_ms)
            else:
                self.was_late = True
                over.append((channel, delivery))
        return over


def in_flight_timeouts_part(arguments: Table) -> InFlightTimeouts:
    """The part that `x-in-flight-timeout` asks for."""
    timeout_ms = arguments["x-in-flight-timeout"].value
    assert isinstance(timeout_ms, int)
    return InFlightTimeouts(timeout_ms)
