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

A touch gives some messages of a delivery a later deadline, and with it a note of their own. The
older note stays in the heap, and passes them over. As in nsqd (TouchMessage) the time begins anew
at a touch, up to a maximum from the delivery on; and a touch never brings a deadline forward.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import ClassVar, Final

from ...amqp_frames.values.field_table import Table
from ..connection.reading_time import ReadingTime
from .in_flight import Deadline, Delivery
from .parts import Part

# Fewer deadlines are not worth a look for answered deliveries among them.
NOTED_MIN: Final = 64

# How long behind its delivery a touch may put off a deadline, by default: nsqd's max-msg-timeout.
TOUCHED_TIMEOUT_MS_MAX: Final = 15 * 60 * 1000

# When it is over, the number of the note, what the delivery's deadline is reckoned from, the
# positions that it speaks of, the number that `Deadline.notes` has for them, and for how long the
# connection had not been read when the time was reckoned.
_Note = tuple[int, int, Deadline, int, int, int, int]


class InFlightTimeouts(Part):
    """Notes deliveries with their deadlines, and gives back the due ones.

    timeout_ms: of deliveries whose consumer has none of its own; None: no deadline
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
        deadline = delivery.deadline = Deadline(delivery, channel, reading, uptime_ms, timeout_ms)
        due_ms = uptime_ms + timeout_ms
        self._push(due_ms, deadline, 0, len(delivery.span), 0, deadline.paused_ms)

    def touch(
        self, delivery: Delivery, low: int, high: int, uptime_ms: int, touched_ms_max: int
    ) -> int | None:
        """Have the time of these messages, which are in flight, begin anew; return when it ends.

        At most `touched_ms_max` behind the delivery, or its own time-out if that is longer. None:
        the delivery has no deadline.
        """
        deadline = delivery.deadline
        if deadline is None:
            return None
        paused_ms = deadline.reading.paused_ms(uptime_ms)
        last_ms = deadline.delivered_ms + max(touched_ms_max, deadline.timeout_ms)
        last_ms += paused_ms - deadline.paused_ms
        due_ms = min(uptime_ms + deadline.timeout_ms, last_ms)
        if deadline.notes is None:
            deadline.notes = array("Q", bytes(8 * len(delivery.span)))
        # Above 0, and no other note's.
        touch = self._number + 1
        deadline.notes[low:high] = array("Q", (touch,)) * (high - low)
        self._push(due_ms, deadline, low, high, touch, paused_ms)
        return due_ms

    def _push(
        self, due_ms: int, deadline: Deadline, low: int, high: int, touch: int, paused_ms: int
    ) -> None:
        self._number += 1
        heappush(self._noted, (due_ms, self._number, deadline, low, high, touch, paused_ms))
        if len(self._noted) > self._noted_max:
            self._forget_answered()

    def _forget_answered(self) -> None:
        self._noted = [note for note in self._noted if _is_needed(note)]
        heapify(self._noted)
        self._noted_max = max(NOTED_MIN, 2 * len(self._noted))

    def next_due_ms(self) -> int | None:
        """When the first deadline passes, on the clock of `note`; None if there is none."""
        noted = self._noted
        while noted and not _is_needed(noted[0]):
            heappop(noted)
        return noted[0][0] if noted else None

    def due(self, uptime_ms: int, count_max: int) -> list[tuple[object, Delivery, int, int]]:
        """Parts of deliveries whose time is over, with their channels: noted no longer.

        Those of so many notes at most.
        """
        over: list[tuple[object, Delivery, int, int]] = []
        count = 0
        while self._noted and self._noted[0][0] <= uptime_ms and count < count_max:
            note = heappop(self._noted)
            due_ms, _, deadline, low, high, touch, paused_before_ms = note
            delivery = deadline.delivery
            parts = list(_parts_of(note))
            if delivery is None or not parts:
                continue
            paused_ms = deadline.reading.paused_ms(uptime_ms)
            due_ms += paused_ms - paused_before_ms
            if due_ms > uptime_ms:
                self._push(due_ms, deadline, low, high, touch, paused_ms)
                continue
            self.was_late = True
            count += 1
            over += [(deadline.channel, delivery, first, end) for first, end in parts]
        return over


def _is_needed(note: _Note) -> bool:
    """Does it speak of a message that is in flight, and has no later touch?"""
    deadline = note[2]
    if deadline.notes is None:
        return deadline.delivery is not None
    return next(_parts_of(note), None) is not None


def _parts_of(note: _Note) -> Iterator[tuple[int, int]]:
    """The ranges of positions that are in flight and whose deadline the note has."""
    _, _, deadline, low, high, touch, _ = note
    if deadline.delivery is None:
        return
    held = deadline.delivery.held(low, high)
    notes = deadline.notes
    if notes is None:
        yield from held
        return
    for first, end in held:
        at = first
        while at < end:
            begin = at
            while at < end and notes[at] == touch:
                at += 1
            if begin < at:
                yield begin, at
            at += 1


def in_flight_timeouts_part(arguments: Table) -> InFlightTimeouts:
    """The part that `x-in-flight-timeout` asks for."""
    timeout_ms = arguments["x-in-flight-timeout"].value
    assert isinstance(timeout_ms, int)
    return InFlightTimeouts(timeout_ms)
