"""The command `leveret`: its arguments, and the process around one broker.

`leveret serve` reads the settings, checks what the process may do, runs the node until SIGTERM or
SIGINT, and stops it gracefully. Exit codes: 0 after a graceful stop, 1 when it could not start or
had to end, 2 for a wrong flag or setting; each fault is one line on standard error. `signals.py`
handles signals; `administration.py` and others beside it have the other commands.

What belongs to the process and not to a broker is done here only, never in an embedded one:
signals, the interpreter's switch interval and its collector, the check of the file-descriptor
limit, the exit.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ..broker import run_on_event_loop
from ..configuration import Configuration, load, warn
from ..core.users.accounts import AccountError
from ..ending import EXIT_FAILED, ProcessEnd
from ..errors import ConfigurationError, StartError, error_words
from ..heap import HeapTrim, keep_memory_at_hand
from ..logs.configure import logs_for_people, service_log
from ..logs.events import (
    BROKER_STARTING,
    BROKER_STOPPING,
    BROKER_UNHEARD,
    CONFIGURATION_PASSED_OVER,
)
from ..memory_watch import MemoryWatch
from ..node import Node
from ..signals import Signals
from ..storage.belonging import DROP_OPTION
from ..storage.errors import StorageError
from ..version import VERSION
from . import (
    administration,
    definitions_command,
    journal_command,
    settings_command,
    spark_command,
    trace_command,
)
from .command_parser import EXIT_USAGE, Parser, add_directory, add_setting
from .progress import Progress

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


# How long a thread may keep the interpreter while another waits for it. Python's default, 5 ms, is
# what the journal's thread would wait after each sync, ten times as long as the sync itself, and
# again for each batch that it takes while the event loop is busy.
SWITCH_INTERVAL_SECONDS = 0.0001

# Objects allocated before the collector looks for cycles among the young; Python's default is 700.
GC_ALLOCATIONS_MAX = 50_000
# So many collections of the young precede one of those that outlived one. Python's default is 10:
# it would look at 500,000 objects at once, 0.3 s while queues are declared by the thousand.
GC_YOUNG_COLLECTIONS_MAX = 1


def main(arguments: list[str] | None = None) -> int:
    """Run the command; give the exit code."""
    _open_standard_streams()
    parsed = command_parser().parse_args(arguments)
    try:
        code: int = parsed.run(parsed)
    except BrokenPipeError:
        # Whoever read standard output, as `head`, has read enough.
        _drop_output()
        return 0
    except OSError as fault:
        # Of standard output, as when it is a file on a full disk: others have their own words.
        _drop_output()
        return _print_error(fault, EXIT_FAILED)
    return code


def _open_standard_streams() -> None:
    """Those that the process was begun without, as with `<&- >&- 2>&-`.

    Or the first files that it opens would have their numbers: libuv aborts when it closes such a
    one, and printed text would be written into the journal.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as it runs


def _run_serve(parsed: argparse.Namespace) -> int:
    names = ("host", "port", "nsq_port", "nsq_http_port", "data_dir", "log_level")
    flags = {name: getattr(parsed, name) for name in names}
    passed_over: list[str] = []
    try:
        configuration = load(flags, os.environ, parsed.config, passed_over.append)
    except ConfigurationError as fault:
        return _print_error(fault, EXIT_USAGE)
    try:
        check_file_descriptors(configuration.file_descriptors_min)
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        keep_memory_at_hand()
        log = service_log(configuration.log_level, configuration.log_format)
        end = ProcessEnd(log, as_json=not logs_for_people(configuration.log_format))
    except StartError as fault:
        return _print_error(fault, EXIT_FAILED)
    for text in passed_over:
        log.warning(CONFIGURATION_PASSED_OVER, reason=text)
    end.watch_process()
    MemoryWatch(end.failed, configuration.memory_headroom_bytes).start()
    HeapTrim().start()
    try:
        run_on_event_loop(_serve(configuration, log, end, parsed.drops_unmatched))
    except StartError as fault:
        return _print_error(fault, EXIT_FAILED)
    except MemoryError:
        end.out_of_memory()
    return 0


def _administer(parsed: argparse.Namespace) -> int:
    try:
        configuration = load({"data_dir": parsed.data_dir}, os.environ, parsed.config, warn)
    except ConfigurationError as fault:
        return _print_error(fault, EXIT_USAGE)
    try:
        parsed.carry_out(parsed, configuration)
    except (StartError, AccountError, StorageError, OSError) as fault:
        return _print_error(fault, EXIT_FAILED)
    except (KeyboardInterrupt, EOFError):
        # At the prompt for a password.
        return EXIT_FAILED
    return 0


