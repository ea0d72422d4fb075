"""The catalog: durable topology and accounts, in SQLite. What was answered for is in here.

One transaction per `apply`, and one fdatasync per transaction: WAL with synchronous=FULL, which of
SQLite's modes commits one row fastest (docs/JOURNAL.md has the figures). The file is held
exclusively while it is open, as the data directory is, which saves the shared-memory index.

It stores what it is told and knows no rules: names, flags, and arguments as an encoded AMQP table.
Transient and exclusive things are not told to it. It may live on any one thread at a time.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

from .catalog_accounts import AccountChange, AccountRows, apply_account_change, load_accounts
from .catalog_schema import SCHEMA_VERSION, STEPS
from .errors import StorageError

_OWNER_ONLY = 0o600


class ExchangeRow(NamedTuple):
    """A durable exchange."""

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    # An encoded AMQP table, as every `arguments` here.
    arguments: bytes


class QueueRow(NamedTuple):
    """A durable queue. A queue id is never used again, whatever becomes of the queue."""

    queue_id: int
    vhost: str
    name: str
    durable: bool
    auto_delete: bool
    arguments: bytes


class BindingRow(NamedTuple):
    """A binding of a durable exchange to a durable queue or exchange ("queue", "exchange")."""

    vhost: str
    source: str
    destination: str
    destination_kind: str
    routing_key: str
    arguments: bytes


class CatalogContents(NamedTuple):
    """Everything, each list in the order in which it was added."""

    exchanges: list[ExchangeRow]
    queues: list[QueueRow]
    bindings: list[BindingRow]


class AddExchange(NamedTuple):
    """The exchange is new."""

    exchange: ExchangeRow


class RemoveExchange(NamedTuple):
    """The exchange goes, with the bindings from it and to it."""

    vhost: str
    name: str


class AddQueue(NamedTuple):
    """The queue is new."""

    queue: QueueRow


class RemoveQueue(NamedTuple):
    """The queue goes, with its bindings."""

    queue_id: int


class AddBinding(NamedTuple):
    """The binding is new; the same again changes nothing."""

    binding: BindingRow


class RemoveBinding(NamedTuple):
    """The binding goes."""

    binding: BindingRow


TopologyChange = AddExchange | RemoveExchange | AddQueue | RemoveQueue | AddBinding | RemoveBinding
Change = TopologyChange | AccountChange


class CatalogDamagedError(StorageError):
    """The file is not the catalog that it should be."""


class Catalog:
    """An open catalog."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    @classmethod
    def open(cls, path: Path, *, may_be_new: bool = True) -> Self:
        """Open the file; StorageError if it is damaged, newer or in use.

        Where there is none, or an empty one, a new one is made if it may be; else it is damaged.
        """
        with suppress(OSError):
            # Hashes of passwords are nobody else's to read. Of a wrong path SQLite speaks.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, _OWNER_ONLY))
            os.chmod(path, _OWNER_ONLY)
        with _errors_named(path):
            # Autocommit: transactions are begun and committed in words.
            connection = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=0
            )
            try:
                catalog = cls(connection, path)
                catalog._prepare(may_be_new)
            except BaseException:
                connection.close()
                raise
        return catalog

    @property
    def next_queue_id(self) -> int:
        """Above every queue id that was ever stored, of queues long gone, too."""
        with _errors_named(self._path):
            row = self._connection.execute(
                "SELECT seq FROM sqlite_sequence WHERE name = 'queues'"
            ).fetchone()
        return int(row[0]) + 1 if row else 1

    def load(self) -> CatalogContents:
        """Read everything."""
        execute = self._connection.execute
        with _errors_named(self._path):
            exchanges = execute(
                "SELECT vhost, name, type, durable, auto_delete, internal, arguments"
                " FROM exchanges ORDER BY rowid"
            )
            queues = execute(
                "SELECT queue_id, vhost, name, durable, auto_delete, arguments"
                " FROM queues ORDER BY queue_id"
            )
            bindings = execute(
                "SELECT vhost, source, destination, destination_kind, routing_key, arguments"
                " FROM bindings ORDER BY rowid"
            )
            return CatalogContents(
                [
                    ExchangeRow(vhost, name, type_, bool(durable), bool(auto), bool(internal), args)
                    for vhost, name, type_, durable, auto, internal, args in exchanges
                ],
                [
                    QueueRow(queue_id, vhost, name, bool(durable), bool(auto), args)
                    for queue_id, vhost, name, durable, auto, args in queues
                ],
                [BindingRow(*row) for row in bindings],
            )

    def load_accounts(self) -> AccountRows:
        """Read users, vhosts and permissions."""
        with _errors_named(self._path):
            return load_accounts(self._connection)

    def apply(self, changes: Sequence[Change]) -> None:
        """Make all the changes, or none. They are on the disk when this returns."""
        if not changes:
            return
        execute = self._connection.execute
        with _errors_named(self._path):
            execute("BEGIN IMMEDIATE")
            try:
                for change in changes:
                    _apply(self._connection, change)
                execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file. What was applied is there already."""
        self._connection.close()

    def _prepare(self, may_be_new: bool) -> None:
        execute = self._connection.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")
        (version,) = execute("PRAGMA user_version").fetchone()
        if not version and not may_be_new:
            msg = (
                f"catalog {self._path} is gone or empty, but there is a journal, of whose queues "
                "and users it told: put it back, or move the journal away, too, to begin anew"
            )
            raise CatalogDamagedError(msg)
        if version > SCHEMA_VERSION:
            msg = (
                f"catalog {self._path} has schema version {version}, "
                f"newer than {SCHEMA_VERSION}, which this broker knows"
            )
            raise StorageError(msg)
        verdict = execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            msg = f"catalog {self._path} is damaged: {' '.join(verdict.split())}"
            raise CatalogDamagedError(msg)
        if version < SCHEMA_VERSION:
            steps = "".join(STEPS[each] for each in range(version, SCHEMA_VERSION))
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {steps} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )


@contextmanager
def _errors_named(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, in one line, with the file's name in it."""
    try:
        yield
    except sqlite3.OperationalError as error:
        msg = f"catalog {path}: {' '.join(str(error).split())}"
        raise StorageError(msg) from error
    except sqlite3.IntegrityError:
        # A change that contradicts what is stored is a fault of the broker's, not of the file.
        raise
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        # SQLite quotes what it finds, and that may be no text.
        msg = f"catalog {path} is damaged: {' '.join(str(error).split())}"
        raise CatalogDamagedError(msg) from error


