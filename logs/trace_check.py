"""Checks a trace against what the broker promises; whatever wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .trace_reader import Line

# (boot, batch), and (boot, connection, channel).
BatchKey = tuple[str, int]
ChannelKey = tuple[str, str, int]


@dataclass
class _Batch:
    """What is known of one batch."""

    # Queues, by number, whose part is in the journal's buffer, not synced yet.
    appended: set[int] = field(default_factory=set)
    queue_ids: dict[str, int] = field(default_factory=dict)
    # Per queue: places it has; places that wait for a sync there.
    held: dict[str, set[int]] = field(default_factory=dict)
    waiting: dict[str, set[int]] = field(default_factory=dict)


@dataclass
class _Channel:
    """What is known of one channel's publish numbers."""

    last: int = 0
    open: set[int] = field(default_factory=set)
    answered: set[int] = field(default_factory=set)
    returned: set[int] = field(default_factory=set)


class TraceCheck:
    """Feed it all events in order; `faults` are what must not be, each in one sentence."""

    def __init__(self) -> None:
        self.events = 0
        self.answered = 0
        self.faults: list[str] = []
        self._batches: dict[BatchKey, _Batch] = {}
        self._channels: dict[ChannelKey, _Channel] = {}
        # Are all messages traced, so that numbers must follow each other?
        self._is_whole = False
        self._has_lost = False

    @property
    def open_count(self) -> int:
        """Publishes that are numbered and neither answered nor given up by their channel's end."""
        return sum(len(channel.open) for channel in self._channels.values())

    def feed(self, lines: Iterable[Line]) -> None:
        """Take the next events."""
        for line in lines:
            self.events += 1
            event = line["event"]
            if event == "trace.started":
                self._is_whole = line.get("one_of") == 1 and not line.get("queues")
            elif event == "trace.lost":
                self._has_lost = True
                self._is_whole = False
            else:
                handle = _HANDLERS.get(event)
                if handle is not None:
                    handle(self, line)

    def _fault(self, line: Line, text: str) -> None:
        self.faults.append(f"{line['time']} boot {line['boot']}: {text}")

    # --- The channel's numbers

    def _assembled(self, line: Line) -> None:
        channel = self._channel(line)
        for first, last in line.get("seq_no", ()):
            if first <= channel.last:
                self._fault(line, f"{_where(line)}: publish number {first} was given twice")
            elif self._is_whole and channel.last and first != channel.last + 1:
                gap = f"{channel.last + 1} to {first - 1}"
                self._fault(line, f"{_where(line)}: publish numbers {gap} are missing")
            channel.last = max(channel.last, last)
            channel.open.update(range(first, last + 1))

    def _returned(self, line: Line) -> None:
        channel = self._channel(line)
        for number in _numbers(line.get("seq_no", ())):
            # Its ack stands directly behind it, in the same write.
            if number in channel.answered:
                self._fault(
                    line, f"{_where(line)}: publish {number} was confirmed before its return"
                )
            self._answer(channel, number)
            channel.returned.add(number)

    def _sent(self, line: Line) -> None:
        channel = self._channel(line)
        word = "confirmed" if line["event"] == "confirm.sent" else "nacked"
        for number in _numbers(line["seq_no"]):
            wrong = ""
            if number in channel.returned:
                wrong = f"{word} behind its return's own ack"
            elif number in channel.answered:
                wrong = "answered twice"
            elif number not in channel.open and not self._has_lost:
                wrong = f"{word} but never came"
            if wrong:
                self._fault(line, f"{_where(line)}: publish {number} was {wrong}")
            self._answer(channel, number)

    def _answer(self, channel: _Channel, number: int) -> None:
        channel.open.discard(number)
        channel.answered.add(number)
        self.answered += 1

    def _closed(self, line: Line) -> None:
        # What it had not answered it never will, and says so.
        self._channel(line).open.difference_update(_numbers(line["seq_no"]))

    # --- Queues and the disk

    def _enqueued(self, line: Line) -> None:
        batch = self._batch(line)
        batch.held.setdefault(line["queue"], set()).update(_numbers(line["messages"]))
        batch.queue_ids[line["queue"]] = line.get("queue_id", 0)
        waits = _numbers(line.get("waits_for_sync", ()))
        batch.waiting.setdefault(line["queue"], set()).update(waits)

    def _appended(self, line: Line) -> None:
        self._batch(line).appended.add(line["queue_id"])

    def _synced(self, line: Line) -> None:
        for number in line["batches"]:
            batch = self._batches.get((line["boot"], number))
            if batch is not None:
                for queue, waiting in batch.waiting.items():
                    if batch.queue_ids.get(queue) in batch.appended:
                        waiting.clear()
                batch.appended.clear()

    def _confirmed(self, line: Line) -> None:
        batch = self._batches.get((line["boot"], line["batch"]))
        if batch is None:
            return
        early = batch.waiting.get(line["queue"], set()).intersection(_numbers(line["messages"]))
        if early:
            self._fault(
                line,
                f"queue {line['queue']!r} confirmed message {line['boot']}-{line['batch']}-"
                f"{min(early)} before its sync",
            )

    def _delivered(self, line: Line) -> None:
        batch = self._batch(line)
        held = batch.held.get(line["queue"], set())
        unknown = set(_numbers(line["messages"])) - held
        if unknown and not self._has_lost:
            self._fault(
                line,
                f"queue {line['queue']!r} delivered message {line['boot']}-{line['batch']}-"
                f"{min(unknown)} that it did not have",
            )

    def _batch(self, line: Line) -> _Batch:
        return self._batches.setdefault((line["boot"], line["batch"]), _Batch())

    def _channel(self, line: Line) -> _Channel:
        key = (line["boot"], line["connection"], line["channel"])
        return self._channels.setdefault(key, _Channel())


_HANDLERS = {
    "command.assembled": TraceCheck._assembled,
    "message.returned": TraceCheck._returned,
    "confirm.sent": TraceCheck._sent,
    "confirm.nacked": TraceCheck._sent,
    "channel.closed": TraceCheck._closed,
    "message.enqueued": TraceCheck._enqueued,
    "message.recovered": TraceCheck._enqueued,
    "journal.appended": TraceCheck._appended,
    "journal.synced": TraceCheck._synced,
    "confirm.queued": TraceCheck._confirmed,
    "message.delivered": TraceCheck._delivered,
}


def _numbers(spans: Iterable[list[int]]) -> Iterator[int]:
    for first, last in spans:
        yield from range(first, last + 1)


def _where(line: Line) -> str:
    return f"{line['connection']} channel {line['channel']}"
