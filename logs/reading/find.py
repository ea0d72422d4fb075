"""Finds all events of one message in a trace, and of the dead letters that it became.

A life is the events of one message id. A message that a queue gives to a dead-letter exchange goes
on as another message, and its events belong to the story; a search for a dead letter also finds its
original. Where the trace lacks events behind the first of them, or is cut, the story says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ..trace.parsing import ASKED_FOR, Line
from .coverage import BootCoverage, Coverage
from .reader import TraceFilesError, holds, read_trace

_MESSAGE_ID = re.compile(r"([0-9a-f]+)-(\d+)-(\d+)")
# Events that give a publish its number, or would have.
_NUMBERED = ("command.assembled", "message.refused")
_GIVES_NUMBER = ("frame.received", *_NUMBERED, "message.dead_lettered")
# Events that name the number of a message that is traced only from there on, if they are `late`.
_NUMBERED_LATE = ("message.returned", "rejection.received", "confirm.slow")
_NUMBERED_BYTES = tuple(f'"{event}"'.encode() for event in (*_NUMBERED, *_NUMBERED_LATE))
_ANSWERS = ("confirm.recorded", "confirm.sent", "confirm.nacked", "channel.closed")
_NOT_PAUSED = ("queue.resumed", "queue.deleted", "queue.failed")
# In place of a life's number: a gap in the trace belongs to none.
GAP: Final = -1

Progress = Callable[[float], None]
# Batch and place.
Message = tuple[int, int]


class Life(NamedTuple):
    """One message, and all events that speak of it, in order."""

    batch: int
    place: int
    events: list[Line]

    def named(self, event: str) -> list[Line]:
        """Its events of this name."""
        return [line for line in self.events if line["event"] == event]

    def is_late(self) -> bool:
        """Is it traced only since something went wrong with it?"""
        return bool(self.events) and self.events[0].get("late") is True

    def is_of(self, failed: Line) -> bool:
        """Has the queue done anything with it in that run?"""
        place = failed["queue"], failed["boot"]
        return any((line.get("queue"), line["boot"]) == place for line in self.events)

    def is_unknown_to_journal(self, recovered: Line) -> bool:
        """Did that queue take the message into memory only, as far as its events tell?"""
        place = recovered.get("vhost"), recovered["queue"]
        there = [line for line in self.events if (line.get("vhost"), line.get("queue")) == place]
        taken = [line for line in there if line["event"] == "message.enqueued"]
        return bool(taken) and not any(
            each["event"] == "message.recovered"
            or holds(each.get("waits_for_sync", ()), self.place)
            for each in there
        )


class Found(NamedTuple):
    """The message that was asked for, and behind it those that it became."""

    boot: str
    connection: str
    channel: int
    seq_no: int  # 0: not in confirm mode, or not known
    lives: list[Life]
    # In the order of the trace, with the number of the life that each belongs to, or GAP.
    events: list[tuple[int, Line]]
    # The broker's last run that the trace tells of, if of this message or not.
    last_boot: str
    # What the trace can tell of each run, of this message or not.
    coverage: Coverage
    # Queues that are paused at the trace's end, by vhost and name.
    paused: Collection[tuple[str, str]]

    def boots(self) -> list[str]:
        """The runs that tell of it."""
        return list(dict.fromkeys(line["boot"] for life, line in self.events if life != GAP))

    def message_id(self, life: int = 0) -> str:
        """As `leveret trace explain` takes it."""
        return f"{self.boot}-{self.lives[life].batch}-{self.lives[life].place}"


def is_message_id(text: str) -> bool:
    """Does it look like one?"""
    return _MESSAGE_ID.fullmatch(text) is not None


def find_by_id(
    files: Sequence[Path],
    message_id: str,
    progress: Progress | None = None,
    running: Collection[str] = (),
) -> Found:
    """All about the message of that id; TraceFilesError if the trace has nothing of it.

    `running` are the boots whose broker runs.
    """
    match = _MESSAGE_ID.fullmatch(message_id)
    if match is None:
        raise TraceFilesError(
            f"{message_id!r} is no message id: <boot>-<batch>-<place>, as in 3f2a9c01-42-0"
        )
    return _Finder(match[1], (int(match[2]), int(match[3]))).read(files, progress, running)


def find_by_seq_no(
    files: Sequence[Path],
    connection: str,
    channel: int,
    seq_no: int,
    progress: Progress | None = None,
    running: Collection[str] = (),
) -> Found:
    """The last publish with that number on that channel; TraceFilesError if there is none."""
    last: Line | None = None
    for line in read_trace(files, lambda data: any(event in data for event in _NUMBERED_BYTES)):
        if (
            _is_numbering(line)
            and line["connection"] == connection
            and line["channel"] == channel
            and holds(line.get("seq_no", ()), seq_no)
        ):
            last = line
    if last is None:
        raise TraceFilesError(
            f"no publish {seq_no} of {connection} on channel {channel} is in this trace: it "
            "may not have been traced, or not have come, or its channel is not in confirm mode"
            f"{_noted(_coverage_of(files), running)}"
        )
    place = paired(last["seq_no"], last["messages"], seq_no)
    return _Finder(last["boot"], (last["batch"], place)).read(files, progress, running)


def _coverage_of(files: Sequence[Path]) -> Coverage:
    coverage = Coverage()
    for line in read_trace(files):
        coverage.feed(line)
    return coverage


def _noted(coverage: Coverage, running: Collection[str]) -> str:
    """The gaps of the trace, appended to the sentence that it lacks the message."""
    return "".join(f"\n  {note}" for note in coverage.finish(running).notes())


def _is_gap(line: Line, boot: BootCoverage) -> bool:
    """May events be missing here? `boot` has seen the line."""
    event = line["event"]
    if event == "trace.started":
        return any(pause.started is line for pause in boot.pauses)
    if event == "trace.stopped":
        return line.get("reason") == ASKED_FOR
    return event in ("trace.lost", "trace.cut")


def _is_numbering(line: Line) -> bool:
    """Does the event say which publish the message was?"""
    event = line["event"]
    return event in _NUMBERED or (event in _NUMBERED_LATE and line.get("late") is True)


def paired(ours: Sequence[list[int]], theirs: Sequence[list[int]], number: int) -> int:
    """The n-th number of `theirs`, for the n-th of `ours`."""
    before = 0
    for first, last in ours:
        if first <= number <= last:
            before += number - first
            break
        before += last - first + 1
    for first, last in theirs:
        if before <= last - first:
            return first + before
        before -= last - first + 1
    return 0


class _Finder:
    """One look through the trace; a dead letter's events stand behind its making."""

    def __init__(self, boot: str, message: Message) -> None:
        self._boot = boot
        self._begin(*message)

    def _begin(self, batch: int, place: int) -> None:
        self._lives = [Life(batch, place, [])]
        # The lives that may go on.
        self._numbers: dict[Message, int] = {(batch, place): 0}
        self._events: list[tuple[int, Line]] = []
        # Queues, by life and number, for which the journal has it in its buffer.
        self._appended: dict[int, set[int]] = {}
        self._connection, self._channel, self._seq_no = "", 0, 0
        # Its number is given again when its channel has been closed and opened anew.
        self._is_unanswered = False
        # The run that it was published in; it may be asked for by that of its recovery.
        self._published_in = ""

    def read(
        self, files: Sequence[Path], progress: Progress | None, running: Collection[str]
    ) -> Found:
        last_boot = ""
        coverage = Coverage()
        paused: set[tuple[str, str]] = set()
        for line in coverage.passing(read_trace(files, progress=progress)):
            if line["boot"] != last_boot:
                # A queue that is still paused says so at its start.
                last_boot = line["boot"]
                paused.clear()
            if line["event"] == "queue.paused":
                paused.add((line["vhost"], line["queue"]))
            elif line["event"] in _NOT_PAUSED:
                paused.discard((line["vhost"], line["queue"]))
            self._part_from(line)
            for life in self._lives_in(line):
                self._lives[life].events.append(line)
                self._events.append((life, line))
            if self._has_events_in(last_boot) and _is_gap(line, coverage.boots[last_boot]):
                self._events.append((GAP, line))
        if not self._is_met():
            batch, place = self._lives[0].batch, self._lives[0].place
            raise TraceFilesError(
                f"nothing of message {self._boot}-{batch}-{place} is in this trace: it was not "
                f"traced, or its file is gone{_noted(coverage, running)}"
            )
        place_of = self._connection, self._channel, self._seq_no
        coverage.finish(running)
        return Found(self._boot, *place_of, self._lives, self._events, last_boot, coverage, paused)

    def _has_events_in(self, boot: str) -> bool:
        """Does the run have events of the message? The last event in the list is then of that
        run."""
        return bool(self._events) and self._events[-1][1]["boot"] == boot

    def _is_met(self) -> bool:
        """Does the requested run have events of the message?"""
        return any(line["boot"] == self._boot for line in self._lives[0].events)

    def _part_from(self, line: Line) -> None:
        """A message to which one run gives the number of another run's message is another message.

        Batch numbers go on behind those that the journal knows: recovered messages keep theirs, and
        the numbers of messages that were in memory only may be used again. So a message that comes
        back from the journal is another one, too, if ours was not to be there: a run without a
        trace has given it the number.
        """
        is_recovered = line["event"] == "message.recovered"
        if not is_recovered and line["event"] not in _GIVES_NUMBER:
            return
        given = line.get("letter_batch", line["batch"])
        for number, life in enumerate(self._lives):
            if life.batch == given and life.events and life.events[0]["boot"] != line["boot"]:
                if is_recovered and not life.is_unknown_to_journal(line):
                    continue
                if not number and not self._is_met():
                    self._begin(given, life.place)
                    return
                self._numbers.pop((given, life.place), None)

    def _lives_in(self, line: Line) -> list[int]:
        """The lives that the event is about; takes in what it says of them."""
        event = line["event"]
        if "messages" in line:
            batch, spans = line["batch"], line["messages"]
            there = [
                number
                for (of, place), number in self._numbers.items()
                if of == batch and holds(spans, place)
            ]
            if 0 in there and _is_numbering(line):
                self._connection, self._channel = line["connection"], line["channel"]
                self._published_in = line["boot"]
                numbers = line.get("seq_no", ())
                self._seq_no = paired(spans, numbers, self._lives[0].place) if numbers else 0
                self._is_unanswered = bool(self._seq_no)
            if 0 in there and event == "message.returned":
                self._is_unanswered = False
            if event == "message.dead_lettered":
                self._became(line, there)
                return there or self._made_of(line)
            if event == "journal.appended":
                for number in there:
                    self._appended.setdefault(number, set()).add(line["queue_id"])
            return there
        if event == "journal.synced":
            return self._synced_in(line["batches"])
        if "batches" in line:
            batches = line["batches"]
            return [number for (of, _), number in self._numbers.items() if of in batches]
        if event == "queue.failed":
            return [n for n, life in enumerate(self._lives) if life.is_of(line)]
        if self._is_unanswered and self._is_answer(line):
            # Recorded, it is answered when the channel's mailbox is empty.
            self._is_unanswered = event == "confirm.recorded"
            return [0]
        return []

    def _synced_in(self, batches: Collection[int]) -> list[int]:
        """The lives that this sync brought to the disk.

        A batch is named in the sync of each of its queues, and not all have all of its messages.
        """
        found = [number for (of, _), number in self._numbers.items() if of in batches]
        return [number for number in found if self._appended.pop(number, None)]

    def _became(self, line: Line, there: list[int]) -> None:
        for number in there:
            place = self._lives[number].place
            letter = line["letter_batch"], paired(line["messages"], line["letters"], place)
            if letter not in self._numbers:
                self._numbers[letter] = len(self._lives)
                self._lives.append(Life(*letter, []))

    def _made_of(self, line: Line) -> list[int]:
        """The message itself, if this is where it was made."""
        batch, place = self._lives[0].batch, self._lives[0].place
        return [0] if line["letter_batch"] == batch and holds(line["letters"], place) else []

    def _is_answer(self, line: Line) -> bool:
        return (
            line["event"] in _ANSWERS
            and line["boot"] == self._published_in
            and line["connection"] == self._connection
            and line["channel"] == self._channel
            and holds(line["seq_no"], self._seq_no)
        )
