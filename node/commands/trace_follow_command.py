"""`leveret trace follow`: the trace of a running broker, as it is written."""

from __future__ import annotations

import argparse
import os
import select
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from ..logs.reading.follow import Follower, Wanted, readable
from ..logs.reading.reader import TraceFilesError, coverage_of, trace_files
from ..logs.reading.tail import TraceTail
from ..logs.trace.parsing import defect, parsed_line
from ..logs.trace.salvage import running_boots

# The broker gathers events for half as long before it writes them.
LOOK_SECONDS = 0.1
FILTERS = (
    ("queue", "Q", "only messages that are routed to it"),
    ("connection", "ADDRESS:PORT", "only what is published or consumed there"),
    ("routing-key", "KEY", "only messages that are published with it"),
    ("event", "E", "only this event, or those of a kind: `confirm` for all confirm.*"),
)


def add_to(actions: Any) -> None:
    """Add `follow` to the actions of `leveret trace`."""
    parser = actions.add_parser(
        "follow",
        help="show the trace while it is written",
        description="Shows the events of a trace while a broker writes them, until Ctrl-C.",
        example="leveret trace follow --queue orders --event confirm",
    )
    for name, metavar, text in FILTERS:
        parser.add_argument(
            f"--{name}",
            metavar=metavar,
            action="append",
            default=[],
            help=f"{text}; may be repeated (default all)",
        )
    parser.add_argument(
        "--from-begin",
        action="store_true",
        help="with what is there already (default: only what comes)",
    )
    parser.set_defaults(run=follow_command)


def follow_command(parsed: argparse.Namespace) -> int:
    """Write lines until Ctrl-C, or until the reader closes the pipe; 0 then."""
    wanted = Wanted(
        frozenset(parsed.queue),
        frozenset(parsed.connection),
        frozenset(parsed.routing_key),
        frozenset(parsed.event),
    )
    directory = parsed.data_dir / "traces"
    try:
        wanted.check()
        if not directory.exists():
            _print_note(f"waiting for {directory}; `leveret trace on` begins a trace")
        elif not parsed.from_begin:
            _tell_coverage(directory)
        with closing(TraceTail(directory, parsed.from_begin, _tell_damage)) as tail:
            _follow(tail, Follower(wanted))
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        # Else the interpreter complains when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (TraceFilesError, OSError) as fault:
        _print_note(str(fault))
        return 1
    return 0


def _tell_coverage(directory: Path) -> None:
    """The parts that a running trace lacks; each of its files names the filter of the trace."""
    with suppress(TraceFilesError):
        newest = trace_files([directory])[-1:]
        for note in coverage_of(newest, running_boots([directory])).notes():
            _print_note(note)


def _tell_damage(path: Path, fault: Exception) -> None:
    _print_note(f"{path} is damaged, its rest is left out: {fault}")


def _print_note(text: str) -> None:
    sys.stderr.write(f"leveret: {text}\n")


def _follow(tail: TraceTail, follower: Follower) -> None:
    is_terminal = sys.stdout.isatty()
    is_read = _waiter()
    while is_read():
        while lines := tail.lines():
            for data in lines:
                line = parsed_line(data)
                if line is None or defect(line):
                    continue
                for shown, parsed in follower.select(data, line):
                    text = readable(parsed) if is_terminal else shown.decode("utf-8", "replace")
                    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
            sys.stdout.flush()


def _waiter() -> Callable[[], bool]:
    """Waits for a moment; false as soon as nobody reads the output."""
    try:
        poller = select.poll()
        poller.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError, AttributeError):

        def slept() -> bool:
            time.sleep(LOOK_SECONDS)
            return True

        return slept
    return lambda: not poller.poll(LOOK_SECONDS * 1000)
