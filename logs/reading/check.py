"""Checks a trace against what the broker promises; whatever wrote it.

The rules are those of a channel and of a batch (channel_rules.py, batch_rules.py), each
of which needs its own events only, in order. So they are looked after in two parts: `ChannelChecks`
gives what channels have confirmed, `BatchChecks` takes it beside the events of batches. In one pass
both see every line; Spark divides the lines among many of each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..counted import counted
from ..trace.parsing import Line
from .batch_rules import BATCH_EVENTS, ENDING_EVENTS, BatchRules, Past, batches_of
from .channel_rules import CHANNEL_EVENTS, ChannelKey, ChannelRules, Confirmed, OnFault
from .coverage import Coverage
from .views import View, Views


def sentence(line: Line, text: str) -> str:
    """A fault that shows at this event."""
    return f"{line['time']} boot {line['boot']}: {text}"


class ChannelChecks:
    """The rules of all channels, or of some: those whose events it is fed."""

    def __init__(self, on_fault: OnFault) -> None:
        self._on_fault = on_fault
        self._channels: dict[ChannelKey, ChannelRules] = {}

    @property
    def answered(self) -> int:
        """Publishes that were answered."""
        return sum(channel.answered for channel in self._channels.values())

    @property
    def unjudged(self) -> int:
        """Answers to what the trace does not have."""
        return sum(channel.unjudged for channel in self._channels.values())

    @property
    def open_count(self) -> int:
        """Publishes that are numbered and neither answered nor given up by their channel's end."""
        return sum(channel.open_count for channel in self._channels.values())

    def feed(self, line: Line, view: View) -> list[Confirmed]:
        """Apply one of CHANNEL_EVENTS; returns the messages that it confirmed."""
        key = line["boot"], line["connection"], line["channel"]
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = ChannelRules(view, self._on_fault)
        return channel.feed(line, view)


class BatchChecks:
    """The rules of all batches, or of some: those whose events it is fed."""

    def __init__(self, on_fault: OnFault) -> None:
        self._on_fault = on_fault
        self._batches: dict[tuple[str, int], BatchRules] = {}
        # Of finished batches, the state needed if more events follow.
        self._past: dict[tuple[str, int], list[Past]] = {}
        self._unjudged = 0

    @property
    def unjudged(self) -> int:
        """Steps with messages whose earlier events the trace lacks."""
        return self._unjudged + sum(batch.unjudged for batch in self._batches.values())

    def feed(self, line: Line, view: View) -> None:
        """Take one of BATCH_EVENTS."""
        for number in batches_of(line):
            self.feed_batch(number, line, view)

    def feed_batch(self, number: int, line: Line, view: View) -> None:
        """Take one of BATCH_EVENTS, for one of the batches that it is about."""
        key = line["boot"], number
        # A sync names batches of which nothing may wait any more.
        if line["event"] != "journal.synced" or key in self._batches:
            self._rules(key, view).feed(line, view)
            if line["event"] in ENDING_EVENTS:
                self._finish(key)

    def confirmed(self, line: Line, confirmed: Confirmed, view: View) -> None:
        """A channel has confirmed messages of a batch with `line`."""
        rules = self._batches.get((line["boot"], confirmed.batch))
        if rules is not None:
            rules.confirmed(line, confirmed.messages, confirmed.seq_no, view)

    def _rules(self, key: tuple[str, int], view: View) -> BatchRules:
        rules = self._batches.get(key)
        if rules is None:
            rules = self._batches[key] = BatchRules(view, self._on_fault)
            rules.recall(self._past.pop(key, ()))
        return rules

    def _finish(self, key: tuple[str, int]) -> None:
        past = self._batches[key].finished()
        if past:
            self._unjudged += self._batches.pop(key).unjudged
            self._past[key] = past


def unjudged_note(answers: int, steps: int) -> str:
    """Count the steps that were not judged because the trace lacks earlier events; empty if
    none."""
    if not answers and not steps:
        return ""
    return (
        f"not judged, because the trace lacks what came before: "
        f"{counted(answers, 'answer')} to publishes, "
        f"{counted(steps, 'step')} of queues with messages"
    )


class TraceCheck:
    """Feed it all events in order; `faults` are what must not be, each in one sentence."""

    def __init__(self) -> None:
        self.events = 0
        self.coverage = Coverage()
        self.faults: list[str] = []
        self._views = Views()
        self.channels = ChannelChecks(self._fault)
        self.batches = BatchChecks(self._fault)

    def _fault(self, line: Line, text: str) -> None:
        self.faults.append(sentence(line, text))

    def notes(self, running: Collection[str] = ()) -> list[str]:
        """Report what could not be judged, and why; `running` are boots whose broker runs."""
        notes = self.coverage.finish(running).notes()
        missing = unjudged_note(self.channels.unjudged, self.batches.unjudged)
        return [*notes, missing] if missing else notes

    def summary(self, files: int) -> str:
        """The extent of the check, in a line."""
        return (
            f"{counted(self.events, 'event')} in {counted(files, 'file')}: "
            f"{counted(self.channels.answered, 'publish', 'publishes')} answered, "
            f"{self.channels.open_count} open at the end"
        )

    def feed(self, lines: Iterable[Line]) -> None:
        """Take the next events."""
        for line in lines:
            self.events += 1
            event, boot = line["event"], line["boot"]
            self.coverage.feed(line)
            if event.startswith("trace.") or self._views.is_new(boot):
                self._views.feed(line)
            view = self._views.of(boot)
            if event in CHANNEL_EVENTS:
                for confirmed in self.channels.feed(line, view):
                    self.batches.confirmed(line, confirmed, view)
            if event in BATCH_EVENTS:
                self.batches.feed(line, view)
