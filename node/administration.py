"""The commands that look at a broker and change its accounts.

A running broker is asked through the control socket in its data directory. Accounts can be changed
without one, too: then the command takes the directory for itself. A password is asked for, or read
from standard input: arguments are seen by everybody on the machine. It is hashed here, and only the
hash goes to the broker.
"""

from __future__ import annotations

import argparse
import getpass
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .configuration import Configuration
from .control_client import NoBrokerError, ask_broker
from .core.account_lists import ACCOUNT_LISTS
from .core.account_requests import REQUESTS
from .core.login_checks import PASSWORD_BYTES_MAX
from .errors import StartError
from .offline_accounts import offline_accounts
from .open_accounts import new_password_hash
from .tables import listing, table

REPORTS = {
    "status": "say that a broker runs, where, and how much it has",
    "connections": "list open connections",
    "channels": "list channels",
    "queues": "list queues and how many messages they have",
    "exchanges": "list exchanges",
    "bindings": "list bindings, without those of the default exchange",
}

# What is said of a change that was made, with its arguments.
DONE = {
    "user add": "user '{user}' is added",
    "user passwd": "user '{user}' has another password",
    "user tags": "user '{user}' has other tags",
    "user delete": "user '{user}' is deleted",
    "vhost add": "vhost '{vhost}' is added; nobody has permissions there yet",
    "vhost delete": "vhost '{vhost}' is deleted, with all that was in it",
    "permissions set": "user '{user}' has other permissions in vhost '{vhost}'",
    "permissions clear": "user '{user}' may not use vhost '{vhost}' any more",
}

_Commands = Any  # argparse does not name the type of what add_subparsers returns.


def add_to(commands: _Commands, run: Callable[[argparse.Namespace], int]) -> None:
    """Add all to the command line, each carried out by `run`."""
    where = argparse.ArgumentParser(add_help=False)
    where.set_defaults(run=run)
    where.add_argument("--config", metavar="FILE", type=Path, help="settings, as in leveret.toml")
    where.add_argument("--data-dir", metavar="D", type=Path, help="the broker's data directory")
    shown = argparse.ArgumentParser(add_help=False, parents=[where])
    shown.add_argument("--json", action="store_true", help="print JSON instead of a table")
    for name, text in REPORTS.items():
        report = commands.add_parser(name, parents=[shown], help=text)
        report.set_defaults(request=name)
    _add_users(commands.add_parser("user", help="add, change, list and delete users"), where, shown)
    _add_vhosts(commands.add_parser("vhost", help="add, list and delete vhosts"), where, shown)
    _add_permissions(
        commands.add_parser("permissions", help="what users may do in vhosts"), where, shown
    )


def _add_users(
    parser: argparse.ArgumentParser, where: argparse.ArgumentParser, shown: argparse.ArgumentParser
) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    text = "the password is asked for, or read from standard input"
    add = actions.add_parser("add", parents=[where], help=f"add a user; {text}")
    add.add_argument("user", metavar="NAME")
    add.add_argument("--tag", dest="tags", action="append", default=[], help="may be repeated")
    change = actions.add_parser("passwd", parents=[where], help=f"change a password; {text}")
    change.add_argument("user", metavar="NAME")
    tags = actions.add_parser("tags", parents=[where], help="set a user's tags")
    tags.add_argument("user", metavar="NAME")
    tags.add_argument("tags", metavar="TAG", nargs="*")
    actions.add_parser("list", parents=[shown], help="list users")
    delete = actions.add_parser("delete", parents=[where], help="delete; its connections close")
    delete.add_argument("user", metavar="NAME")


def _add_vhosts(
    parser: argparse.ArgumentParser, where: argparse.ArgumentParser, shown: argparse.ArgumentParser
) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("add", parents=[where], help="add a vhost, which nobody may use yet")
    add.add_argument("vhost", metavar="NAME")
    actions.add_parser("list", parents=[shown], help="list vhosts")
    delete = actions.add_parser("delete", parents=[where], help="delete with all that is in it")
    delete.add_argument("vhost", metavar="NAME")


def _add_permissions(
    parser: argparse.ArgumentParser, where: argparse.ArgumentParser, shown: argparse.ArgumentParser
) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    text = "three regular expressions over names of exchanges and queues"
    put = actions.add_parser("set", parents=[where], help=text)
    clear = actions.add_parser("clear", parents=[where], help="the user may not use the vhost")
    for action in (put, clear):
        action.add_argument("user", metavar="USER")
        action.add_argument("--vhost", metavar="V", default="/", help="the vhost (/)")
    for name in ("configure", "write", "read"):
        put.add_argument(name, metavar=name.upper())
    actions.add_parser("list", parents=[shown], help="list permissions")


def administer(parsed: argparse.Namespace, configuration: Configuration) -> None:
    """Carry the command out and print what it brought; StartError and the like if it cannot be."""
    request = getattr(parsed, "request", None) or f"{parsed.command} {parsed.action}"
    names = ("user", "vhost", "tags", "configure", "write", "read")
    arguments = {name: getattr(parsed, name) for name in names if hasattr(parsed, name)}
    if request in ("user add", "user passwd"):
        password = _read_password(parsed.user)
        arguments["password_hash"] = new_password_hash(password, configuration.password_hash_cost)
    result = _carry_out(configuration, request, arguments)
    if request in REQUESTS:
        _print(DONE[request].format_map(arguments) + "\n")
        return
    if parsed.json:
        _print(json.dumps(result, indent=2) + "\n")
    else:
        _print(listing(result) if isinstance(result, dict) else table(result))


def _carry_out(configuration: Configuration, request: str, arguments: Mapping[str, object]) -> Any:
    try:
        return ask_broker(configuration.data_dir, request, arguments)
    except NoBrokerError:
        if request in REPORTS:
            raise
    with offline_accounts(configuration) as offline:
        if request in ACCOUNT_LISTS:
            return ACCOUNT_LISTS[request](offline.accounts)
        return offline.change(request, arguments)


def _read_password(user: str) -> str:
    if sys.stdin.isatty():
        password = getpass.getpass(f"Password for {user}: ")
        if getpass.getpass("Again: ") != password:
            raise StartError("the two passwords differ")
    else:
        line = sys.stdin.buffer.readline().rstrip(b"\r\n")
        password = line.decode("utf-8", "surrogateescape")
    if not password:
        raise StartError("a password must not be empty")
    if len(password.encode("utf-8", "surrogateescape")) > PASSWORD_BYTES_MAX:
        raise StartError(f"a password has at most {PASSWORD_BYTES_MAX} bytes")
    return password


def _print(text: str) -> None:
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()