def command_parser() -> Parser:
    """Make the parser of all commands."""
    parser = Parser(
        prog="leveret",
        description="A durable AMQP 0-9-1 message broker. A confirm means: the message is on disk.",
        example="leveret serve --port 5672 --data-dir leveret-data\n"
        "leveret status\nleveret serve --help",
    )
    parser.add_argument("--version", action="version", version=f"leveret {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_serve(commands)
    settings_command.add_to(commands)
    trace_command.add_to(commands)
    journal_command.add_to(commands)
    spark_command.add_to(commands)
    administration.add_to(commands, _administer)
    definitions_command.add_to(commands, _administer)
    return parser


def _add_serve(commands: Any) -> None:
    serve = commands.add_parser(
        "serve",
        help="run a broker until SIGTERM or SIGINT",
        description="Runs a broker until SIGTERM or SIGINT. A flag goes before the environment, "
        "that before the file of --config. `leveret settings` prints all settings; each may stand "
        "in the environment, as LEVERET_HEARTBEAT_SECONDS=30.",
        example="leveret serve\nleveret serve --port 5673 --data-dir /var/lib/leveret\n"
        "leveret serve --config leveret.toml",
    )
    serve.set_defaults(run=_run_serve)
    add_directory(serve)
    add_setting(serve, "host", "the address to listen on", metavar="H")
    add_setting(serve, "port", "the TCP port, 0 takes a free one", metavar="N", type=int)
    nsq_help = "the TCP port for NSQ's clients, -1 for none, 0 takes a free one"
    add_setting(serve, "nsq_port", nsq_help, metavar="N", type=int)
    http_help = "the TCP port for NSQ's HTTP calls, -1 for none, 0 takes a free one"
    add_setting(serve, "nsq_http_port", http_help, metavar="N", type=int)
    levels = "the least that is logged: debug, info, warning or error"
    add_setting(serve, "log_level", levels, metavar="L")
    serve.add_argument(
        DROP_OPTION,
        action="store_true",
        dest="drops_unmatched",
        help="start although catalog and journal do not belong together, and drop the messages in "
        "the journal that are of queues that the catalog does not know (default: do not start)",
    )


def check_file_descriptors(needed: int) -> None:
    """Refuse to start with fewer files than the setting asks for; 1,000 clients need as many."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY and allowed < needed:
        raise StartError(
            f"this process may open {allowed} files and {needed} are needed: raise the limit "
            f"(`ulimit -n {needed}`, or LimitNOFILE= in systemd) or lower file_descriptors_min"
        )


async def _serve(
    configuration: Configuration, log: FilteringBoundLogger, end: ProcessEnd, drops_unmatched: bool
) -> None:
    log.info(
        BROKER_STARTING, version=VERSION, pid=os.getpid(), data_dir=str(configuration.data_dir)
    )
    signals = Signals(asyncio.get_running_loop(), log)
    hint = "another signal ends it at once"
    reading = Progress("reading the journal")
    node = Node(
        configuration,
        log,
        end.failed,
        stop_hint=hint,
        drops_unmatched=drops_unmatched,
        on_reading=partial(_show_reading, reading) if reading.is_shown else None,
    )
    signals.at_hangup(partial(_renew_certificates, node))
    try:
        with reading:
            await node.start()
    except (StorageError, OSError) as fault:
        raise StartError(error_words(fault)) from fault
    _announce(log, node)
    _calm_collector()
    log.info(BROKER_STOPPING, signal=await signals.stopping)
    if not await node.stop():
        # Without the interpreter's own end, which may wait for what hangs.
        os._exit(EXIT_FAILED)


def _show_reading(progress: Progress, bytes_read: int, bytes_in_all: int) -> None:
    """On the terminal; its line is free again before anything else is written there."""
    progress(bytes_read / max(1, bytes_in_all))
    if bytes_read >= bytes_in_all:
        progress.clear()


def _announce(log: FilteringBoundLogger, node: Node) -> None:
    """Say it on standard output, whatever the log's level: a program that starts the broker waits
    for it.

    Nobody may be there to hear it: a full disk or a closed pipe does not stop a start.
    """
    tls = "" if node.tls_port is None else f", TLS on {node.host}:{node.tls_port}"
    nsq = "" if node.nsq_port is None else f", NSQ on {node.host}:{node.nsq_port}"
    if node.http.nsq_port is not None:
        nsq += f", NSQ's HTTP on port {node.http.nsq_port}"
    try:
        sys.stdout.write(f"leveret {VERSION} listening on {node.host}:{node.port}{tls}{nsq}\n")
        sys.stdout.flush()
    except (OSError, ValueError) as fault:
        log.warning(BROKER_UNHEARD, reason=f"standard output: {fault}")
        _drop_output()


def _renew_certificates(node: Node) -> bool:
    """Have the files of TLS read again; false if there are none."""
    return node.listening is not None and node.listening.renew_certificates()


def _calm_collector() -> None:
    """Let the collector of cycles run rarely: messages are many, live long and form none.

    Actors do, with their references; they let go of what they hold when they stop.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_ALLOCATIONS_MAX, GC_YOUNG_COLLECTIONS_MAX, 10)


def _drop_output() -> None:
    """Discard unwritten output: at the exit it would fail again, and change the exit code."""
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())


def _print_error(fault: Exception, code: int) -> int:
    sys.stderr.write(f"leveret: {error_words(fault)}\n")
    return code
