"""Describes in sentences which parts of each run of the broker a trace covers.

A trace may be a sample, of some queues only, have lost events, lack its first files, or be cut
where the broker was killed. An answer from it means something else then, so every reader says so
beside its answer. Nothing is said of a trace that has everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, Literal, NamedTuple

from ..counted import counted
from ..trace.parsing import ASKED_FOR, BROKER_STOPS, Line

# How the trace of a run ends. `running`: it goes on; `unknown`: nothing says how, so its broker may
# run, or was killed and left no ring.
End = Literal["stopped", "cut", "running", "unknown"]

_FIRST_FORMAT: Final = 1
# Changes of the filter that are reported one by one; further ones are counted.
_CHANGES_TOLD_MAX: Final = 3
_TIMES_TOLD_MAX: Final = 3
_PAUSES_TOLD_MAX: Final = 3


class Chosen(NamedTuple):
    """The filter of a trace, as `trace.started` gives it; `one_of` is 0 if it is unknown."""

    one_of: int = 0
    queues: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()

    @classmethod
    def of(cls, line: Line) -> Chosen:
        """As the line says it."""
        names = (tuple(line.get(name, ())) for name in ("queues", "users", "connections"))
        return cls(line.get("one_of", 0), *names)

    @property
    def is_everything(self) -> bool:
        """Is nothing left out?"""
        return self == Chosen(1)

    def __str__(self) -> str:
        if not self.one_of:
            return "which messages are traced is not known"
        several = f"one of {self.one_of} messages is traced"
        which = "every message is traced" if self.one_of == 1 else several
        parts = [
            f"{word} {' or '.join(map(repr, names))}"
            for word, names in (
                ("published to queue", self.queues),
                ("by user", self.users),
                ("from connection", self.connections),
            )
            if names
        ]
        return f"{which}{', only what is ' if parts else ''}{' and '.join(parts)}"


class Pause(NamedTuple):
    """A time in which a run had its trace switched off; `started` is None if that lasted."""

    stopped: Line
    started: Line | None

    @property
    def begin(self) -> str:
        """When the trace was switched off."""
        return _clock(self.stopped)

    @property
    def end(self) -> str:
        """When it was switched on again; empty if it was not."""
        return "" if self.started is None else _clock(self.started)


class BootCoverage:
    """How much of one run of the broker the trace covers, by its own events."""

    def __init__(self, first: Line) -> None:
        self.boot: str = first["boot"]
        # The filters and the event from which each applied; the first applies from the begin of the
        # trace.
        self.chosen: list[tuple[Line, Chosen]] = []
        self.losses: list[Line] = []
        self.format = _FIRST_FORMAT
        self.first = self.last = first
        # Events that a file which is gone had lost, as the next one repeats it.
        self._dropped_before = 0
        # When it was off and switched on again.
        self._pauses: list[Pause] = []
        # The last event if it says that the trace was stopped; None while the trace is on.
        self._stopped: Line | None = None
        self._cut: Line | None = None
        self.end: End = "unknown"

    @property
    def dropped(self) -> int:
        """How many events were lost."""
        return self._dropped_before + sum(int(line["dropped"]) for line in self.losses)

    def feed(self, line: Line) -> None:
        """Take in the next event."""
        self.last = line
        event = line["event"]
        if not event.startswith("trace."):
            return
        self.format = line.get("format", self.format)
        if event == "trace.started":
            if self._stopped is not None:
                self._pauses.append(Pause(self._stopped, line))
                self._stopped = None
            self._choose(line)
        elif event == "trace.continued":
            if not self.chosen:
                self._dropped_before = line.get("dropped", 0)
            self._choose(line)
        elif event == "trace.stopped":
            self._stopped = line
        elif event == "trace.lost":
            self.losses.append(line)
        elif event == "trace.cut":
            self._cut = line

    def _choose(self, line: Line) -> None:
        chosen = Chosen.of(line)
        if not self.chosen or self.chosen[-1][1] != chosen:
            self.chosen.append((line, chosen))

    def finish(self, *, is_last: bool, is_running: bool) -> None:
        """No more events of it come; `is_last` if no later run follows in the trace."""
        if self._stopped is not None:
            self.end = "stopped"
        elif self._cut is not None or not is_last:
            self.end = "cut"
        else:
            self.end = "running" if is_running else "unknown"

    def lost_behind(self, line: Line) -> int:
        """How many events the trace may lack behind this one, which is of this run."""
        if self.format == _FIRST_FORMAT:
            # There it stands up to a full buffer from the gap.
            return self.dropped
        return sum(lost["dropped"] for lost in self.losses if lost["t_ns"] >= line["t_ns"])

    @property
    def has_stopped(self) -> bool:
        """Was the trace on until the broker stopped in order?"""
        return self._stopped is not None and self._stopped.get("reason") == BROKER_STOPS

    @property
    def pauses(self) -> list[Pause]:
        """The times in which the broker ran, or may have, and had its trace switched off."""
        if self._stopped is None or self.has_stopped:
            return self._pauses
        return [*self._pauses, Pause(self._stopped, None)]

    def pause_behind(self, line: Line) -> Pause | None:
        """The first time without a trace behind this event, which is of this run."""
        behind = (each for each in self.pauses if each.stopped["t_ns"] >= line["t_ns"])
        return next(behind, None)

    def notes(self) -> Iterator[str]:
        """The reservations about answers from it: nothing, if it has everything."""
        yield from self._about_choice()
        at = _clock(self.first)
        if self.first["event"] != "trace.started":
            yield f"the trace begins at {at}: what came before is in files that are gone"
        elif self.first.get("reason") == ASKED_FOR:
            yield f"the trace was switched on at {at}: what came before is not in it"
        yield from self._about_pauses()
        if self.dropped:
            near = " or up to a full buffer behind" if self.format == _FIRST_FORMAT else ""
            times = list(dict.fromkeys(_clock(line) for line in self.losses))
            more = ", ..." if len(times) > _TIMES_TOLD_MAX else ""
            where = f" (at {', '.join(times[:_TIMES_TOLD_MAX])}{more}{near})" if times else ""
            were = "was" if self.dropped == 1 else "were"
            yield f"{counted(self.dropped, 'event')} {were} lost{where}"
        if self.end == "cut":
            yield self.cut_note()
        elif self.end == "unknown":
            yield (
                f"the trace ends at {_clock(self.last, 26)} without having been stopped: its "
                "broker still runs, or was killed"
            )

    def cut_note(self) -> str:
        """Where it is cut, and what may be missing there."""
        cut = self._cut
        said = f"the trace is cut here, at {_clock(self.last, 26)}: the broker was killed"
        if cut is None:
            return f"{said}, and events of its last moments may be missing"
        if cut.get("damaged_bytes"):
            are = "is" if cut["damaged_bytes"] == 1 else "are"
            damaged = counted(cut["damaged_bytes"], "byte")
            return f"{said}, and {damaged} of its last events {are} damaged"
        return said

    def _about_pauses(self) -> Iterator[str]:
        pauses = self.pauses
        told = pauses[:_PAUSES_TOLD_MAX]
        # The last one says whether the trace is off at its end.
        for pause in (*told, *pauses[len(told) :][-1:]):
            if pause.started is not None:
                yield (
                    f"the trace was off from {pause.begin} to {pause.end}: what happened between "
                    "is not in it"
                )
            elif pause.stopped.get("reason") == ASKED_FOR:
                yield f"the trace was switched off at {pause.begin}: what came after is not in it"
            else:
                yield (
                    f"the trace was stopped at {pause.begin}, with its broker or before: what came "
                    "after is not in it"
                )
        more = len(pauses) - len(told) - 1
        if more > 0:
            yield f"it was off {more} times more"

    def _about_choice(self) -> Iterator[str]:
        if not self.chosen:
            yield str(Chosen())
            return
        if len(self.chosen) == 1:
            _line, chosen = self.chosen[0]
            if not chosen.is_everything:
                yield str(chosen)
            return
        for line, chosen in self.chosen[:_CHANGES_TOLD_MAX]:
            yield f"from {_clock(line)} on {chosen}"
        more = len(self.chosen) - _CHANGES_TOLD_MAX
        if more > 0:
            yield f"that was changed {more} times more"


class Coverage:
    """All runs of a trace, in order. Feed it all events, then `finish`."""

    def __init__(self) -> None:
        self.boots: dict[str, BootCoverage] = {}

    def passing(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The same events, looked at."""
        for line in lines:
            self.feed(line)
            yield line

    def feed(self, line: Line) -> None:
        """Take in the next event; enough are the first and last of a run, and all of `trace.`."""
        boot = self.boots.get(line["boot"])
        if boot is None:
            boot = self.boots[line["boot"]] = BootCoverage(line)
        boot.feed(line)

    def last_of(self, boot: str) -> Line | None:
        """The last event of the run so far; None if there is none."""
        known = self.boots.get(boot)
        return None if known is None else known.last

    def choices(self) -> list[tuple[str, int, int]]:
        """Of which messages one is traced, from which moment on: boot, t_ns, one_of."""
        return [
            (boot.boot, line["t_ns"], chosen.one_of)
            for boot in self.boots.values()
            for line, chosen in boot.chosen
        ]

    @property
    def is_sample(self) -> bool:
        """Do traced messages stand for others?"""
        return any(one_of > 1 for _boot, _t_ns, one_of in self.choices())

    def finish(self, running: Collection[str] = ()) -> Coverage:
        """All events have come; `running` are boots whose broker runs."""
        *_, last = (None, *self.boots)
        for boot in self.boots.values():
            boot.finish(is_last=boot.boot == last, is_running=boot.boot in running)
        return self

    def notes(self, boots: Collection[str] | None = None) -> list[str]:
        """The reservations about these runs, or about all: a line each, with the run's name."""
        return [
            f"boot {boot.boot}: {note}"
            for boot in self.boots.values()
            if boots is None or boot.boot in boots
            for note in boot.notes()
        ]


def _clock(line: Line, end: int = 19) -> str:
    """The time of day of an event, in whole seconds, or with `end` 26 in full."""
    return str(line.get("time", ""))[11:end]
