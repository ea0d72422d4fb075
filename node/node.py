"""One running node: opens the data directory, recovers, starts the actors, listens; and stops.

The order at the start: lock, catalog, journal (what it accepted is synced before anything listens),
actors, socket. At the stop: no new connections, 320 to every client, then the journal and the
catalog, each to its last byte.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .actors.broker import BrokerActor
from .actors.catalog import CatalogActor
from .actors.catalog_changes import restore
from .actors.dead_letter_publisher import DeadLetterPublisher
from .actors.journal import JournalActor, stop_and_wait
from .actors.listener import Listener
from .actors.logins import Logins, login_threads
from .actors.messages import Abandon, Ref, Shutdown
from .actors.node_context import NodeContext
from .actors.runtime import Runtime, tell
from .actors.ticker import Ticker
from .configuration import Configuration
from .control_socket import ControlSocket, open_control
from .core.accounts import Accounts
from .core.handshake import Limits
from .core.login_checks import DIGEST_KEY_BYTES, LoginChecks
from .core.peer import common_name, distinguished_name
from .core.reply_consumers import ReplyConsumers
from .core.vhosts import Vhosts
from .disk import watch_disk
from .http_listening import HttpListening
from .listening import Listening
from .logs.trace import Trace, TraceFilter
from .logs.trace_files import TraceFiles
from .open_accounts import new_password_hash, open_accounts, open_catalog
from .storage.catalog import Catalog
from .storage.data_directory import DataDirectory
from .storage.files import Files
from .storage.journal import Journal
from .storage.recovery import Recovered
from .tls import tls_context
from .version import VERSION

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# At the stop, how often it is looked whether the last dead letters are on disk.
DRAIN_POLL_SECONDS = 0.001

OnFatal = Callable[[str, BaseException], None]

_CERTIFICATE_NAMES = {"common_name": common_name, "distinguished_name": distinguished_name}


class Node:
    """A broker on the running event loop. `on_fatal` is called, from any thread, if it must end."""

    def __init__(
        self,
        configuration: Configuration,
        log: FilteringBoundLogger,
        on_fatal: OnFatal,
        files: Files | None = None,
    ) -> None:
        """`files` is the disk under directory and journal; None is the machine's own."""
        self._configuration = configuration
        self._files = files
        self._log = log
        self._on_fatal = on_fatal
        self._drained = asyncio.Event()
        self._directory: DataDirectory | None = None
        self._catalog: Catalog | None = None
        self._journal: Journal | None = None
        self._journal_actor: Ref | None = None
        self._catalog_actor: Ref | None = None
        self._login_threads: ThreadPoolExecutor | None = None
        self.listening: Listening | None = None
        self._control_socket: ControlSocket | None = None
        self.http = HttpListening(configuration)
        # What its actors share, while it runs.
        self.context: NodeContext | None = None
        self.trace = Trace(os.urandom(4).hex(), configuration.trace_buffer_events_max)
        self.host = configuration.host
        self.port = configuration.port
        # None: there is no TLS listener.
        self.tls_port: int | None = None

    async def start(self) -> None:
        """Recover and listen; StartError with one line if that cannot be."""
        self._directory = DataDirectory.open(Path(self._configuration.data_dir), self._files)
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        configuration = self._configuration
        tls = tls_context(configuration)
        assert self._directory is not None
        catalog = self._catalog = open_catalog(self._directory)
        contents = catalog.load()
        accounts = open_accounts(
            catalog,
            configuration.default_user,
            configuration.default_password,
            configuration.password_hash_cost,
        )
        queue_ids = itertools.count(catalog.next_queue_id)
        window_max = configuration.dedup_window_max
        vhosts = Vhosts(accounts.vhosts, queue_ids.__next__, os.urandom, window_max)
        restore(vhosts, contents)
        self._journal, recovered = Journal.open(
            str(self._directory.path / "journal"),
            self._files,
            known_queue_ids={queue.queue_id for queue in vhosts.queues()},
            segment_bytes_max=configuration.segment_bytes_max,
        )
        self._report(recovered)
        self._start_trace()
        runtime = self._runtime = Runtime(asyncio.get_running_loop(), self._log)
        next_number = recovered.next_batch_number
        context = self.context = self._context(runtime, vhosts, accounts, next_number)
        context.journal = JournalActor.start_alone(
            self._journal, self._log, self._on_fatal, self.trace
        )
        context.catalog = CatalogActor.start_alone(catalog, self._log, self._on_fatal)
        self._journal_actor, self._catalog_actor = context.journal, context.catalog
        self._dead_letters = DeadLetterPublisher(context)
        context.dead_letters = self._dead_letters.start_prepared(runtime)
        broker = BrokerActor(context)
        context.broker = broker.start_prepared(runtime)
        broker.restore(recovered)
        listener = Listener(context, self._drained.set)
        self._listener = listener.start_prepared(runtime)
        watch_disk(context, self._listener, configuration, self._files, self._directory.path)
        listening = self.listening = Listening(configuration, self._log)
        await self.http.bind(context)
        await listening.open(listener, tls, self.http.address)
        self.host, self.port, self.tls_port = listening.host, listening.port, listening.tls_port
        about = {"http_address": self.http.address}
        self._control_socket = await open_control(context, self._directory.path, listening, about)
        await self.http.open()

    def _start_logins(self, runtime: Runtime, accounts: Accounts) -> Ref:
        configuration = self._configuration
        checks = LoginChecks(
            accounts.users,
            running_max=configuration.password_checks_max,
            waiting_max=configuration.password_checks_waiting_max,
            decoy_hash=new_password_hash("", configuration.password_hash_cost),
            key=os.urandom(DIGEST_KEY_BYTES),
        )
        threads = self._login_threads = login_threads(configuration.password_checks_max)
        loopback_users = configuration.loopback_users
        return Logins.start_on(runtime, checks, threads, loopback_users, self._on_fatal)

    def _context(
        self, runtime: Runtime, vhosts: Vhosts, accounts: Accounts, next_batch_number: int
    ) -> NodeContext:
        configuration = self._configuration
        nobody: Any = None
        return NodeContext(
            runtime=runtime,
            vhosts=vhosts,
            limits=Limits(
                configuration.frame_max_bytes,
                configuration.channel_max,
                configuration.heartbeat_seconds,
            ),
            version=VERSION,
            accounts=accounts,
            certificate_name=_CERTIFICATE_NAMES[configuration.tls_login_name],
            trace=self.trace,
            next_batch_number=itertools.count(next_batch_number).__next__,
            message_size_max_bytes=configuration.message_size_max_bytes,
            unfinished_publishes_bytes_max=configuration.unfinished_publishes_limit(),
            publish_window_bytes_max=configuration.publish_window_bytes_max,
            delivery_window_bytes_max=configuration.delivery_window_bytes_max,
            sweep_interval_bytes=configuration.sweep_interval_bytes,
            write_buffer_bytes_max=configuration.write_buffer_bytes_max,
            transaction_bytes_max=configuration.transaction_bytes_max,
            reply_window_bytes_max=configuration.reply_window_bytes_max,
            stranded_letters_max=configuration.stranded_letters_max,
            stranded_letters_bytes_max=configuration.stranded_letters_bytes_max,
            handshake_timeout_seconds=configuration.handshake_timeout_ms / 1000,
            close_timeout_seconds=configuration.close_timeout_ms / 1000,
            connections_max=configuration.connections_max,
            file_descriptors_kept=configuration.file_descriptors_kept,
            consumers_per_channel_max=configuration.consumers_per_channel_max,
            on_fatal=self._on_fatal,
            reply_consumers=ReplyConsumers(),
            broker=nobody,
            ticker=Ticker.start_on(runtime, self._on_fatal),
            dead_letters=nobody,
            journal=nobody,
            catalog=nobody,
            logins=self._start_logins(runtime, accounts),
        )

    def _start_trace(self) -> None:
        configuration = self._configuration
        assert self._directory is not None
        self.trace.sink = TraceFiles(
            self.trace,
            self._directory.path / "traces",
            self._log,
            configuration.trace_file_bytes_max,
            configuration.trace_file_age_seconds_max,
            configuration.trace_files_max,
        )
        if configuration.trace_one_of:
            queues = frozenset(configuration.trace_queues)
            self.trace.start(TraceFilter(configuration.trace_one_of, queues), "configured")

    def _report(self, recovered: Recovered) -> None:
        for line in recovered.report:
            event = f"journal.{line.event}"
            self._log.warning(event, report=line.text)
        messages = sum(len(run.indexes) for runs in recovered.queues.values() for run in runs)
        self._log.info("journal.recovered", queues=len(recovered.queues), messages=messages)

    async def abandon(self) -> None:
        """Drop every connection without a word: nothing more may be confirmed."""
        if self.listening is not None:
            self.listening.close()
            self.listening = None
            tell(self._listener, Abandon())
            # The listener itself may be what has failed: the loop's end closes the sockets then.
            await self._wait_until_drained(self._configuration.close_timeout_ms)
        await self._close_files()

    async def stop(self) -> None:
        """Say 320 to the clients, write everything that was accepted, close the files."""
        self.http.close()
        if self.listening is not None:
            self.listening.close()
            tell(self._listener, Shutdown())
            if not await self._wait_until_drained(self._configuration.stop_timeout_ms):
                tell(self._listener, Abandon())
            self.listening = None
            await self._quiesce()
        await self._close_files()
        self._log.info("broker.stopped")

    async def _quiesce(self) -> None:
        """Wait until what was read is with its queues and the journal.

        Dead letters, too: their originals are settled, or they would come back at the next start.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._configuration.stop_timeout_ms / 1000
        while not self._runtime.is_idle():
            await asyncio.sleep(0)
        while not (self._dead_letters.is_drained() and self._runtime.is_idle()):
            if loop.time() > deadline:
                milliseconds = self._configuration.stop_timeout_ms
                self._log.warning("broker.dead_letters_timeout", milliseconds=milliseconds)
                return
            await asyncio.sleep(DRAIN_POLL_SECONDS)

    async def _wait_until_drained(self, timeout_ms: int) -> bool:
        """Wait for the last connection to go; false if it does not."""
        try:
            await asyncio.wait_for(self._drained.wait(), timeout_ms / 1000)
        except TimeoutError:
            self._log.warning("broker.stop_timeout", milliseconds=timeout_ms)
            return False
        return True

    async def _close_files(self) -> None:
        loop = asyncio.get_running_loop()
        self.http.close()
        await loop.run_in_executor(None, self.trace.close)
        if self._control_socket is not None:
            self._control_socket.close()
        if self._login_threads is not None:
            # Nobody is left to hear what they find.
            self._login_threads.shutdown(wait=False, cancel_futures=True)
        owners = ((self._journal_actor, self._journal), (self._catalog_actor, self._catalog))
        for actor, file in owners:
            if actor is not None:
                seconds = self._configuration.close_timeout_ms / 1000
                await loop.run_in_executor(None, stop_and_wait, actor, seconds)
            elif file is not None:
                # The start failed before there was an actor for it.
                file.close()
        if self._directory is not None:
            self._directory.close()
            self._directory = None
