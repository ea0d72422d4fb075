"""The commands that look at a broker, pause its queues and change its accounts.

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
from typing import Any

from ..configuration import Configuration
from ..core.users.account_requests import REQUESTS
from ..core.users.accounts import ACCOUNT_LISTS, DEFAULT_VHOST
from ..core.users.login_checks import PASSWORD_BYTES_MAX
from ..errors import StartError
from ..open_accounts import new_password_hash
from .account_words import COMPARED, Before, done, warning
from .command_parser import add_directory, add_group
from .control_client import NoBrokerError, ask_broker
from .offline_accounts import offline_accounts
from .tables import listing, table

REPORTS = {
    "status": "say that a broker runs, where, and how much it has",
    "connections": "list open connections",
    "channels": "list channels",
    "queues": "list queues and how many messages they have",
    "topics": "list NSQ's topics and channels, and how many messages they have",
    "exchanges": "list exchanges",
    "bindings": "list bindings, without those of the default exchange",
}

# Reports of the requests about a queue, which only a running broker carries out.
PAUSED_WORDS = {
    "queue pause": "queue '{queue}' in vhost '{vhost}' is paused: it delivers nothing until it is "
    "resumed",
    "queue resume": "queue '{queue}' in vhost '{vhost}' delivers again",
}

_Commands = Any  # argparse does not name the type of what add_subparsers returns.


def add_to(commands: _Commands, run: Callable[[argparse.Namespace], int]) -> None:
    """Add all to the command line, each carried out by `run`."""
    where = argparse.ArgumentParser(add_help=False)
    where.set_defaults(run=run, carry_out=administer)
    add_directory(where)
    shown = argparse.ArgumentParser(add_help=False, parents=[where])
    shown.add_argument("--json", action="store_true", help="print JSON (default a table)")
    for name, text in REPORTS.items():
        report = commands.add_parser(
            name,
            parents=[shown],
            help=text,
            description=f"{text.capitalize()}, of the broker that runs on the data directory.",
            example=f"leveret {name}\nleveret {name} --json --data-dir /var/lib/leveret",
        )
        report.set_defaults(request=name)
    _add_queue(commands, where)
    _add_users(commands, where, shown)
    _add_vhosts(commands, where, shown)
    _add_permissions(commands, where, shown)


_WITH_OR_WITHOUT = "Works on the data directory of a broker that runs, and of one that does not."
_PASSWORD = "The password is asked for, or read from standard input."


def _add_action(
    actions: _Commands,
    name: str,
    parent: argparse.ArgumentParser,
    text: str,
    description: str,
    example: str,
    **names: str,
) -> argparse.ArgumentParser:
    """Add an action that takes these names, each with what it is."""
    action: argparse.ArgumentParser = actions.add_parser(
        name, parents=[parent], help=text, description=description, example=example
    )
    for dest, what in names.items():
        action.add_argument(dest, metavar=dest.upper(), help=what)
    return action


def _add_queue(commands: _Commands, where: argparse.ArgumentParser) -> None:
    text = "pause and resume queues"
    described = (
        "Pauses and resumes queues of the broker that runs on the data directory. The "
        "command queues shows which are paused."
    )
    actions = add_group(commands, "queue", text, described, "pause orders")
    described = (
        "Pauses a queue: no consumer and no basic.get gets a message of it. Publishes, acks, "
        "time-outs and expiry go on. A durable queue stays paused over restarts."
    )
    example = "leveret queue pause orders --vhost shop"
    text = "have a queue deliver nothing"
    pause = _add_action(actions, "pause", where, text, described, example, queue="the queue")
    text, example = "have a queue deliver again", "leveret queue resume orders --vhost shop"
    described = "Has a paused queue deliver again."
    resume = _add_action(actions, "resume", where, text, described, example, queue="the queue")
    for action in (pause, resume):
        _add_vhost(action)


def _add_vhost(action: argparse.ArgumentParser) -> None:
    vhost = f"the vhost (default {DEFAULT_VHOST})"
    action.add_argument("--vhost", metavar="V", default=DEFAULT_VHOST, help=vhost)


def _add_users(
    commands: _Commands, where: argparse.ArgumentParser, shown: argparse.ArgumentParser
) -> None:
    text = "add, change, list and delete users"
    actions = add_group(commands, "user", text, f"{text.capitalize()}. {_WITH_OR_WITHOUT}", "list")
    example = "leveret user add ann --tag monitoring\nleveret user add ann < password-file"
    text = f"Adds a user, who may use no vhost yet. {_PASSWORD}"
    add = _add_action(actions, "add", where, "add a user", text, example, user="the new user")
    tag = "a tag, as administrator or monitoring; may be repeated (default none)"
    add.add_argument("--tag", dest="tags", metavar="TAG", action="append", default=[], help=tag)
    text = f"Gives a user another password; open connections stay. {_PASSWORD}"
    example = "leveret user passwd ann"
    _add_action(actions, "passwd", where, "change a password", text, example, user="the user")
    text = (
        "Gives a user these tags in place of those it has; without one it has none then. Taking "
        "the tag of the last administrator asks first."
    )
    example = "leveret user tags ann administrator"
    tags = _add_action(actions, "tags", where, "set a user's tags", text, example, user="the user")
    tags.add_argument("tags", metavar="TAG", nargs="*", help="all that it is to have")
    text = "Lists users and their tags."
    _add_action(actions, "list", shown, "list users", text, "leveret user list")
    text = (
        "Deletes a user with its permissions and closes its connections. Deleting the last "
        "administrator asks first."
    )
    example = "leveret user delete guest"
    delete = _add_action(actions, "delete", where, "delete a user", text, example, user="the user")
    for action in (tags, delete):
        _add_yes(action)


def _add_vhosts(
    commands: _Commands, where: argparse.ArgumentParser, shown: argparse.ArgumentParser
) -> None:
    text = "add, list and delete vhosts"
    actions = add_group(commands, "vhost", text, f"{text.capitalize()}. {_WITH_OR_WITHOUT}", "list")
    text, example = "Adds a vhost, which no user may use yet.", "leveret vhost add shop"
    _add_action(actions, "add", where, "add a vhost", text, example, vhost="the new vhost")
    _add_action(actions, "list", shown, "list vhosts", "Lists vhosts.", "leveret vhost list")
    text = (
        "Deletes a vhost with its exchanges, queues, messages and permissions, and closes its "
        f"connections. Deleting '{DEFAULT_VHOST}' asks first."
    )
    example = "leveret vhost delete shop"
    short = "delete a vhost with all that is in it"
    _add_yes(_add_action(actions, "delete", where, short, text, example, vhost="the vhost"))


def _add_permissions(
    commands: _Commands, where: argparse.ArgumentParser, shown: argparse.ArgumentParser
) -> None:
    text = "say what users may do in vhosts"
    described = f"{text.capitalize()}. {_WITH_OR_WITHOUT}"
    actions = add_group(commands, "permissions", text, described, "list")
    put = _add_action(
        actions,
        "set",
        where,
        "let a user use a vhost",
        "Gives a user three regular expressions over names of exchanges and queues, in place of "
        "those that it has in the vhost. Each is searched for in the name; an empty one fits no "
        "name but the empty one.",
        "leveret permissions set ann --vhost shop '^ann' '.*' '.*'",
        user="the user",
        configure="what the user may declare and delete",
        write="what the user may publish to, and bind",
        read="what the user may consume from, and bind to others",
    )
    text, example = "Takes a user's permissions in a vhost away.", "leveret permissions clear ann"
    short = "let a user use a vhost no more"
    clear = _add_action(actions, "clear", where, short, text, example, user="the user")
    for action in (put, clear):
        _add_vhost(action)
    text, example = "Lists permissions of all users in all vhosts.", "leveret permissions list"
    _add_action(actions, "list", shown, "list permissions", text, example)


def _add_yes(action: argparse.ArgumentParser) -> None:
    action.add_argument("--yes", action="store_true", help="do it without asking (default: ask)")


def administer(parsed: argparse.Namespace, configuration: Configuration) -> None:
    """Carry the command out and print what it brought; StartError and the like if it cannot be."""
    request = getattr(parsed, "request", None) or f"{parsed.command} {parsed.action}"
    names = ("queue", "user", "vhost", "tags", "configure", "write", "read")
    arguments = {name: getattr(parsed, name) for name in names if hasattr(parsed, name)}
    if request in PAUSED_WORDS:
        ask_broker(configuration.data_dir, request, arguments)
        _print(PAUSED_WORDS[request].format_map(arguments) + "\n")
        return
    if request in REQUESTS:
        _print(_change(parsed, configuration, request, arguments) + "\n")
        return
    result = _carry_out(configuration, request, arguments)
    if parsed.json:
        _print(json.dumps(result, indent=2) + "\n")
    else:
        _print(listing(result) if isinstance(result, dict) else table(result))


def _change(
    parsed: argparse.Namespace,
    configuration: Configuration,
    request: str,
    arguments: dict[str, Any],
) -> str:
    """Make a change, and return its report."""
    if request in ("user add", "user passwd"):
        password = _read_password(parsed.user)
        arguments["password_hash"] = new_password_hash(password, configuration.password_hash_cost)
    lists = ("user list", "permissions list") if request in COMPARED else ()
    before = Before(*(_carry_out(configuration, name, {}) for name in lists))
    text = warning(request, arguments, before)
    if text and not parsed.yes:
        _ask(text)
    _carry_out(configuration, request, arguments)
    return done(request, arguments, before)


def _ask(text: str) -> None:
    """Ask the person at the terminal whether to go on; StartError if not, or if nobody is there."""
    if not sys.stdin.isatty():
        raise StartError(f"{text}: nothing is changed; with --yes it is, without being asked")
    # Standard output is for what the command brings.
    sys.stderr.write(f"{text[0].upper()}{text[1:]}. Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise StartError("nothing is changed")


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
