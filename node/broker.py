"""`leveret.Broker`: a broker inside a program, on a thread of its own."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .actors.runtime.out_of_memory import is_out_of_memory
from .configuration import Configuration, check_names
from .ending import memory_reserve
from .errors import (
    BrokerFailedError,
    ConfigurationError,
    StartError,
    error_words,
    failure_text,
    fault_text,
)
from .logs.configure import service_log
from .logs.events import BROKER_FAILED
from .machine import Machine
from .memory_watch import MemoryWatch
from .node import Node
from .settings import Settings
from .storage.errors import StorageError
from .storage.files import Files

if TYPE_CHECKING:
    from typing import Self, Unpack


def run_on_event_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it is available, else on asyncio's own loop."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if sys.platform != "win32":
        try:
            import uvloop

            factory = uvloop.new_event_loop
        except ImportError:
            factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


# A program asks its broker by its own means: no port of HTTP, unless it says so. And its clients
# may be threads of its own that serve no connection any more: it does not wait for them for long.
_DEFAULTS: dict[str, Any] = {"http_listener": "off", "stop_clients_timeout_ms": 500}


def _configuration_of(configuration: object, settings: Mapping[str, Any]) -> Configuration:
    """Make the configuration, or check the given one; ConfigurationError."""
    if configuration is None:
        check_names(settings, "the arguments of Broker")
        return Configuration(
            **_DEFAULTS | {name: _native(name, settings[name]) for name in settings}
        )
    if not isinstance(configuration, Configuration):
        meant = isinstance(configuration, str | Path)
        hint = f"; did you mean Broker(data_dir={str(configuration)!r})?" if meant else ""
        raise ConfigurationError(
            f"Broker takes a Configuration or settings by name, not {configuration!r}{hint}"
        )
    if settings:
        names = ", ".join(settings)
        raise ConfigurationError(f"give Broker a Configuration or settings ({names}), not both")
    return configuration


def _native(name: str, value: Any) -> Any:
    """A value as `Configuration` has it: a path may be a string, a tuple a list as in the file."""
    if name == "data_dir" and isinstance(value, str) and value:
        return Path(value)
    return tuple(value) if isinstance(value, list) else value


class Broker:
    """A broker that runs while its context is entered; `host` and `port` say where.

    With a certificate in the settings `tls_port`, else None, says where it speaks TLS, and with the
    setting `nsq_port` the attribute of this name where it speaks NSQ; `nsq_http_port` likewise.

        with Broker(data_dir=path, port=0) as broker:
            connect(broker.host, broker.port)

    Settings are those of `Configuration`, with other defaults for two: `http_listener="off"` (if it
    is on, `http_port` says where) and `stop_clients_timeout_ms=500`. The host's actors, logging,
    signals and switch interval are left alone.

    ConfigurationError if an argument is no setting, or has a value that it cannot have. StartError
    if it cannot start. If it fails later, all its connections are closed without a
    confirm, it ends, and the host lives: `failure` says why, and `stop`, which leaving the context
    calls, raises BrokerFailedError, once. `files` stands in for the disk, in tests.
    """

    def __init__(
        self,
        configuration: Configuration | None = None,
        *,
        files: Files | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        self.configuration = _configuration_of(configuration, settings)
        self._files = files
        self.host = ""
        self.port = 0
        self.tls_port: int | None = None
        self.nsq_port: int | None = None
        self.nsq_http_port: int | None = None
        self.http_port: int | None = None
        self.failure: BaseException | None = None
        self._log = service_log(self.configuration.log_level, self.configuration.log_format)
        self._started = threading.Event()
        self._thread: threading.Thread | None = None
        self._start_error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._is_to_stop = False
        self._is_failure_told = False
        self._release_reserve: Callable[[], None] | None = None
        self.node: Node | None = None

    def start(self) -> None:
        """Start, also again after a stop, and return when it listens."""
        if self._thread is not None and self._thread.is_alive():
            raise StartError("this broker runs already")
        # The program may go to another directory meanwhile.
        directory = self.configuration.data_dir.absolute()
        self.configuration = replace(self.configuration, data_dir=directory)
        self._started.clear()
        self._start_error = self.failure = None
        self._loop = self._stopping = None
        self._is_to_stop = self._is_failure_told = False
        thread = threading.Thread(target=self._run, name="leveret", daemon=True)
        thread.start()
        self._thread = thread
        self._started.wait()
        if self._start_error is not None:
            thread.join()
            if isinstance(self._start_error, StorageError | OSError):
                raise StartError(error_words(self._start_error)) from self._start_error
            raise self._start_error

    def stop(self) -> None:
        """Stop gracefully, and return when everything is closed.

        Also while it starts, as a signal's handler may: it stops when it has started.
        BrokerFailedError, at the first call only, if it had ended by itself, or if
        stop_timeout_ms was over before all was closed: its directory is then in use until it is.
        """
        self._is_to_stop = True
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None:
            # RuntimeError: it has ended by itself.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(stopping.set)
        if self._thread is not None:
            self._thread.join()
        if self.failure is not None and not self._is_failure_told:
            self._is_failure_told = True
            if isinstance(self.failure, BrokerFailedError):
                raise self.failure
            text = f"the broker has failed: {fault_text(self.failure)}"
            raise BrokerFailedError(text) from self.failure

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        except BrokerFailedError:
            # An interrupt stays one; what else was raised inside is likely to come of the failure.
            if exception is None or isinstance(exception, Exception):
                raise

    def _run(self) -> None:
        self._release_reserve = memory_reserve()
        watch = MemoryWatch(self._fatal, self.configuration.memory_headroom_bytes)
        try:
            watch.start()
            run_on_event_loop(self._main())
        except BaseException as error:
            if self._started.is_set():
                self.failure = self.failure or error
            else:
                self._start_error = error
        watch.stop()
        self._release_reserve()
        if self.failure is not None and is_out_of_memory(self.failure):
            # The program may need what the broker had, to which the frames of a traceback refer.
            self.failure.__traceback__ = self.failure.__context__ = None
            self.node = None
            gc.collect()
        self._started.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        if self._is_to_stop:
            self._stopping.set()
        machine = Machine() if self._files is None else Machine(self._files)
        node = self.node = Node(self.configuration, self._log, self._fatal, machine)
        await node.start()
        self.host, self.port, self.tls_port = node.host, node.port, node.tls_port
        self.http_port, self.nsq_port = node.http.port, node.nsq_port
        self.nsq_http_port = node.http.nsq_port
        self._started.set()
        await self._stopping.wait()
        if self.failure is not None:
            await node.abandon(self.failure)
        elif not await node.stop():
            milliseconds = self.configuration.stop_timeout_ms
            name = node.open_files.open_name()
            text = f"{name} could not be closed within {milliseconds} ms: the disk does not answer"
            self.failure = BrokerFailedError(text)

    def _fatal(self, actor: str, error: BaseException) -> None:
        """Called from any thread when the node cannot go on: confirm nothing more, end.

        The first failure is the cause: what meets a journal that has failed fails, too. Without
        memory there is one line and not one for each failure.
        """
        is_first = self.failure is None
        if is_out_of_memory(error) and self._release_reserve is not None:
            self._release_reserve()
        if is_first:
            self.failure = error
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None:
            # RuntimeError: `stop` has waited for this disk in vain, and the event loop is closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(stopping.set)
        if is_first or not is_out_of_memory(error):
            with suppress(MemoryError):
                self._log.error(BROKER_FAILED, actor=actor, error=failure_text(error))
