"""`leveret.Broker`: a broker inside a program, on a thread of its own."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .configuration import Configuration
from .errors import StartError
from .logs.configure import service_log
from .node import Node
from .storage.errors import StorageError
from .storage.files import Files

if TYPE_CHECKING:
    from typing import Self


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


class Broker:
    """A broker that runs while its context is entered; `host` and `port` say where.

    With a certificate in the settings `tls_port`, else None, says where it speaks TLS.

        with Broker(data_dir=path, port=0) as broker:
            connect(broker.host, broker.port)

    Settings are those of `Configuration`, with `http_listener="off"`; if it is on, `http_port` says
    where. The host's actors, logging, signals and switch interval
    are left alone. StartError if it cannot start; if it fails later, all its connections are
    closed without a confirm, and `failure` says why. `files` stands in for the disk, in tests.
    """

    def __init__(
        self,
        configuration: Configuration | None = None,
        *,
        files: Files | None = None,
        **settings: Any,
    ) -> None:
        if isinstance(settings.get("data_dir"), str):
            settings["data_dir"] = Path(settings["data_dir"])
        # Lists are written as in leveret.toml.
        for name, value in settings.items():
            if isinstance(value, list):
                settings[name] = tuple(value)
        # A program asks its broker by its own means: no port of HTTP, unless it says so.
        self.configuration = configuration or Configuration(**{"http_listener": "off"} | settings)
        self._files = files
        self.host = ""
        self.port = 0
        self.tls_port: int | None = None
        self.http_port: int | None = None
        self.failure: BaseException | None = None
        self._log = service_log(self.configuration.log_level, self.configuration.log_format)
        self._started = threading.Event()
        self._thread: threading.Thread | None = None
        self._start_error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._is_to_stop = False
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
        self._is_to_stop = False
        thread = threading.Thread(target=self._run, name="leveret", daemon=True)
        thread.start()
        self._thread = thread
        self._started.wait()
        if self._start_error is not None:
            thread.join()
            if isinstance(self._start_error, StorageError | OSError):
                raise StartError(str(self._start_error)) from self._start_error
            raise self._start_error

    def stop(self) -> None:
        """Stop gracefully, and return when everything is closed.

        Also while it starts, as a signal's handler may: it stops when it has started.
        """
        self._is_to_stop = True
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None:
            # RuntimeError: it has ended by itself.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(stopping.set)
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            run_on_event_loop(self._main())
        except BaseException as error:
            if self._started.is_set():
                self.failure = self.failure or error
            else:
                self._start_error = error
        self._started.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        if self._is_to_stop:
            self._stopping.set()
        node = self.node = Node(self.configuration, self._log, self._fatal, self._files)
        await node.start()
        self.host, self.port, self.tls_port = node.host, node.port, node.tls_port
        self.http_port = node.http.port
        self._started.set()
        await self._stopping.wait()
        if self.failure is None:
            await node.stop()
        else:
            await node.abandon()

    def _fatal(self, actor: str, error: BaseException) -> None:
        """Called from any thread when the node cannot go on: confirm nothing more, end.

        The first failure is the cause: what meets a journal that has failed fails, too.
        """
        if self.failure is None:
            self.failure = error
        self._log.error("broker.failed", actor=actor, error=repr(error))
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None:
            loop.call_soon_threadsafe(stopping.set)
