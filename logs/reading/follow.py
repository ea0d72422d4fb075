"""Chooses the lines of a trace to show while they are written, and formats them.

Few events name all of a message's facts: the routing key is in `message.routed` only, and a confirm
names numbers. So the follower remembers, of the batches that came last, which messages are wanted,
and shows every hop of these. Earlier events wait for `message.routed`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from ..spans import Spans
from ..trace.events import EVENTS
from ..trace.parsing import Line
from .channel_rules import numbered_places
from .explain import details
from .reader import TraceFilesError

# So many batches are remembered; messages that are delivered later are known by their queue only.
BATCHES_MAX: Final = 100_000
_BEFORE_ROUTED: Final = ("frame.received", "command.assembled", "permission.granted")
# Its answer follows when the channel's mailbox is empty.
_RECORDED: Final = "confirm.recorded"
_ANSWERS: Final = (_RECORDED, "confirm.sent", "confirm.nacked")
# It names the numbers that it leaves without an answer.
_NEVER_ANSWERED: Final = "channel.closed"

BatchKey = tuple[str, int]


class Wanted(NamedTuple):
    """The filter of the events to show; an empty set matches everything."""

    queues: frozenset[str] = frozenset()
    connections: frozenset[str] = frozenset()
    routing_keys: frozenset[str] = frozenset()
    # Names of events, or what stands before their dot.
    events: frozenset[str] = frozenset()

    def check(self) -> None:
        """TraceFilesError if there is no event of such a name."""
        known = {*EVENTS, *(name.partition(".")[0] for name in EVENTS)}
        for name in sorted(self.events - known):
            raise TraceFilesError(f"there is no event {name!r}; docs/TRACE.md lists them")


class _Batch:
    """The follower's state of one batch."""

    def __init__(self) -> None:
        self.waiting: list[tuple[bytes, Line]] = []
        self.is_routed = False
        self.wanted = Spans()


