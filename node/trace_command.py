"""`leveret trace ...`: reads what a broker's actors wrote about its messages (docs/TRACE.md)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from . import trace_follow_command, trace_report_command
from .control_client import ask_broker
from .errors import StartError
from .logs.trace_check import TraceCheck
from .logs.trace_explain import Found, find_by_id, find_by_seq_no, timeline, verdict
from .logs.trace_reader import TraceFilesError, read_trace, trace_files
from .progress import Progress

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
    on = actions.add_parser("on", help="trace from now on, in a running broker")
    on.add_argument("--rate", metavar="R", type=float, default=1.0, help="of messages (1, all)")
    for name, what in (("queue", "to"), ("user", "by"), ("connection", "from")):
        text = f"only what is published {what} it; may be repeated"
        on.add_argument(f"--{name}", metavar="NAME", action="append", default=[], help=text)
    off = actions.add_parser("off", help="trace no more")
    status = actions.add_parser("status", help="is it on, for what, and what was dropped?")
    for action in (on, off, status):
        action.set_defaults(run=request_command)
    trace_follow_command.add_to(actions)
    trace_report_command.add_to(actions)
    check = actions.add_parser("check", help="is all that the broker promises so in the trace?")
    check.set_defaults(run=check_command)
    for action in (explain, on, off, status, check):
        action.add_argument(
            "--data-dir", metavar="D", type=Path, default=Path("leveret-data"), help="of the broker"
        )
    for action in (explain, check):
        action.add_argument(
            "--files", metavar="F", type=Path, nargs="+", help="files or folders, in place of its"
        )


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
    files = _files(parsed)
    if parsed.message_id is not None:
        return find_by_id(files, parsed.message_id)
    if parsed.connection is None or parsed.seq_no is None:
        raise TraceFilesError("which message? Give its id, or --connection, --channel and --seq-no")
    return find_by_seq_no(files, parsed.connection, parsed.channel, parsed.seq_no)


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


def request_command(parsed: argparse.Namespace) -> int:
    """Ask the running broker, and print how its trace stands; 1 if it cannot be."""
    arguments: dict[str, object] = {}
    if parsed.action == "on":
        names = {f"{name}s": getattr(parsed, name) for name in ("queue", "user", "connection")}
        arguments = {"rate": parsed.rate, **names}
    try:
        status = ask_broker(parsed.data_dir, f"trace {parsed.action}", arguments)
    except StartError as fault:
        return _say(str(fault), 1)
    chosen = [
        f"{name} {', '.join(status[name])}"
        for name in ("queues", "users", "connections")
        if status[name]
    ]
    every = "every message" if status["one_of"] == 1 else f"one of {status['one_of']} messages"
    # What was chosen last says nothing of a trace that is off.
    which = f"on ({every}, {'; '.join(chosen) or 'everywhere'})" if status["is_on"] else "off"
    sys.stdout.write(
        f"trace {which}, boot {status['boot']}: "
        f"{status['waiting']} events waiting, {status['dropped']} dropped\n"
    )
    return 0


def _files(parsed: argparse.Namespace) -> list[Path]:
    return trace_files(parsed.files or [parsed.data_dir / "traces"])


def _say(text: str, code: int) -> int:
    sys.stderr.write(f"leveret: {text}\n")
    return code
