"""`leveret definitions export|import`: the definitions file of a running broker.

Through its control socket, which its owner may use without a password. The file is read and written
here, because the broker may not see the caller's files.
"""

from __future__ import annotations

import argparse
import codecs
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, Final

from ..configuration import Configuration
from ..errors import StartError
from .command_parser import add_directory, add_group
from .control_client import ControlSession, RequestError

# A request's line has at most 64 KiB, and an octet of a file becomes at most 6 in JSON.
PART_BYTES: Final = 10_000
# How long the broker may take, unless `--timeout` says otherwise: 20,000 queues take some 8 s.
IMPORT_SECONDS_MAX: Final = 1800.0
# Of `--timeout`: more than ten days.
TIMEOUT_SECONDS_MAX: Final = 1_000_000
# It has the hashes of passwords.
_OWNER_ONLY: Final = 0o600
_STANDARD_STREAM: Final = "-"


def add_to(commands: Any, run: Callable[[argparse.Namespace], int]) -> None:
    """Add both to the command line, carried out by `run`."""
    described = (
        "Writes the definitions of the broker that runs on the data directory, and carries out a "
        "definitions file: RabbitMQ's JSON of users, vhosts, permissions, parameters, policies, "
        "queues, exchanges and bindings."
    )
    text, shown = "export and import definitions", "export definitions.json"
    actions = add_group(commands, "definitions", text, described, shown)
    export = actions.add_parser(
        "export",
        help="write all that the broker has",
        description="Writes what the broker has. A new file is the owner's alone, because it has "
        "the hashes of passwords.",
        example="leveret definitions export definitions.json\n"
        "leveret definitions export --for-rabbitmq - > definitions.json",
    )
    text = "leave out what RabbitMQ refuses or does not know (default: all)"
    export.add_argument("--for-rabbitmq", action="store_true", help=text)
    importing = actions.add_parser(
        "import",
        help="carry out a definitions file",
        description="Carries a file out: all of it, or nothing if something in it is wrong.",
        example="leveret definitions import definitions.json\n"
        "leveret definitions import --vhost shop - < shop.json",
    )
    importing.add_argument(
        "--timeout",
        type=_seconds,
        default=IMPORT_SECONDS_MAX,
        metavar="SECONDS",
        help=f"how long to wait for the broker (default: {IMPORT_SECONDS_MAX:.0f})",
    )
    for action, carry_out in ((export, export_definitions), (importing, import_definitions)):
        add_directory(action)
        action.set_defaults(run=run, carry_out=carry_out)
        action.add_argument("--vhost", metavar="V", help="only of this vhost (default: of all)")
        text = f"the file, or {_STANDARD_STREAM} for a standard stream"
        action.add_argument("file", metavar="FILE", help=text)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= TIMEOUT_SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not above 0, or above {TIMEOUT_SECONDS_MAX}")
    return seconds


def export_definitions(parsed: argparse.Namespace, configuration: Configuration) -> None:
    """Write a running broker's definitions; StartError if that cannot be."""
    arguments = _named(parsed.vhost) | {"for_rabbitmq": parsed.for_rabbitmq}
    with ControlSession(configuration.data_dir) as session:
        without_hash = session.ask("definitions export", arguments)["users_without_hash"]
        # All of it first: a broker that ends meanwhile leaves the file that was there.
        octets = "".join(iter(lambda: session.ask("definitions next", {}), None)).encode()
    if parsed.file == _STANDARD_STREAM:
        sys.stdout.buffer.write(octets)
        sys.stdout.buffer.flush()
    else:
        _write(parsed.file, octets)
    if without_hash:
        names = ", ".join(f"'{each}'" for each in without_hash)
        text = f"leveret: users without a password hash that RabbitMQ reads: {names}\n"
        sys.stderr.write(text.encode("utf-8", "backslashreplace").decode())


def _write(path: str, octets: bytes) -> None:
    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, _OWNER_ONLY)

    try:
        with open(path, "wb", opener=opener) as file:
            file.write(octets)
    except OSError as fault:
        raise StartError(f"cannot write definitions file {path}: {fault.strerror}") from None


def import_definitions(parsed: argparse.Namespace, configuration: Configuration) -> None:
    """Have a running broker carry a file out; StartError if it cannot be."""
    shown = "standard input" if parsed.file == _STANDARD_STREAM else parsed.file
    with ControlSession(configuration.data_dir) as session:
        try:
            for text in codecs.iterdecode(_read(parsed.file), "utf-8"):
                session.ask("definitions part", {"text": text})
            session.ask("definitions import", _named(parsed.vhost), parsed.timeout)
        except UnicodeDecodeError:
            raise StartError(f"definitions file {shown} is not UTF-8") from None
        except RequestError as fault:
            raise StartError(f"definitions file {shown}: {fault}") from None
        except OSError as fault:
            text = f"cannot read definitions file {shown}: {fault.strerror}"
            raise StartError(text) from None
    done = f"definitions file {shown} is carried out\n"
    sys.stdout.buffer.write(done.encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()


def _read(path: str) -> Iterator[bytes]:
    """The file's octets, in parts."""
    is_standard = path == _STANDARD_STREAM
    with nullcontext(sys.stdin.buffer) if is_standard else open(path, "rb") as file:
        yield from iter(lambda: file.read(PART_BYTES), b"")


def _named(vhost: str | None) -> dict[str, object]:
    return {} if vhost is None else {"vhost": vhost}
