"""A whole node in one thread, without sockets, files or waiting: for octets that a client sends.

The actors are the product's own, but for the three that block: a journal and a catalog whose disk
is always fast and never fails, and logins that refuse nobody. Each connection has a transport that
keeps what is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

from hand_scheduler import HandScheduler
from leveret.actors.connection.listener import Listener
from leveret.actors.connection.transport import ReadableTransport
from leveret.actors.dead_letters.publisher import DeadLetterPublisher
from leveret.actors.disk.left_publishes import LeftPublishes
from leveret.actors.messages import (
    Append,
    AskJournal,
    Commit,
    Committed,
    ConnectionLost,
    LogIn,
    LoginAnswer,
    Persisted,
    Ref,
    SettleSynced,
)
from leveret.actors.node_context import NodeContext
from leveret.actors.nsq.connection import NsqConnection
from leveret.actors.nsq.settings import NsqSettings
from leveret.actors.runtime.runtime import LoopActor, Runtime, tell
from leveret.actors.topology.broker import BrokerActor
from leveret.configuration import Configuration
from leveret.core.connection.peer import Peer
from leveret.core.exchanges.table import TopologyLimits
from leveret.core.nsq.session import SessionLimits
from leveret.core.topology.topology import Vhosts
from leveret.core.users.accounts import Accounts, Permission, User, VhostMetadata
from leveret.core.users.login_results import LoginResult
from leveret.node import Node
from leveret.nsq_frames.publishes import PublishLimits

# More rounds than this and the actors chase each other.
ROUNDS_MAX = 20_000
_NSQ = NsqSettings(
    "/",
    "guest",
    SessionLimits(2500, 60_000, 900_000, 3_600_000, 30_000, 60_000, 6),
    PublishLimits(1 << 20, 5 << 20, 3_600_000),
    lambda: None,
    bytes,
)


class Journal(LoopActor):
    """All that it is told is on the disk."""

    def __init__(self) -> None:
        super().__init__()
        self._appends: dict[Ref, list[Append]] = {}

    def on_receive(self, message: object) -> None:
        if isinstance(message, Append):
            self._appends.setdefault(message.queue, []).append(message)
        elif isinstance(message, SettleSynced | AskJournal):
            tell(message.reply_to, message.answer)

    def on_idle(self) -> None:
        appends, self._appends = self._appends, {}
        for queue, persisted in appends.items():
            tell(queue, Persisted(persisted))


class Catalog(LoopActor):
    """Commits whatever it is told."""

    def on_receive(self, message: object) -> None:
        if isinstance(message, Commit):
            tell(message.reply_to, Committed())


class Logins(LoopActor):
    """Lets everybody in."""

    def on_receive(self, message: object) -> None:
        assert isinstance(message, LogIn)
        tell(message.reader, LoginAnswer(LoginResult.ALLOWED))


class Log:
    """Keeps the failures of actors."""

    def __init__(self) -> None:
        self.failures: list[Any] = []

    def bind(self, **_values: object) -> Log:
        return self

    def error(self, event: str, **values: Any) -> None:
        self.failures.append((event, values))

    def info(self, event: str, **values: object) -> None:
        pass

    debug = warning = info


class Transport:
    """A connection whose client reads all that it is sent."""

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, pieces: list[bytes]) -> None:
        self.written += b"".join(pieces)

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 40_000) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


class QuietNode:
    """`connect`, then `feed`, then `lose`; each carries out all that follows from it."""

    def __init__(self) -> None:
        self.scheduler = HandScheduler()
        self.log: Any = Log()
        self._fatal: list[tuple[str, BaseException]] = []
        configuration = Configuration(
            data_dir=Path("nowhere"),
            handshake_timeout_ms=10_000,
            message_size_max_bytes=1 << 20,
            publish_window_bytes_max=1 << 20,
        )
        runtime = Runtime(self.scheduler, self.log, self._on_fatal)
        users = {"guest": User("guest", "", ())}
        permission = Permission("guest", "/", ".*", ".*", ".*")
        accounts = Accounts(users, {"/": VhostMetadata()}, {("guest", "/"): permission})
        queue_ids = iter(range(1, 1 << 30))
        vhosts = Vhosts(accounts.vhosts, queue_ids.__next__, bytes, TopologyLimits())
        node = Node(configuration, self.log, self._on_fatal)
        # Of nobody's password; it takes longer than all the rest.
        with patch("leveret.node.new_password_hash", return_value=""):
            # private: the node's own context, with all settings in place, and without its files.
            context = self.context = node._context(runtime, vhosts, accounts, 1)
        context.journal = Journal.start_on(runtime)
        context.catalog = Catalog.start_on(runtime)
        context.logins = Logins.start_on(runtime)
        context.dead_letters = DeadLetterPublisher.start_on(runtime, context)
        context.left_publishes = LeftPublishes.start_on(runtime, context)
        context.broker = BrokerActor.start_on(runtime, context)
        self._runtime = runtime
        self._listener = Listener(context, lambda: None)
        self._listener.start_prepared(runtime)
        self.settle()

    def _on_fatal(self, what: str, error: BaseException) -> None:
        self._fatal.append((what, error))

    def connect(self) -> tuple[Transport, Ref]:
        """A new connection, and the actor that reads it."""
        transport = Transport()
        reader = self._listener.connection_made(transport)  # type: ignore[arg-type]
        assert reader is not None
        return transport, reader

    def connect_nsq(self) -> tuple[Transport, Ref]:
        """The same of a client of NSQ."""
        transport = Transport()
        made = self._listener.connection_made
        connection = made(transport, self._start_nsq)  # type: ignore[arg-type]
        assert connection is not None
        return transport, connection

    @staticmethod
    def _start_nsq(
        runtime: Runtime,
        context: NodeContext,
        transport: ReadableTransport,
        peer: Peer,
        listener: Ref,
    ) -> Ref:
        return NsqConnection.start_on(runtime, context, _NSQ, transport, peer, listener)

    def feed(self, reader: Ref, data: bytes) -> None:
        """One read."""
        self._runtime.tell_now(reader, data)
        self.settle()

    def lose(self, reader: Ref) -> None:
        """The socket is closed; nothing of the connection may stay."""
        tell(reader, ConnectionLost("closed"))
        self.settle()
        assert not reader.is_alive()
        assert not self.context.open_connections
        assert not len(self.context.unopened)

    def settle(self) -> None:
        """Let every actor carry out what it was told; raises what one of them raised."""
        rounds = 0
        while self.scheduler.run_round():
            rounds += 1
            assert rounds < ROUNDS_MAX, "the actors do not come to rest"
        for event, values in self.log.failures:
            exc_info = values.get("exc_info")
            if exc_info:
                raise exc_info[1]
            raise AssertionError(event, values)
        for what, error in self._fatal:
            raise AssertionError(what) from error
