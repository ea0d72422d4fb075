"""Checks a trace against what the broker promises; whatever wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .trace_reader import Line, holds

# (boot, batch), and (boot, connection, channel).
BatchKey = tuple[str, int]
ChannelKey = tuple[str, str, int]
# The reason of a settling that comes before its delivery.
NO_ACK = "no ack wanted"
# The reason of a trace that was not switched on with its broker.
ASKED_FOR = "asked for"


@dataclass
class _Batch:
    """What is known of one batch."""

    # Queues, by number, whose part is in the journal's buffer, not synced yet.
    appended: set[int] = field(default_factory=set)
    queue_ids: dict[str, int] = field(default_factory=dict)
    # Per queue: places it has; places that wait for a sync there.
    held: dict[str, set[int]] = field(default_factory=dict)
    waiting: dict[str, set[int]] = field(default_factory=dict)
    # Gone from the queue with a delivery that wants no ack, and not written to the consumer yet.
    going: dict[str, set[int]] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Will nothing more be heard of it that could be wrong?"""
        return not any((*self.held.values(), *self.waiting.values(), self.appended))


@dataclass
class _Channel:
    """What is known of one channel's publish numbers."""

    # The last that was given; 0 if some may have been given unseen.
    last: int = 0
    given: list[list[int]] = field(default_factory=list)
    open: set[int] = field(default_factory=set)
    returned: set[int] = field(default_factory=set)
    # Open while the trace was off: they may have been answered then.
    doubtful: set[int] = field(default_factory=set)


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
        # Boots that have come; those of which events were dropped; those whose begin is in a file
        # that is gone, as the oldest of a broker that runs for long are.
        self._boots: set[str] = set()
        self._lost: set[str] = set()
        self._cut: set[str] = set()
        # Per boot: the last batch that came, and the last that had when the trace was switched off:
        # of what came until then the trace may not have every hop.
        self._came_to: dict[str, int] = {}
        self._doubtful_to: dict[str, int] = {}

    @property
    def open_count(self) -> int:
        """Publishes that are numbered and neither answered nor given up by their channel's end."""
        return sum(len(channel.open) for channel in self._channels.values())

    def feed(self, lines: Iterable[Line]) -> None:
        """Take the next events."""
        for line in lines:
            self.events += 1
            event = line["event"]
            if line["boot"] not in self._boots:
                self._begin(line)
            if event == "trace.started":
                self._is_whole = line.get("one_of") == 1 and not line.get("queues")
                self._unseen()
            elif event == "trace.stopped":
                self._doubtful_to |= self._came_to
                self._unseen()
            elif event == "trace.lost":
                self._lost.add(line["boot"])
                self._is_whole = False
            else:
                handle = _HANDLERS.get(event)
                if handle is not None:
                    handle(self, line)

    def _begin(self, line: Line) -> None:
        """The first event of a boot."""
        self._boots.add(line["boot"])
        # It may have been on, and off again, in a file that is gone.
        if line["event"] != "trace.started" or line.get("reason") == ASKED_FOR:
            self._cut.add(line["boot"])
            self._is_whole = False

    def _fault(self, line: Line, text: str) -> None:
        # Any event may be among those that were dropped, a sync or a channel's end too.
        if line["boot"] not in self._lost:
            self.faults.append(f"{line['time']} boot {line['boot']}: {text}")

    def _unseen(self) -> None:
        """Numbers may have been given, and answered, that are not in the trace."""
        for channel in self._channels.values():
            channel.last = 0
            channel.doubtful.update(channel.open)

    # --- The channel's numbers

    def _assembled(self, line: Line) -> None:
        channel = self._channel(line)
        boot, batch = line["boot"], line["batch"]
        if boot in self._cut and boot not in self._came_to:
            self._doubtful_to[boot] = batch - 1
        # A transaction's come behind later ones, with its commit.
        self._came_to[boot] = max(batch, self._came_to.get(boot, 0))
        for first, last in line.get("seq_no", ()):
            if first <= channel.last:
                self._fault(line, f"{_where(line)}: publish number {first} was given twice")
            elif self._is_whole and channel.last and first != channel.last + 1:
                gap = f"{channel.last + 1} to {first - 1}"
                self._fault(line, f"{_where(line)}: publish numbers {gap} are missing")
            channel.last = max(channel.last, last)
            channel.open.update(range(first, last + 1))
            if channel.given and channel.given[-1][1] == first - 1:
                channel.given[-1][1] = last
            else:
                channel.given.append([first, last])

    def _returned(self, line: Line) -> None:
        channel = self._channel(line)
        for number in _numbers(line.get("seq_no", ())):
            # Its ack stands directly behind it, in the same write.
            if number not in channel.open and holds(channel.given, number):
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
            elif number in channel.open:
                pass
            elif holds(channel.given, number):
                wrong = "answered twice"
            elif not self._may_have_come(line, channel, number):
                wrong = f"{word} but never came"
            if wrong:
                self._fault(line, f"{_where(line)}: publish {number} was {wrong}")
            self._answer(channel, number)

    def _may_have_come(self, line: Line, channel: _Channel, number: int) -> bool:
        """Before what is there of the trace?"""
        is_before = not channel.given or number < channel.given[0][0]
        return line["boot"] in self._cut and is_before

    def _answer(self, channel: _Channel, number: int) -> None:
        channel.open.discard(number)
        self.answered += 1

    def _closed(self, line: Line) -> None:
        """What it had not answered it never will, and says so; its number may be used again."""
        channel = self._channels.pop(_channel_key(line), _Channel())
        silent = channel.open.difference(channel.doubtful, _numbers(line["seq_no"]))
        if silent:
            self._fault(
                line, f"{_where(line)}: publish {min(silent)} was never answered nor given up"
            )

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
                self._forget_if_done(line["boot"], number)

    def _confirmed(self, line: Line) -> None:
        batch = self._batches.get((line["boot"], line["batch"]))
        if batch is None or self._is_doubtful(line):
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
        queue, places = line["queue"], set(_numbers(line["messages"]))
        unknown = places - batch.held.get(queue, set())
        if unknown and not self._is_doubtful(line):
            self._fault(
                line,
                f"queue {queue!r} delivered message {line['boot']}-{line['batch']}-"
                f"{min(unknown)} that it did not have",
            )
        going = batch.going.get(queue)
        if going:
            batch.held[queue] -= going & places
            going -= places
        self._forget_if_done(line["boot"], line["batch"])

    def _settled(self, line: Line) -> None:
        batch = self._batches.get((line["boot"], line["batch"]))
        if batch is not None:
            # Without acks it is gone before its delivery is written.
            is_going = line["reason"] == NO_ACK
            kept = (batch.going if is_going else batch.held).setdefault(line["queue"], set())
            (kept.update if is_going else kept.difference_update)(_numbers(line["messages"]))
            self._forget_if_done(line["boot"], line["batch"])

    def _forget_if_done(self, boot: str, number: int) -> None:
        batch = self._batches.get((boot, number))
        if batch is not None and batch.is_done:
            del self._batches[boot, number]

    def _is_doubtful(self, line: Line) -> bool:
        boot, number = line["boot"], line["batch"]
        if boot in self._cut and boot not in self._came_to:
            return True
        return bool(number <= self._doubtful_to.get(boot, 0))

    def _batch(self, line: Line) -> _Batch:
        return self._batches.setdefault((line["boot"], line["batch"]), _Batch())

    def _channel(self, line: Line) -> _Channel:
        return self._channels.setdefault(_channel_key(line), _Channel())


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
    "message.settled": TraceCheck._settled,
}


def _numbers(spans: Iterable[list[int]]) -> Iterator[int]:
    for first, last in spans:
        yield from range(first, last + 1)


def _channel_key(line: Line) -> ChannelKey:
    return line["boot"], line["connection"], line["channel"]


def _where(line: Line) -> str:
    return f"{line['connection']} channel {line['channel']}"
