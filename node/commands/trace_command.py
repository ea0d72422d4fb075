"""`leveret trace ...`: reads what a broker's actors wrote about its messages (docs/TRACE.md)."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from ..configuration import load, warn
from ..errors import ConfigurationError
from ..logs.reading.check import TraceCheck
from ..logs.reading.explain import printable, timeline
from ..logs.reading.find import Found, find_by_id, find_by_seq_no, is_message_id
from ..logs.reading.reader import TraceFilesError, read_trace, trace_files
from ..logs.reading.verdict import verdict
from ..logs.trace.salvage import running_boots
from . import trace_control, trace_follow_command, trace_report_command
from .command_parser import EXIT_USAGE, add_directory, add_group
from .progress import Progress

# Past so many, faults are only counted.
FAULTS_SHOWN_MAX = 50


def add_to(commands: Any) -> None:
    """Add `trace` and what it can do to the command's parser."""
    actions = add_group(
        commands,
        "trace",
        "what happened to a message",
        "Switches the trace of the actors on and off, and reads it: docs/TRACE.md.",
        "on",
    )
    explain = actions.add_parser(
        "explain",
        help="the life of one message, and why it ended so",
        description="Prints every step of one message and says why it ended as it did. The message "
        "is named by its id, or by its publisher's connection, channel and number.",
        example="leveret trace explain 41593d15-1-0\n"
        "leveret trace explain --connection 127.0.0.1:47792 --channel 1 --seq-no 1",
    )
    explain.add_argument("message_id", nargs="?", metavar="ID", help="<boot>-<batch>-<place>")
    explain.add_argument("--connection", metavar="ADDRESS:PORT", help="the publisher's, with")
    explain.add_argument(
        "--channel", metavar="N", type=int, default=1, help="its channel (default 1), and"
    )
    explain.add_argument("--seq-no", metavar="N", type=int, help="the number of the publish")
    explain.set_defaults(run=explain_command)
    trace_control.add_to(actions)
    trace_follow_command.add_to(actions)
    trace_report_command.add_to(actions)
    check = actions.add_parser(
        "check",
        help="is all that the broker promises so in the trace?",
        description="Looks through a trace for anything that breaks a promise of the broker.",
        example="leveret trace check\nleveret trace check --files traces-of-yesterday",
    )
    check.set_defaults(run=check_command)
    for action in (explain, check):
        action.add_argument(
            "--files",
            metavar="F",
            type=Path,
            nargs="+",
            help="files or folders of a trace (default those of the data directory)",
        )
    for action in actions.choices.values():
        _find_data(action)


def _find_data(action: argparse.ArgumentParser) -> None:
    """Whatever it does, it does it where the other commands would: with the same settings."""
    add_directory(action)
    carry_out = action.get_default("run")

    def run(parsed: argparse.Namespace) -> int:
        try:
            settings = load({"data_dir": parsed.data_dir}, os.environ, parsed.config, warn)
        except ConfigurationError as fault:
            return _print_error(str(fault), EXIT_USAGE)
        parsed.data_dir = settings.data_dir
        code: int = carry_out(parsed)
        return code

    action.set_defaults(run=run)


def explain_command(parsed: argparse.Namespace) -> int:
    """Print the timeline and the sentence; 1 if there is nothing to tell."""
    try:
        found = _find(parsed)
    except TraceFilesError as fault:
        return _print_error(str(fault), 1)
    for line in timeline(found):
        sys.stdout.write(line + "\n")
    sys.stdout.write(verdict(found) + "\n")
    return 0


def _find(parsed: argparse.Namespace) -> Found:
    if parsed.message_id is None and parsed.files and is_message_id(str(parsed.files[-1])):
        # What stands behind --files is taken for one of them.
        parsed.message_id = str(parsed.files.pop())
    files = _files(parsed)
    with Progress("reading the trace") as progress:
        if parsed.message_id is not None:
            return find_by_id(files, parsed.message_id, progress, _running(parsed))
        if parsed.connection is None or parsed.seq_no is None:
            raise TraceFilesError(
                "which message? Give its id, or --connection, --channel and --seq-no"
            )
        if not parsed.connection.rpartition(":")[2].isdigit() or ":" not in parsed.connection:
            raise TraceFilesError(
                f"{parsed.connection!r} is no address and port of a publisher, as in "
                "127.0.0.1:47792"
            )
        place = parsed.connection, parsed.channel, parsed.seq_no
        return find_by_seq_no(files, *place, progress, _running(parsed))


def check_command(parsed: argparse.Namespace) -> int:
    """Print every fault; 1 if there is one."""
    check = TraceCheck()
    faults: list[str] = []
    try:
        files = _files(parsed)

        def on_bad_line(path: Path, number: int, wrong: str) -> None:
            faults.append(f"{path}:{number} {wrong}")

        with Progress("checking the trace") as progress:
            check.feed(read_trace(files, None, on_bad_line, progress))
    except TraceFilesError as missing:
        return _print_error(str(missing), 1)
    faults += check.faults
    for said in (*faults[:FAULTS_SHOWN_MAX], *check.notes(_running(parsed))):
        sys.stdout.write(printable(said) + "\n")
    sys.stdout.write(f"{check.summary(len(files))}, {len(faults)} faults\n")
    return 1 if faults else 0


def _files(parsed: argparse.Namespace) -> list[Path]:
    return trace_files(_paths(parsed))


def _running(parsed: argparse.Namespace) -> list[str]:
    """The boots whose broker runs, as far as its folder tells."""
    return running_boots(_paths(parsed))


def _paths(parsed: argparse.Namespace) -> list[Path]:
    return parsed.files or [parsed.data_dir / "traces"]


def _print_error(text: str, code: int) -> int:
    sys.stderr.write(f"leveret: {text}\n")
    return code
