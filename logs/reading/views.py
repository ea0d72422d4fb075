"""Tells which rules can be checked at each point of a trace, given its own events.

A trace may be switched on late, changed, and switched off; events may be lost, and the first files
of a run removed. The rules ask for the view of the moment: which numbers must follow each other,
whether the trace has all earlier events, and whether anything is certain at all. A `gap` is a place
behind which the trace may lack earlier events.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..trace.parsing import ASKED_FOR, Line

# From this form on `trace.lost` stands where events are missing.
_EXACT_LOSS_FORMAT: Final = 2


class View(NamedTuple):
    """Of one boot, at one point of its trace."""

    # Is every message traced, so that publish numbers must follow each other?
    is_whole: bool = False
    # Has the trace every event since the boot began, of the messages that it traces?
    is_complete: bool = False
    # False where any event may be missing, from here to the end of the boot.
    is_sure: bool = True
    # How many gaps, and how many changes of the filter, lie before this point.
    gaps: int = 0
    changes: int = 0


class _Boot:
    """The state that the `trace.` events have given so far."""

    def __init__(self) -> None:
        self.view = View()
        self.is_on = False
        self.format = 1


class Views:
    """Feed it the first line of each boot and all `trace.` events, in order."""

    def __init__(self) -> None:
        self._boots: dict[str, _Boot] = {}

    def of(self, boot: str) -> View:
        """The view at this point; of a boot that has not come nothing is known."""
        known = self._boots.get(boot)
        return View() if known is None else known.view

    def is_new(self, boot: str) -> bool:
        """Has nothing come of it yet?"""
        return boot not in self._boots

    def feed(self, line: Line) -> None:
        """Take in a `trace.` event, or the first event of a boot."""
        known = self._boots.get(line["boot"])
        if known is None:
            known = self._boots[line["boot"]] = _Boot()
            # It was on before, in a file that is gone: the filter is unknown.
            known.is_on = line["event"] != "trace.started"
            is_begin = not known.is_on and line.get("reason") != ASKED_FOR
            known.view = View(is_complete=is_begin)
        event, view = line["event"], known.view
        known.format = line.get("format", known.format)
        if event == "trace.started":
            gap = 0 if known.is_on or (view.is_complete and not view.changes) else 1
            known.view = view._replace(
                is_whole=_is_whole(line),
                is_complete=view.is_complete and not gap,
                gaps=view.gaps + gap,
                changes=view.changes + 1,
            )
            known.is_on = True
        elif event == "trace.continued":
            known.view = view._replace(is_whole=_is_whole(line) and view.is_sure)
        elif event == "trace.stopped":
            known.is_on = False
            known.view = view._replace(is_whole=False, changes=view.changes + 1)
        elif event == "trace.lost":
            is_exact = known.format >= _EXACT_LOSS_FORMAT
            known.view = view._replace(
                is_whole=view.is_whole and is_exact,
                is_complete=False,
                is_sure=view.is_sure and is_exact,
                gaps=view.gaps + 1,
                changes=view.changes + 1,
            )


def _is_whole(line: Line) -> bool:
    # Of a user or a connection that is traced, every number is.
    return line.get("one_of") == 1 and not line.get("queues")
