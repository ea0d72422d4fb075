"""The rules for a channel's publish numbers, checked on its events in order.

Numbers follow each other; each is answered once, a return before its ack; at the channel's end each
is answered or given up. An answer that is in order says which messages were confirmed, for the
rules of their queues (batch_rules.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from ..spans import Spans
from ..trace.parsing import Line
from .views import View

# (boot, connection, channel).
ChannelKey = tuple[str, str, int]
# Called for each fault, with the event at which it shows and its description.
OnFault = Callable[[Line, str], None]

CHANNEL_EVENTS: Final = frozenset(
    (
        *("channel.opened", "channel.closed", "command.assembled", "message.returned"),
        *("rejection.received", "confirm.sent", "confirm.nacked"),
    )
)


class Confirmed(NamedTuple):
    """Publishes whose basic.ack was written: places of a batch, and the first of their numbers."""

    batch: int
    messages: list[list[int]]
    seq_no: int


class Given(NamedTuple):
    """Consecutive numbers and the consecutive places of a batch that have them."""

    first: int
    last: int
    batch: int
    place: int


class ChannelRules:
    """One channel of one boot, from one opening of it to the next and so on."""

    def __init__(self, view: View, on_fault: OnFault) -> None:
        self._on_fault = on_fault
        self._view = view
        # Numbers that are answered, and those of them whose begin the trace does not have.
        self.answered = 0
        self.unjudged = 0
        self._begin(is_seen=view.is_complete)

    def _begin(self, *, is_seen: bool) -> None:
        """Nothing is known of its numbers; `is_seen` if none was given before."""
        self._is_seen = is_seen
        # The last number that was given; 0 if some may have been given unseen.
        self._last = 0
        self._given: list[Given] = []
        self._known = Spans()
        self._open = Spans()
        self._returned = Spans()

    @property
    def open_count(self) -> int:
        """Publishes that are numbered and neither answered nor given up."""
        return self._open.count()

    def feed(self, line: Line, view: View) -> list[Confirmed]:
        """Apply one of CHANNEL_EVENTS; returns the messages that it confirmed."""
        if view is not self._view:
            if view.gaps != self._view.gaps:
                self._begin(is_seen=False)
            elif view.changes != self._view.changes:
                self._last = 0
            self._view = view
        event = line["event"]
        if line.get("late"):
            # It is none of those whose numbers were noted when they were given. Several queues may
            # trace it late, one after another, and the first of them may have rejected it already.
            numbers = Spans(line.get("seq_no", ()))
            numbers.remove(self._known)
            self._known.add(numbers)
            self._open.add(numbers)
        if event == "command.assembled":
            self._assembled(line)
        elif event == "message.returned":
            self._return(line)
        elif event == "channel.closed":
            self._close(line)
        elif event == "channel.opened":
            self._begin(is_seen=True)
        elif event != "rejection.received":
            return self._answer(line)
        return []

    def _fault(self, line: Line, numbers: Spans, said: str) -> None:
        if numbers and self._view.is_sure:
            was = "was" if numbers.count() == 1 else "were"
            self._on_fault(line, f"{_where(line)}: {_publishes(numbers)} {was} {said}")

    def _assembled(self, line: Line) -> None:
        for given in numbered_places(line):
            first, last = given.first, given.last
            if first <= self._last:
                self._fault(line, Spans([(first, min(last, self._last))]), "given twice")
            elif self._view.is_whole and self._last and first != self._last + 1:
                numbers = f"{self._last + 1} to {first - 1}"
                self._on_fault(line, f"{_where(line)}: publish numbers {numbers} are missing")
            self._last = max(self._last, last)
            self._given.append(given)
            if len(self._given) > 1 and self._given[-2].first > first:
                self._given.sort()
            self._known.add([(first, last)])
            self._open.add([(first, last)])

    def _return(self, line: Line) -> None:
        numbers = line.get("seq_no", [])
        # Its ack stands directly behind it, in the same write.
        early = self._open.missing(self._known.common(numbers))
        self._fault(line, early, "confirmed before its return")
        self._count(numbers)
        self._open.remove(numbers)
        self._returned.add(numbers)

    def _answer(self, line: Line) -> list[Confirmed]:
        is_ack = line["event"] == "confirm.sent"
        word = "confirmed" if is_ack else "nacked"
        numbers = Spans(line["seq_no"])
        returned = self._returned.common(numbers)
        self._fault(line, returned, f"{word} behind its return's own ack")
        numbers.remove(returned)
        answered = self._open.common(numbers)
        numbers.remove(answered)
        self._fault(line, self._known.common(numbers), "answered twice")
        numbers.remove(self._known)
        if self._is_seen or (self._given and self._view.is_sure):
            # Numbers assigned before the first visible one are older than the trace.
            unknown = numbers if self._is_seen else numbers.common([(self._given[0].first, _END)])
            self._fault(line, unknown, f"{word} but never came")
        self._count(line["seq_no"])
        self._open.remove(answered)
        return list(self._confirmed(answered)) if is_ack else []

    def _confirmed(self, numbers: Spans) -> Iterator[Confirmed]:
        """The messages that have these numbers."""
        for first, last in numbers:
            at = max(bisect_right(self._given, first, key=_first) - 1, 0)
            while at < len(self._given) and self._given[at].first <= last:
                given = self._given[at]
                low, high = max(first, given.first), min(last, given.last)
                if low <= high:
                    place = given.place + low - given.first
                    yield Confirmed(given.batch, [[place, place + high - low]], low)
                at += 1

    def _count(self, numbers: Sequence[Sequence[int]]) -> None:
        said = Spans(numbers)
        self.answered += said.count()
        if not self._view.is_sure:
            self.unjudged += said.count()
        elif not self._is_seen:
            self.unjudged += self._known.missing(said).count()

    def _close(self, line: Line) -> None:
        """End the channel: its unanswered publishes stay so, and its number may be used again."""
        silent = Spans(self._open)
        silent.remove(line["seq_no"])
        self._fault(line, silent, "never answered nor given up")
        self._begin(is_seen=True)


_END: Final = 2**63


def _first(given: Given) -> int:
    return given.first


def numbered_places(line: Line) -> Iterator[Given]:
    """Which number each place has: the n-th number goes with the n-th place."""
    places = iter(line["messages"])
    place, last_place = 0, -1
    for first, last in line.get("seq_no", ()):
        at = first
        while at <= last:
            if place > last_place:
                # A line that lacks places is damaged; its numbers count all the same.
                place, last_place = next(places, (0, last - at))
            count = min(last - at, last_place - place) + 1
            yield Given(at, at + count - 1, line["batch"], place)
            at += count
            place += count


def _where(line: Line) -> str:
    return f"{line['connection']} channel {line['channel']}"


def _publishes(numbers: Spans) -> str:
    """`publish 3`, `publishes 3 to 9`, `publishes 3 to 9 and 12 others`."""
    (first, last), *more = numbers
    others = numbers.count() - (last - first + 1)
    shown = f"publish {first}" if first == last else f"publishes {first} to {last}"
    return f"{shown} and {others} others" if more else shown
