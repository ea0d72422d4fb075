"""The command `leveret`: what a person types, and the process around one broker.

`leveret serve` reads the settings, checks what the process may do, runs the node until SIGTERM or
SIGINT, and stops it gracefully. Exit codes: 0 after a graceful stop, 1 when it could not start or
had to end, 2 for a wrong flag or setting; each fault is one line on standard error. The other
commands are in `administration.py`.

What belongs to the process and not to a broker is done here only, never in an embedded one:
signals, the interpreter's switch interval and its collector, the check of the file-descriptor
limit, the exit.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import os
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from . import administration, spark_command, trace_command
from .broker import run_on_event_loop
from .configuration import Configuration, load
from .core.accounts import AccountError
from .errors import ConfigurationError, StartError
from .logs.configure import service_log
from .logs.events import BROKER_FAILED, BROKER_STARTING, BROKER_STOPPING
from .node import Node
from .storage.errors import StorageError
from .version import VERSION

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

EXIT_FAILED = 1
EXIT_USAGE = 2

# How long a thread may keep the interpreter while another waits for it. Python's default, 5 ms, is
# what the journal's thread would wait after each sync, ten times as long as the sync itself, and
# again for each batch that it takes while the event loop is busy.
SWITCH_INTERVAL_SECONDS = 0.0001

# Objects allocated before the collector looks for cycles among the young; Python's default is 700.
GC_ALLOCATIONS_MAX = 50_000

# glibc's mallopt: memory for reads (1 MiB) comes from the heap, which grows by so much at a time
# and is given back to the system above so much. By default each has a mapping of its own, made and
# taken down again: page faults, a quarter of the time that 8 KB messages take. The 16 MiB of a
# password's check are not kept: one is rare, and would be a third of what an idle broker takes.
_MALLOC_OPTIONS = (
    (-3, 12 * 1024 * 1024),  # M_MMAP_THRESHOLD
    (-2, 16 * 1024 * 1024),  # M_TOP_PAD
    (-1, 64 * 1024 * 1024),  # M_TRIM_THRESHOLD
)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; give the exit code."""
    _open_standard_streams()
    parsed = _parser().parse_args(arguments)
    code: int = parsed.run(parsed)
    return code


def _open_standard_streams() -> None:
    """Those that the process was begun without, as with `<&- >&- 2>&-`.

    Or the first files that it opens would have their numbers: libuv aborts when it closes such a
    one, and what is printed would be written into the journal.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as it runs


def _run_serve(parsed: argparse.Namespace) -> int:
    flags = {name: getattr(parsed, name) for name in ("host", "port", "data_dir", "log_level")}
    try:
        configuration = load(flags, os.environ, parsed.config)
    except ConfigurationError as fault:
        return _say(fault, EXIT_USAGE)
    try:
        check_file_descriptors(configuration.file_descriptors_min)
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        _keep_memory_at_hand()
        run_on_event_loop(_serve(configuration))
    except StartError as fault:
        return _say(fault, EXIT_FAILED)
    return 0


def _administer(parsed: argparse.Namespace) -> int:
    try:
        configuration = load({"data_dir": parsed.data_dir}, os.environ, parsed.config)
    except ConfigurationError as fault:
        return _say(fault, EXIT_USAGE)
    try:
        administration.administer(parsed, configuration)
    except (StartError, AccountError, StorageError, OSError) as fault:
        return _say(fault, EXIT_FAILED)
    except (KeyboardInterrupt, EOFError):
        # At the prompt for a password.
        return EXIT_FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="leveret", description="A durable AMQP 0-9-1 message broker.")
    parser.add_argument("--version", action="version", version=f"leveret {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="run a broker until SIGTERM or SIGINT")
    serve.set_defaults(run=_run_serve)
    # No defaults here: what is not given comes from the environment, the file or Configuration.
    serve.add_argument("--config", metavar="FILE", type=Path, help="settings, as in leveret.toml")
    serve.add_argument("--host", metavar="H", help="address to listen on (127.0.0.1)")
    serve.add_argument("--port", metavar="N", type=int, help="port, 0 takes a free one (5672)")
    serve.add_argument(
        "--data-dir", metavar="D", type=Path, help="where the data is (leveret-data)"
    )
    serve.add_argument("--log-level", metavar="L", help="debug, info, warning or error (info)")
    trace_command.add_to(commands)
    spark_command.add_to(commands)
    administration.add_to(commands, _administer)
    return parser


def check_file_descriptors(needed: int) -> None:
    """Refuse to start with fewer files than the setting asks for; 1,000 clients need as many."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY and allowed < needed:
        raise StartError(
            f"this process may open {allowed} files and {needed} are needed: raise the limit "
            f"(`ulimit -n {needed}`, or LimitNOFILE= in systemd) or lower file_descriptors_min"
        )


async def _serve(configuration: Configuration) -> None:
    log = service_log(configuration.log_level, configuration.log_format)
    log.info(
        BROKER_STARTING, version=VERSION, pid=os.getpid(), data_dir=str(configuration.data_dir)
    )
    stopping: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    _stop_at_signals(stopping)
    node = Node(configuration, log, lambda actor, error: _end(log, actor, error))
    if configuration.tls_certificate:
        _renew_certificates_at_hangup(node)
    try:
        await node.start()
    except (StorageError, OSError) as fault:
        raise StartError(str(fault)) from fault
    # On standard output, whatever the log's level: who starts the broker waits for this line.
    tls = "" if node.tls_port is None else f", TLS on {node.host}:{node.tls_port}"
    sys.stdout.write(f"leveret {VERSION} listening on {node.host}:{node.port}{tls}\n")
    sys.stdout.flush()
    _calm_collector()
    log.info(BROKER_STOPPING, signal=await stopping)
    await node.stop()


def _keep_memory_at_hand() -> None:
    """Where the C library is glibc; elsewhere its own way is kept."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in _MALLOC_OPTIONS:
            mallopt(option, value)


def _calm_collector() -> None:
    """Let the collector of cycles run rarely: messages are many, live long and form none.

    Actors do, with their references; they let go of what they hold when they stop.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_ALLOCATIONS_MAX, 10, 10)


def _stop_at_signals(stopping: asyncio.Future[str]) -> None:
    def stop(name: str) -> None:
        if not stopping.done():
            stopping.set_result(name)

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop, number.name)


def _renew_certificates_at_hangup(node: Node) -> None:
    """As services are told of new files; without TLS a hangup ends the broker as any program."""

    def renew() -> None:
        if node.listening is not None:
            node.listening.renew_certificates()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, renew)


def _end(log: FilteringBoundLogger, actor: str, error: BaseException) -> NoReturn:
    """End at once, from whatever thread: after a failed sync nothing may be confirmed any more."""
    try:
        log.error(BROKER_FAILED, actor=actor, error=repr(error))
    finally:
        os._exit(EXIT_FAILED)


def _say(fault: Exception, code: int) -> int:
    sys.stderr.write(f"leveret: {fault}\n")
    return code