def _apply(connection: sqlite3.Connection, change: Change) -> None:
    execute = connection.execute
    match change:
        case AddQueue(queue):
            execute("INSERT INTO queues VALUES (?, ?, ?, ?, ?, ?)", queue)
        case AddBinding(binding):
            execute(
                "INSERT INTO bindings VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", binding
            )
        case RemoveQueue(queue_id):
            execute(
                "DELETE FROM bindings WHERE destination_kind = 'queue' AND (vhost, destination)"
                " = (SELECT vhost, name FROM queues WHERE queue_id = ?)",
                (queue_id,),
            )
            execute("DELETE FROM queues WHERE queue_id = ?", (queue_id,))
        case RemoveBinding(binding):
            execute(
                "DELETE FROM bindings WHERE vhost = ? AND source = ? AND destination = ?"
                " AND destination_kind = ? AND routing_key = ? AND arguments = ?",
                binding,
            )
        case AddExchange(exchange):
            execute("INSERT INTO exchanges VALUES (?, ?, ?, ?, ?, ?, ?)", exchange)
        case RemoveExchange(vhost, name):
            execute(
                "DELETE FROM bindings WHERE vhost = ?1 AND (source = ?2"
                " OR (destination_kind = 'exchange' AND destination = ?2))",
                (vhost, name),
            )
            execute("DELETE FROM exchanges WHERE vhost = ? AND name = ?", (vhost, name))
        case _:
            apply_account_change(connection, change)
