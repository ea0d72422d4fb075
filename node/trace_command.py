"""`leveret trace ...`: reads what a broker's actors wrote about its messages (docs/TRACE.md)."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from . import trace_control, trace_follow_command, trace_report_command
from .configuration import load
from .errors import ConfigurationError
from .logs.trace_check import TraceCheck
from .logs.trace_explain import timeline
from .logs.trace_find import Found, find_by_id, find_by_seq_no, is_message_id
from .logs.trace_reader import TraceFilesError, read_trace, trace_files
from .logs.trace_verdict import verdict
from .progress import Progress

# As of the other commands: what was said on the command line cannot be.
EXIT_USAGE = 2
# Past so many, faults are only counted.
FAULTS_SHOWN_MAX = 50


def add_to(commands: Any) -> None:
    """Add `trace` and what it can do to the command's parser."""
    trace = commands.add_parser("trace", help="what happened to a message")
    actions = trace.add_subparsers(dest="action", required=True, metavar="ACTION")
    explain = actions.add_parser("explain", help="the life of one message, and why it ended so")
    explain.add_argument("message_id", nargs="?", metavar="ID", help="<boot>-<batch>-<place>")
    explain.add_argument("--connection", metavar="ADDRESS:PORT", help="the publisher's, with")
    explain.add_argument("--channel", metavar="N", type=int, default=1, help="its channel, and")
    explain.add_argument("--seq-no", metavar="N", type=int, help="the number of the publish")
    explain.set_defaults(run=explain_command)
    trace_control.add_to(actions)
    trace_follow_command.add_to(actions)
    trace_report_command.add_to(actions)
    check = actions.add_parser("check", help="is all that the broker promises so in the trace?")
    check.set_defaults(run=check_command)
    for action in (explain, check):
        action.add_argument(
            "--files",
            metavar="F",
            type=Path,
            nargs="+",
            help="files or folders of a trace, in place of the data directory's",
        )
    for action in actions.choices.values():
        _find_data(action)


def _find_data(action: argparse.ArgumentParser) -> None:
    """Whatever it does, it does it where the other commands would: with the same settings."""
    action.add_argument("--config", metavar="FILE", type=Path, help="settings, as in leveret.toml")
    action.add_argument("--data-dir", metavar="D", type=Path, help="of the broker (leveret-data)")
    carry_out = action.get_default("run")

    def run(parsed: argparse.Namespace) -> int:
        try:
            settings = load({"data_dir": parsed.data_dir}, os.environ, parsed.config)
        except ConfigurationError as fault:
            return _say(str(fault), EXIT_USAGE)
        parsed.data_dir = settings.data_dir
        code: int = carry_out(parsed)
        return code

    action.set_defaults(run=run)


def explain_command(parsed: argparse.Namespace) -> int:
    """Print the timeline and the sentence; 1 if there is nothing to tell."""
    try:
        found = _find(parsed)
    except TraceFilesError as fault:
        return _say(str(fault), 1)
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
            return find_by_id(files, parsed.message_id, progress)
        if parsed.connection is None or parsed.seq_no is None:
            raise TraceFilesError(
                "which message? Give its id, or --connection, --channel and --seq-no"
            )
        place = parsed.connection, parsed.channel, parsed.seq_no
        return find_by_seq_no(files, *place, progress)


def check_command(parsed: argparse.Namespace) -> int:
    """Print every fault; 1 if there is one."""
    check = TraceCheck()
    faults: list[str] = []
    try:
        files = _files(parsed)

        def on_bad_line(path: Path, number: int) -> None:
            faults.append(f"{path}:{number} is no event")

        with Progress("checking the trace") as progress:
            check.feed(read_trace(files, None, on_bad_line, progress))
    except TraceFilesError as missing:
        return _say(str(missing), 1)
    faults += check.faults
    for fault in faults[:FAULTS_SHOWN_MAX]:
        sys.stdout.write(fault + "\n")
    sys.stdout.write(
        f"{check.events} events in {len(files)} files: {check.answered} publishes answered, "
        f"{check.open_count} open at the end, {len(faults)} faults\n"
    )
    return 1 if faults else 0


def _files(parsed: argparse.Namespace) -> list[Path]:
    return trace_files(parsed.files or [parsed.data_dir / "traces"])


def _say(text: str, code: int) -> int:
    sys.stderr.write(f"leveret: {text}\n")
    return code