class Follower:
    """Reads every line in order; returns those to show now."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._is_by_message = bool(wanted.queues or wanted.routing_keys or wanted.connections)
        self._batches: OrderedDict[BatchKey, _Batch] = OrderedDict()
        # Per channel: numbers of wanted messages that are to be answered.
        self._numbers: dict[tuple[str, str, int], Spans] = {}

    def select(self, data: bytes, line: Line) -> list[tuple[bytes, Line]]:
        """The lines to be shown, as they were written and parsed."""
        if not self._is_by_message:
            shown = [(data, line)]
        elif "messages" in line:
            shown = self._about_messages(data, line)
        else:
            shown = [(data, line)] if self._is_wanted(line) else []
        return [each for each in shown if self._is_wanted_event(each[1]["event"])]

    def _is_wanted_event(self, event: str) -> bool:
        """Events of the trace about itself are always shown, because they report missing events."""
        events, kind = self._wanted.events, event.partition(".")[0]
        return not events or event in events or kind in events or kind == "trace"

    def _about_messages(self, data: bytes, line: Line) -> list[tuple[bytes, Line]]:
        batch = self._batch((line["boot"], line["batch"]))
        event = line["event"]
        if event in _BEFORE_ROUTED:
            batch.waiting.append((data, line))
            return []
        if event == "message.routed":
            batch.is_routed = True
            return self._routed(batch, data, line) if self._is_wanted_route(line) else []
        if event == "message.refused":
            # It has no route; what waited may be about messages before it.
            return self._before(batch, data, line) if self._is_wanted(line) else []
        # All of the batch has been routed; what still waits is nobody's.
        batch.waiting = []
        return [(data, line)] if self._is_wanted_hop(batch, line) else []

    def _routed(self, batch: _Batch, data: bytes, line: Line) -> list[tuple[bytes, Line]]:
        batch.wanted.add(line["messages"])
        shown = self._before(batch, data, line)
        for _, before in shown:
            self._note_numbers(before, Spans(line["messages"]))
        return shown

    def _before(self, batch: _Batch, data: bytes, line: Line) -> list[tuple[bytes, Line]]:
        """The line, and what waited for it."""
        shown = [*batch.waiting, (data, line)]
        batch.waiting = []
        return shown

    def _is_wanted_hop(self, batch: _Batch, line: Line) -> bool:
        """Behind the routing: is it a wanted message, in a wanted queue?"""
        queues, connections, keys, _ = self._wanted
        is_on_connection = line.get("connection") in connections
        if batch.is_routed:
            is_there = bool(batch.wanted.common(line["messages"]))
        else:
            # It was published before the follower began, or its publisher is unknown.
            is_there = not keys and (not connections or is_on_connection)
        # A dead letter is in another queue than the requested one.
        is_there = is_there and (not queues or line.get("queue", "") in {"", *queues})
        if is_there and line["event"] == "message.dead_lettered":
            letters = self._batch((line["boot"], line["letter_batch"]))
            letters.is_routed = True
            letters.wanted.add(line["letters"])
        return is_there or is_on_connection

    def _is_wanted_route(self, line: Line) -> bool:
        queues, connections, keys, _ = self._wanted
        return (
            (not queues or not queues.isdisjoint(line["queues"]))
            and (not connections or line["connection"] in connections)
            and (not keys or line["routing_key"] in keys)
        )

    def _note_numbers(self, assembled: Line, wanted: Spans) -> None:
        """The numbers of these places are to be answered."""
        if assembled["event"] == "command.assembled":
            key = assembled["boot"], assembled["connection"], assembled["channel"]
            numbers = self._numbers.setdefault(key, Spans())
            for given in numbered_places(assembled):
                places = [(given.place, given.place + given.last - given.first)]
                before = given.first - given.place
                numbers.add((before + a, before + b) for a, b in wanted.common(places))

    def _is_wanted(self, line: Line) -> bool:
        """A line that names no message: a confirm, a sync, or the life of something."""
        event = line["event"]
        if "batches" in line:
            batches = (self._batches.get((line["boot"], number)) for number in line["batches"])
            return any(batch is not None and batch.wanted for batch in batches)
        if event in _ANSWERS:
            return self._is_wanted_answer(line)
        if event == _NEVER_ANSWERED and self._is_wanted_answer(line):
            return True
        queues, connections, keys, _ = self._wanted
        named = {line.get("queue"), *line.get("queues", ())}
        return event.startswith("trace.") or (
            not keys
            and (not queues or not queues.isdisjoint(named))
            and (not connections or line.get("connection") in connections)
        )

    def _is_wanted_answer(self, line: Line) -> bool:
        """Is a wanted message's number in it, which is then answered, or never will be?"""
        key = line["boot"], line["connection"], line["channel"]
        numbers = self._numbers.get(key, Spans())
        said = numbers.common(line["seq_no"])
        if line["event"] != _RECORDED:
            numbers.remove(said)
        if not numbers or line["event"] == _NEVER_ANSWERED:
            self._numbers.pop(key, None)
        return bool(said)

    def _batch(self, key: BatchKey) -> _Batch:
        batch = self._batches.get(key)
        if batch is None:
            batch = self._batches[key] = _Batch()
            if len(self._batches) > BATCHES_MAX:
                self._batches.popitem(last=False)
        return batch


def readable(line: Line) -> str:
    """One line for a person: when, who, what, which messages, and the rest."""
    about: Sequence[str] = [
        f"{line['connection']} channel {line['channel']}" if "channel" in line else "",
        f"{line['boot']}-{line['batch']}" if "batch" in line else "",
        details({"event": "", "messages": line["messages"]}, ["event"])
        if "messages" in line
        else "",
        details(line),
    ]
    rest = " ".join(filter(None, about))
    return f"{line['time'][11:26]}  {line['actor']:<8} {line['event']:<21} {rest}".rstrip()
