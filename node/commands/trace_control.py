"""`leveret trace on|off|status`: switches the trace of a running broker.

Through its control socket, which its owner may use without a password; or by HTTP with `--url`, as
any user of the broker with the tag for it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ..errors import StartError
from ..logs.counted import counted
from .control_client import ask_broker
from .http_client import ask_trace, password_of


def add_to(actions: Any) -> None:
    """Add them to the parser of `leveret trace`."""
    on = actions.add_parser(
        "on",
        help="trace from now on, in a running broker",
        description="Has a running broker trace all messages, or a part of them, from now on.",
        example="leveret trace on\nleveret trace on --rate 0.01 --queue orders",
    )
    on.add_argument(
        "--rate", metavar="R", type=float, default=1.0, help="share of messages (default 1, all)"
    )
    for name, what in (("queue", "to"), ("user", "by"), ("connection", "from")):
        text = f"only what is published {what} it; may be repeated (default all)"
        on.add_argument(f"--{name}", metavar="NAME", action="append", default=[], help=text)
    off = actions.add_parser(
        "off",
        help="trace no more",
        description="Ends the trace of a running broker; its files stay.",
        example="leveret trace off",
    )
    status = actions.add_parser(
        "status",
        help="is it on, for what, and what was dropped?",
        description="Says whether a running broker traces, what, and how many events it dropped.",
        example="leveret trace status\n"
        "leveret trace status --url http://127.0.0.1:15672 --login ann",
    )
    for action in (on, off, status):
        action.set_defaults(run=request_command)
        action.add_argument(
            "--url",
            metavar="URL",
            help="ask over HTTP, as at http://127.0.0.1:15672 (default: by the data directory)",
        )
        action.add_argument(
            "--login", metavar="USER", default="guest", help="the user, with --url (default guest)"
        )
        action.add_argument(
            "--password-file",
            metavar="F",
            type=Path,
            help="with --url (default: environment LEVERET_PASSWORD, else it is asked for)",
        )


def request_command(parsed: argparse.Namespace) -> int:
    """Ask the running broker, and print how its trace stands; 1 if it cannot be."""
    arguments: dict[str, object] = {}
    if parsed.action == "on":
        names = {f"{name}s": getattr(parsed, name) for name in ("queue", "user", "connection")}
        arguments = {"rate": parsed.rate, **names}
    try:
        sys.stdout.write(_status_text(_ask(parsed, arguments)))
    except StartError as fault:
        sys.stderr.write(f"leveret: {fault}\n")
        return 1
    except KeyboardInterrupt:
        # At the prompt for a password.
        return 1
    return 0


def _ask(parsed: argparse.Namespace, arguments: dict[str, object]) -> dict[str, Any]:
    if parsed.url is None:
        status: dict[str, Any] = ask_broker(parsed.data_dir, f"trace {parsed.action}", arguments)
        return status
    password = password_of(parsed.login, parsed.password_file)
    return ask_trace(parsed.url, parsed.login, password, parsed.action, arguments)


def _status_text(status: dict[str, Any]) -> str:
    chosen = [
        f"{name} {', '.join(status[name])}"
        for name in ("queues", "users", "connections")
        if status[name]
    ]
    every = "every message" if status["one_of"] == 1 else f"one of {status['one_of']} messages"
    # The last filter says nothing about a trace that is off.
    which = f"on ({every}, {'; '.join(chosen) or 'everywhere'})" if status["is_on"] else "off"
    error = f", not written: {status['error']}" if status["error"] else ""
    return (
        f"trace {which}, boot {status['boot']}: "
        f"{status['waiting_bytes']} of {status['waiting_bytes_max']} bytes waiting, "
        f"{counted(status['dropped'], 'event')} dropped{error}\n"
    )
