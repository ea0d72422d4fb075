"""One running node: opens the data directory, recovers, starts the actors, listens; and stops.

The order at the start: lock, catalog and journal (it reads both before it writes anything, and
syncs the recovered records before anything listens), actors, socket. At the stop: no new
connections, 320 to every client, then the journal and the catalog, each to its last byte.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from .actors.channel.firehose import FirehoseActor
from .actors.connection.listener import READ_BYTES_MAX, Listener
from .actors.connection.logins import Logins
from .actors.connection.transport import ReadableTransport
from .actors.dead_letters.publisher import DeadLetterPublisher
from .actors.disk.journal import JournalActor, Timed
from .actors.disk.left_publishes import LeftPublishes
from .actors.disk.maintenance import Maintenance, Pace, SegmentChecks
from .actors.disk.page_reader import PageReader
from .actors.messages import Abandon, AccountRequest, Ref, Shutdown
from .actors.node_context import NodeContext
from .actors.nsq.connection import NsqConnection
from .actors.nsq.settings import NsqSettings
from .actors.queue.memory_watch import MemoryWatch
from .actors.queue.shared_runs import SharedRuns
from .actors.runtime.out_of_memory import OnFatal, is_out_of_memory, watch_event_loop
from .actors.runtime.read_rounds import ReadRounds
from .actors.runtime.routing_turns import RoutingTurns
from .actors.runtime.runtime import Runtime, Scheduler, tell
from .actors.runtime.thread_actor import stop_and_wait
from .actors.runtime.ticker import Ticker
from .actors.topology.broker import BrokerActor
from .actors.topology.catalog import CatalogActor, restore
from .configuration import Configuration
from .core.alarms import MemoryLevel
from .core.arrivals import Arrivals
from .core.connection.draining import Draining
from .core.connection.handshake import Limits, ServerNames
from .core.connection.outlet import NodeOutlet
from .core.connection.peer import Peer, common_name, distinguished_name
from .core.connection.publish_window import NodeWindow
from .core.connection.waiting_peers import SILENT_SECONDS_MIN, WaitingPeers
from .core.exchanges.table import TopologyLimits
from .core.nsq.session import SessionLimits
from .core.publishing.reply_consumers import ReplyConsumers
from .core.publishing.vhost_users import VhostUsers
from .core.queue.memory_budget import MemoryBudget
from .core.topology.topology import Vhosts
from .core.users.accounts import Accounts
from .core.users.login_checks import DIGEST_KEY_BYTES, LoginChecks, PasswordCheck
from .definitions_file import import_at_start
from .disk import Disk
from .listening.control_socket import ControlSocket, open_control
from .listening.http import HttpListening
from .listening.listening import Listening
from .listening.tls import tls_context
from .logs.events import BROKER_STOPPED
from .logs.trace.trace import Trace
from .machine import Machine
from .management.about import About, ListenerAddress
from .nsq_frames.publishes import PublishLimits
from .open_accounts import new_password_hash, open_accounts
from .recovery_log import ReadingLog, log_losses, log_recovery
from .stopping import OpenFiles, StopClock
from .storage.data_directory import SPILL_DIRECTORY, DataDirectory
from .storage.files import Files
from .storage.journal.journal import CompactionRules
from .storage.journal.records import DIRECTORY_ID_BYTES
from .storage.journal.recovery import OnProgress
from .storage.reserve import Purpose
from .storage.spill import Spill
from .storage.stores import Stores
from .tracing import start_trace
from .version import VERSION

if TYPE_CHECKING:
    from ssl import SSLContext

    from structlog.typing import FilteringBoundLogger

# So many of the clients that hold a stop up are named.
_CLIENTS_SHOWN_MAX = 5
# For actors that have no memory to end.
_NO_MEMORY_TIMEOUT_MS = 1000


def _start_nsq(
    settings: NsqSettings,
    runtime: Runtime,
    context: NodeContext,
    transport: ReadableTransport,
    peer: Peer,
    listener: Ref,
) -> Ref:
    return NsqConnection.start_on(runtime, context, settings, transport, peer, listener)


def _name_of(vhosts: Vhosts, queue_id: int) -> str:
    """How a report calls the queue; for any thread."""
    for table in tuple(vhosts.tables.values()):
        for queue in (*table.queues(), *table.hidden_queues()):
            if queue.queue_id == queue_id:
                return f"queue {queue_id} ({queue.name!r} in {queue.vhost!r})"
    return f"queue {queue_id}"


_CERTIFICATE_NAMES = {"common_name": common_name, "distinguished_name": distinguished_name}


class Node:
    """A broker on the running event loop. `on_fatal` is called, from any thread, if it must end."""

    def __init__(
        self,
        configuration: Configuration,
        log: FilteringBoundLogger,
        on_fatal: OnFatal,
        machine: Machine | None = None,
        stop_hint: str = "",
        *,
        drops_unmatched: bool = False,
        on_reading: OnProgress | None = None,
    ) -> None:
        """`machine` is all that it runs on; None is the machine at hand.

        `stop_hint` says how to end a stop that takes long, where a person may want to know.
        `drops_unmatched`: start also where catalog and journal do not belong together.
        `on_reading` shows how far the journal is read; without it a long reading is logged.
        """
        self._on_reading = on_reading
        self._stop_hint = stop_hint
        self._drops_unmatched = drops_unmatched
        self._configuration = configuration
        self._machine = Machine() if machine is None else machine
        self._log = log
        self._on_fatal = on_fatal
        self._drained = asyncio.Event()
        self.open_files = OpenFiles()
        self._login_threads: Executor | None = None
        # Once it is started; nobody can log in before.
        self._broker: Ref | None = None
        self._dead_letters: DeadLetterPublisher | None = None
        self.listening: Listening | None = None
        self._control_socket: ControlSocket | None = None
        self._directory_id = ""
        self.http = HttpListening(configuration)
        # What its actors share, while it runs.
        self.context: NodeContext | None = None
        self.trace = Trace(
            self._machine.random_bytes(4).hex(),
            configuration.trace_failures_per_second_max,
            configuration.trace_slow_ms * 1_000_000,
        )
        self._arrivals = Arrivals()
        self.host = configuration.host
        self.port = configuration.port
        # None: there is no TLS listener.
        self.tls_port: int | None = None
        # None: nobody listens for NSQ.
        self.nsq_port: int | None = None

    async def start(self) -> None:
        """Recover and listen; StartError with one line if that cannot be."""
        scheduler = asyncio.get_running_loop()
        watch_event_loop(scheduler, self._on_fatal)
        disk = self._disk()
        with disk.room_to_start():
            directory = self._locked(disk)
            try:
                tls = tls_context(self._configuration)
                listener = self._start_actors(scheduler, directory, disk)
                await self._import_definitions()
                await self._listen(listener, tls, directory)
            except BaseException as error:
                if is_out_of_memory(error):
                    self._on_fatal("start", error)
                await self.stop()
                raise

    def start_actors(self, scheduler: Scheduler) -> Listener:
        """Recover, and start all actors, without a network: what a simulation runs.

        The listener is returned for connections to be made to. An error leaves files open.
        """
        disk = self._disk()
        with disk.room_to_start():
            return self._start_actors(scheduler, self._locked(disk), disk)

    def _disk(self) -> Disk:
        return Disk(self._configuration, self._machine.files, self._log)

    def _locked(self, disk: Disk) -> DataDirectory:
        directory = DataDirectory.open(disk.path, disk.files)
        # Closed last: another broker may write to the directory from then on.
        self.open_files.add("the lock", directory.close)
        return directory

    def _start_actors(self, scheduler: Scheduler, directory: DataDirectory, disk: Disk) -> Listener:
        configuration, machine = self._configuration, self._machine
        stores = disk.begin(partial(self._stores, directory, disk.files))
        self._directory_id = stores.directory_id.hex()
        boot_number = directory.begin(stores.boot_number_min)
        catalog = disk.begin(stores.open_catalog)
        self.open_files.add("the catalog", catalog.close)
        contents = catalog.load()
        user, password = configuration.default_user, configuration.default_password
        cost = configuration.password_hash_cost
        adds_default = not configuration.definitions_file
        accounts = disk.begin(
            partial(open_accounts, catalog, user, password, cost, adds_default=adds_default)
        )
        queue_ids = itertools.count(catalog.next_queue_id)
        limits = TopologyLimits(
            configuration.dedup_window_max,
            configuration.topic_costly_words_max,
            configuration.dedup_identities_max,
        )
        vhosts = Vhosts(accounts.vhosts, queue_ids.__next__, machine.random_bytes, limits)
        restore(vhosts, contents)
        rules = CompactionRules(
            configuration.compaction_live_percent_max / 100,
            configuration.compaction_segment_bytes_min,
        )
        runtime = self._runtime = machine.new_runtime(scheduler, self._log, self._on_fatal)
        wall_distance_ns = partial(self._wall_distance_ns, runtime)
        # Before other threads look, too.
        wall_distance_ns()
        journal = stores.begin_journal(
            catalog, boot_number, configuration.segment_bytes_max, rules, wall_distance_ns
        )
        self.open_files.add("the journal", journal.close)
        recovered = stores.recovered
        log_recovery(self._log, recovered, journal, stores.unverified_count)
        self.open_files.add("the trace", self.trace.close)
        start_trace(self.trace, disk, configuration, self._log, self._on_fatal)
        next_number = recovered.next_batch_number
        context = self.context = self._context(runtime, vhosts, accounts, next_number)
        name_of = partial(_name_of, vhosts)
        spill = Spill(
            machine.other_files(),
            str(directory.path / SPILL_DIRECTORY),
            stores.directory_id,
            configuration.disk_free_bytes_min,
            name_of,
            configuration.spill_segment_bytes_max,
            wall_distance_ns,
        )
        spill.clear()
        context.page_reader = PageReader.start_on(
            machine.threads,
            journal.reader(name_of),
            spill,
            self._log,
            self._on_fatal,
            self.trace,
            context.journal_figures.pages,
        )
        self.open_files.add("the pages", partial(stop_and_wait, context.page_reader))
        context.maintenance = Maintenance.start_on(
            machine.threads,
            journal.log,
            Pace(
                configuration.maintenance_bytes_per_second_max,
                configuration.maintenance_busy_percent_max,
                machine.pause,
                machine.monotonic,
                machine.thread_time,
            ),
            partial(disk.reserve.release_step, Purpose.COMPACTION),
            self._checks(stores, scheduler, context),
            self._log,
            self._on_fatal,
        )
        self.open_files.add("the maintenance", partial(stop_and_wait, context.maintenance))
        context.journal = JournalActor.start_on(
            machine.threads,
            journal,
            self._log,
            self._on_fatal,
            self.trace,
            disk.room,
            context.page_reader,
            context.maintenance,
            Timed(context.journal_figures, machine.monotonic),
        )
        self.open_files.change("the journal", partial(stop_and_wait, context.journal))
        context.catalog = CatalogActor.start_on(
            machine.threads, catalog, self._log, self._on_fatal, disk.reserve
        )
        self.open_files.change("the catalog", partial(stop_and_wait, context.catalog))
        self._dead_letters = DeadLetterPublisher(context)
        context.dead_letters = self._dead_letters.start_prepared(runtime)
        context.left_publishes = LeftPublishes.start_on(runtime, context)
        context.firehose = FirehoseActor.start_on(
            runtime,
            context,
            configuration.name_of_node(),
            configuration.firehose_backlog_bytes_max,
        )
        broker = BrokerActor(context)
        self._broker = context.broker = broker.start_prepared(runtime)
        listener = Listener(context, self._drained.set)
        self._listener = listener.start_prepared(runtime)
        # Before the queues: what these hold at their start may be too much.
        context.memory_watch = MemoryWatch.start_on(runtime, context, self._listener)
        broker.restore(recovered)
        log_losses(self._log, recovered)
        disk.watch(context, self._listener)
        return listener

    def _wall_distance_ns(self, runtime: Runtime) -> int:
        """From the trace's clock to the wall clock; for any thread."""
        return self._arrivals.look(runtime.wall_clock.now_ns(), self.trace.now_ns())

    def _checks(
        self, stores: Stores, scheduler: Scheduler, context: NodeContext
    ) -> SegmentChecks | None:
        if not self._uses_indexes:
            return None
        check = stores.background_check(self._machine.other_files())
        figures, wall_clock = context.journal_figures.check, context.runtime.wall_clock
        return SegmentChecks(check, context.ticker, scheduler.time, figures, wall_clock)

    @property
    def _uses_indexes(self) -> bool:
        return self._configuration.journal_verification == "background"

    async def _import_definitions(self) -> None:
        path = self._configuration.definitions_file
        if path:
            assert self.context is not None
            bytes_max = self._configuration.definitions_bytes_max
            await import_at_start(self.context, path, bytes_max)

    async def _listen(
        self, listener: Listener, tls: SSLContext | None, directory: DataDirectory
    ) -> None:
        configuration, context = self._configuration, self.context
        assert context is not None
        listening = self.listening = Listening(configuration, self._log)
        # The AMQP port first, because the setting `port` moves the HTTP port with it: where another
        # broker has both, the advice of the message leads to a start.
        await listening.bind(listener)
        await self.http.bind()
        nsq_settings = self._nsq_settings(listening)
        start_nsq = None
        if configuration.nsq_port >= 0:
            start_nsq = partial(_start_nsq, nsq_settings)
        await listening.open(listener, tls, self.http.address, start_nsq)
        self.host, self.port, self.tls_port = listening.host, listening.port, listening.tls_port
        self.nsq_port = listening.nsq_port
        if self.nsq_port is not None or self.http.nsq_port is not None:
            context.nsq_vhost = configuration.nsq_vhost
        about = {"http_address": self.http.address}
        self._control_socket = await open_control(
            context, configuration, directory.path, listening, about
        )
        about_node = self._about(listening, directory)
        self.http.open(context, about_node, nsq_settings, self.nsq_port)

    def _nsq_settings(self, listening: Listening) -> NsqSettings:
        configuration = self._configuration
        return NsqSettings(
            configuration.nsq_vhost,
            configuration.nsq_user or configuration.default_user,
            SessionLimits(
                configuration.nsq_ready_count_max,
                configuration.nsq_message_timeout_ms,
                configuration.nsq_message_timeout_ms_max,
                configuration.nsq_requeue_delay_ms_max,
                configuration.nsq_heartbeat_ms,
                configuration.nsq_heartbeat_ms_max,
                configuration.nsq_deflate_level_max,
            ),
            PublishLimits(
                configuration.message_size_max_bytes,
                configuration.nsq_body_bytes_max,
                configuration.nsq_requeue_delay_ms_max,
            ),
            lambda: listening.tls,
            self._machine.random_bytes,
        )

    def _about(self, listening: Listening, directory: DataDirectory) -> About:
        configuration = self._configuration
        listeners = [ListenerAddress("amqp", listening.host, listening.port)]
        if listening.tls_port is not None:
            listeners.append(ListenerAddress("amqp/ssl", listening.host, listening.tls_port))
        if listening.nsq_port is not None:
            listeners.append(ListenerAddress("nsq", configuration.nsq_host, listening.nsq_port))
        if self.http.port is not None:
            listeners.append(ListenerAddress("http", configuration.http_host, self.http.port))
        if self.http.metrics_port is not None:
            host, port = configuration.prometheus_host, self.http.metrics_port
            listeners.append(ListenerAddress("http/prometheus", host, port))
        if self.http.nsq_port is not None:
            host, port = configuration.nsq_http_host, self.http.nsq_port
            listeners.append(ListenerAddress("http/nsq", host, port))
        return About(
            node_name=configuration.name_of_node(),
            version=VERSION,
            server_version=configuration.server_version,
            product=configuration.server_product,
            started_seconds=time.time(),
            listeners=tuple(listeners),
            data_dir=str(directory.path.absolute()),
            directory_id=self._directory_id,
            certificate_path=configuration.tls_certificate,
            disk_free_bytes_min=configuration.disk_free_bytes_min,
            memory_alarm_bytes=configuration.memory_alarm_levels()[0],
            get_bytes_max=configuration.http_get_bytes_max,
            password_hash_cost=configuration.password_hash_cost,
        )

    def _stores(self, directory: DataDirectory, files: Files) -> Stores:
        new_directory_id = self._machine.random_bytes(DIRECTORY_ID_BYTES)
        catalogs = self._machine.catalogs
        return Stores(
            directory,
            files,
            new_directory_id,
            self._drops_unmatched,
            catalogs,
            may_use_indexes=self._uses_indexes,
            on_progress=self._on_reading or ReadingLog(self._log, self._machine.monotonic),
        )

    def _start_logins(self, runtime: Runtime, accounts: Accounts) -> Ref:
        configuration = self._configuration
        checks = LoginChecks(
            accounts.users,
            running_max=configuration.password_checks_max,
            waiting_max=configuration.password_checks_waiting_max,
            decoy_hash=new_password_hash("", configuration.password_hash_cost),
            key=self._machine.random_bytes(DIGEST_KEY_BYTES),
        )
        threads = self._login_threads = self._machine.login_threads(
            configuration.password_checks_max
        )
        loopback_users = configuration.loopback_users
        rehash = None
        if configuration.password_rehash == "on":
            rehash = partial(new_password_hash, cost=configuration.password_hash_cost)
        return Logins.start_on(
            runtime, checks, threads, loopback_users, self._on_fatal, rehash, self._store_hash
        )

    def _store_hash(self, logins: Ref, check: PasswordCheck, new_hash: str) -> None:
        """Have an imported hash of a password replaced by one of ours."""
        assert self._broker is not None
        before = {"user": check.user, "before": check.password_hash}
        arguments = before | {"password_hash": new_hash}
        tell(self._broker, AccountRequest(logins, None, "user rehash", arguments))

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
            server_names=ServerNames(
                configuration.server_product, configuration.server_version, VERSION
            ),
            accounts=accounts,
            certificate_name=_CERTIFICATE_NAMES[configuration.tls_login_name],
            trace=self.trace,
            wall_distance_ns=partial(self._wall_distance_ns, runtime),
            next_batch_number=itertools.count(next_batch_number).__next__,
            message_size_max_bytes=configuration.message_size_max_bytes,
            unfinished_publishes_bytes_max=configuration.unfinished_publishes_limit(),
            publish_window_bytes_max=configuration.publish_window_bytes_max,
            node_window=NodeWindow(configuration.node_publish_window_limit()),
            delivery_window_bytes_max=configuration.delivery_window_bytes_max,
            node_outlet=NodeOutlet(configuration.node_delivery_window_limit()),
            sweep_interval_bytes=configuration.sweep_interval_bytes,
            write_buffer_bytes_max=configuration.write_buffer_bytes_max,
            transaction_bytes_max=configuration.transaction_bytes_max,
            timed_out_ranges_max=configuration.timed_out_ranges_max,
            touched_timeout_ms_max=configuration.touched_timeout_ms_max,
            reply_window_bytes_max=configuration.reply_window_bytes_max,
            memory_budget=MemoryBudget(configuration.memory_budget_limit()),
            read_ahead_bytes_max=configuration.read_ahead_bytes_max,
            stranded_letters_max=configuration.stranded_letters_max,
            stranded_letters_bytes_max=configuration.stranded_letters_bytes_max,
            handshake_timeout_seconds=configuration.handshake_timeout_ms / 1000,
            close_timeout_seconds=configuration.close_timeout_ms / 1000,
            silent_close_delay_seconds=configuration.silent_close_delay_ms / 1000,
            unopened=WaitingPeers(SILENT_SECONDS_MIN),
            unopened_connections_max=configuration.unopened_connections_max,
            draining=Draining(configuration.draining_sockets_max, configuration.drain_timeout_ms),
            connections_max=configuration.connections_max,
            sockets_above_connections_max=configuration.sockets_above_connections_max,
            file_descriptors_kept=configuration.file_descriptors_kept,
            consumers_per_channel_max=configuration.consumers_per_channel_max,
            on_fatal=self._on_fatal,
            reply_consumers=ReplyConsumers(),
            vhost_users=VhostUsers(accounts, configuration.routes_kept_bytes_max),
            routing_turns=RoutingTurns(runtime, configuration.routing_round_ms_max / 1000),
            read_rounds=ReadRounds(runtime, configuration.read_round_bytes_max, READ_BYTES_MAX),
            shared_runs=SharedRuns(configuration.shared_runs_bytes_max),
            broker=nobody,
            ticker=Ticker.start_on(runtime, self._on_fatal),
            memory_watch=nobody,
            memory_level=MemoryLevel(*configuration.memory_alarm_levels()),
            dead_letters=nobody,
            left_publishes=nobody,
            firehose=nobody,
            journal=nobody,
            maintenance=nobody,
            page_reader=nobody,
            catalog=nobody,
            logins=self._start_logins(runtime, accounts),
        )

    async def abandon(self, failure: BaseException) -> None:
        """Drop every connection without a word: nothing more may be confirmed."""
        clock = self._stop_clock()
        timeout_ms = self._configuration.close_timeout_ms
        if self.listening is not None:
            self.listening.close()
            self.listening = None
            # The listener itself may have failed, and without memory no message can reach it: the
            # loop's end closes the sockets then.
            with suppress(MemoryError):
                tell(self._listener, Abandon())
                if is_out_of_memory(failure):
                    timeout_ms = min(timeout_ms, _NO_MEMORY_TIMEOUT_MS)
                await clock.wait(self._drained.is_set, self._unanswered, timeout_ms)
        await self._close_files(clock)

    async def stop(self) -> bool:
        """Say 320 to the clients, write everything that was accepted, close the files.

        False if stop_timeout_ms was over before the files were closed: the directory then stays
        locked until they are (`open_files.closed`).
        """
        clock = self._stop_clock()
        self.http.close()
        if self.listening is not None:
            self.listening.close()
            tell(self._listener, Shutdown())
            timeout_ms = self._configuration.stop_clients_timeout_ms
            if not await clock.wait(self._drained.is_set, self._unanswered, timeout_ms):
                tell(self._listener, Abandon())
            self.listening = None
            # The queues and the journal now own the recovered messages. Dead letters, too: their
            # originals are settled, or they would come back at the next start.
            if self.context is not None:
                self.context.is_stopping = True
            await clock.wait(
                self._is_drained,
                lambda: "dead letters, or messages of topics, that are not on the disk yet",
            )
        is_closed = await self._close_files(clock)
        self._log.info(BROKER_STOPPED)
        return is_closed

    def _is_drained(self) -> bool:
        assert self.context is not None
        assert self._dead_letters is not None
        context = self.context
        if context.routing_turns.waiting or context.last_letters or context.moving:
            return False
        return self._runtime.is_idle() and self._dead_letters.is_drained()

    def _stop_clock(self) -> StopClock:
        return StopClock(self._log, self._configuration.stop_timeout_ms, self._stop_hint)

    def _unanswered(self) -> str:
        """Which clients hold the stop up."""
        assert self.context is not None
        names = [each.peer.name for each in self.context.open_connections.values()]
        shown = ", ".join(names[:_CLIENTS_SHOWN_MAX]) + ", ..." * (len(names) > _CLIENTS_SHOWN_MAX)
        count = (
            "1 connection that has" if len(names) == 1 else f"{len(names)} connections that have"
        )
        return f"{count} not answered connection.close: {shown}"

    async def _close_files(self, clock: StopClock) -> bool:
        self.http.close()
        if self._dead_letters is not None:
            # The journal may take their letters, and close before it is told that they are safe.
            self._dead_letters.end()
        if self._control_socket is not None:
            self._control_socket.close()
        if self._login_threads is not None:
            # Nobody is left to hear what they find.
            self._login_threads.shutdown(wait=False, cancel_futures=True)
        return await self.open_files.close(clock)
