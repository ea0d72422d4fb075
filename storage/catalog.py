"""The catalog: durable topology and accounts, in SQLite, with every change that was answered.

One transaction per `apply`, and one fdatasync per transaction: WAL with synchronous=FULL, which of
SQLite's modes commits one row fastest (docs/JOURNAL.md has the figures). The file is held
exclusively while it is open, as the data directory is, which saves the shared-memory index.

It stores rows and knows no rules: names, flags, and arguments as an encoded AMQP table; users,
vhosts, permissions and runtime parameters, with a password as the text of its hash. Transient and
exclusive queues and exchanges are not stored. The catalog may live on any one thread at a time.

A change of the tables is a new SCHEMA_VERSION, with a step from the old one.

A start reads the catalog's claims (`read_claims`) before it opens the catalog: where catalog and
journal do not belong together nothing may be changed, and SQLite changes the file of a catalog
whose broker was killed when it is opened and closed to be written.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self
from urllib.parse import quote

from .belonging import CatalogClaims
from .errors import NoSpaceError, StorageError
from .journal.records import DIRECTORY_ID_BYTES

SCHEMA_VERSION = 5

# AUTOINCREMENT keeps the highest queue id ever used, so that none is used for another queue.
# `arguments` is an encoded AMQP table.
SCHEMA = """
CREATE TABLE exchanges (
    vhost TEXT NOT NULL,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    durable INTEGER NOT NULL,
    auto_delete INTEGER NOT NULL,
    internal INTEGER NOT NULL,
    arguments BLOB NOT NULL,
    PRIMARY KEY (vhost, name)
);
CREATE TABLE queues (
    queue_id INTEGER PRIMARY KEY AUTOINCREMENT,
    vhost TEXT NOT NULL,
    name TEXT NOT NULL,
    durable INTEGER NOT NULL,
    auto_delete INTEGER NOT NULL,
    arguments BLOB NOT NULL,
    UNIQUE (vhost, name)
);
CREATE TABLE bindings (
    vhost TEXT NOT NULL,
    source TEXT NOT NULL,
    destination TEXT NOT NULL,
    destination_kind TEXT NOT NULL CHECK (destination_kind IN ('queue', 'exchange')),
    routing_key TEXT NOT NULL,
    arguments BLOB NOT NULL,
    PRIMARY KEY (vhost, destination_kind, destination, source, routing_key, arguments)
);
CREATE INDEX bindings_by_source ON bindings (vhost, source);
"""

# New in version 2. `marks` records steps that are done once for all, and
# the segment of the journal that the last start created.
ACCOUNTS_SCHEMA = """
CREATE TABLE users (
    name TEXT PRIMARY KEY,
    password_hash TEXT NOT NULL,
    tags TEXT NOT NULL
);
CREATE TABLE vhosts (
    name TEXT PRIMARY KEY
);
CREATE TABLE permissions (
    "user" TEXT NOT NULL,
    vhost TEXT NOT NULL,
    configure TEXT NOT NULL,
    "write" TEXT NOT NULL,
    "read" TEXT NOT NULL,
    PRIMARY KEY ("user", vhost)
);
CREATE TABLE marks (
    name TEXT PRIMARY KEY
);
"""

# New in version 3, one row: the id that the segments of the directory's journal have, too, the
# number of the last change, and whether a journal of format version 4 was begun (0 or 1).
DIRECTORY_SCHEMA = """
CREATE TABLE directory (
    id BLOB NOT NULL,
    change_number INTEGER NOT NULL,
    has_journal INTEGER NOT NULL
);
"""

# New in version 4. A broker that knows only version 3 refuses the catalog: it would deliver from
# queues that somebody has paused.
PAUSE_SCHEMA = """
ALTER TABLE queues ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
"""

# New in version 5: runtime parameters (a global one has an empty component and vhost), topic
# permissions, limits of users, metadata of vhosts. `value`, `limits` and `metadata` are JSON. A
# broker that knows only version 4 refuses the catalog: it would heed no limit and no policy.
PARAMETERS_SCHEMA = """
CREATE TABLE parameters (
    component TEXT NOT NULL,
    vhost TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (component, vhost, name)
);
CREATE TABLE topic_permissions (
    "user" TEXT NOT NULL,
    vhost TEXT NOT NULL,
    exchange TEXT NOT NULL,
    "write" TEXT NOT NULL,
    "read" TEXT NOT NULL,
    PRIMARY KEY ("user", vhost, exchange)
);
ALTER TABLE users ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
ALTER TABLE vhosts ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}';
"""

# What takes a catalog of that version to the next one; 0 is an empty file.
STEPS = {
    0: SCHEMA,
    1: ACCOUNTS_SCHEMA,
    2: DIRECTORY_SCHEMA,
    3: PAUSE_SCHEMA,
    4: PARAMETERS_SCHEMA,
}
# The version from which on a catalog has the row of `directory`.
DIRECTORY_ROW_VERSION = 3


# A full disk: when a page is written; when the file for shared memory, which SQLite makes only to
# read, gets its size.
_NO_SPACE: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)


# In the table of marks, in front of the number of the segment that the last start created.
SEGMENT_MARK: Final = "journal segment "


class CatalogDamagedError(StorageError):
    """The file is not the catalog that it should be."""


def catalog_is_gone(path: Path) -> CatalogDamagedError:
    """There is no catalog, or an empty file in its place, and there must be one."""
    return CatalogDamagedError(
        f"catalog {path} is gone or empty, but there is a journal, of whose queues "
        "and users it told: put it back, or move the journal away, too, to begin anew"
    )


@contextmanager
def errors_named(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into NoSpaceError, StorageError and CatalogDamagedError."""
    try:
        yield
    except sqlite3.OperationalError as error:
        # Errors of Python's own module, such as text that cannot be decoded, have no code.
        if getattr(error, "sqlite_errorcode", None) in _NO_SPACE:
            # Nothing of the transaction is there.
            raise NoSpaceError(str(path)) from error
        msg = f"catalog {path}: {' '.join(str(error).split())}"
        raise StorageError(msg) from error
    except sqlite3.IntegrityError as error:
        # The bits of a file may flip after the start has read it.
        msg = (
            f"catalog {path} is damaged, or the broker has a fault: a change contradicts the rows "
            f"in it ({error})"
        )
        raise CatalogDamagedError(msg) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        # SQLite quotes what it finds, and that may be no text.
        msg = f"catalog {path} is damaged: {' '.join(str(error).split())}"
        raise CatalogDamagedError(msg) from error


def directory_row(connection: sqlite3.Connection, path: Path) -> tuple[bytes, int, bool]:
    """The directory's id, the number of the last change, and whether there is a journal."""
    row = connection.execute("SELECT id, change_number, has_journal FROM directory").fetchone()
    if row is None or not (isinstance(row[0], bytes) and isinstance(row[1], int)):
        msg = f"catalog {path} is damaged: it does not say which directory it is of"
        raise CatalogDamagedError(msg)
    return row[0], row[1], bool(row[2])


def read_newest_segment(connection: sqlite3.Connection) -> int:
    """The number of the journal's segment that the last start created; 0 if none has said so."""
    marks = connection.execute("SELECT name FROM marks WHERE name LIKE ?", (SEGMENT_MARK + "%",))
    numbers = [name.removeprefix(SEGMENT_MARK) for (name,) in marks]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def check_schema(connection: sqlite3.Connection, path: Path, version_max: int) -> int:
    """The catalog's schema version, 0 if it is empty; StorageError if it is newer or damaged.

    `integrity_check` compares every index with its table, which `quick_check` does not: a row that
    an index lacks would end the broker at the next change that meets it.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > version_max:
        msg = (
            f"catalog {path} has schema version {version}, "
            f"newer than {version_max}, which this broker knows"
        )
        raise StorageError(msg)
    verdict = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if verdict != "ok":
        msg = f"catalog {path} is damaged: {' '.join(verdict.split())}"
        raise CatalogDamagedError(msg)
    return version


# The catalog has had its default accounts: they are not made again when a person deletes them.
_MARK = "accounts"


class UserRow(NamedTuple):
    """A user; its tags are divided by commas, its limits JSON."""

    name: str
    password_hash: str
    tags: str
    limits: str = "{}"


class VhostRow(NamedTuple):
    """A vhost; its metadata is JSON."""

    name: str
    metadata: str = "{}"


class PermissionRow(NamedTuple):
    """A user's three patterns in a vhost."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermissionRow(NamedTuple):
    """A user's two patterns for a topic exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class ParameterRow(NamedTuple):
    """A runtime parameter; its value is JSON."""

    component: str
    vhost: str
    name: str
    value: str


class AccountRows(NamedTuple):
    """Everything, each list in the order in which it was added.

    `are_new`: nothing has ever been put in, as in a catalog that was just made.
    """

    users: list[UserRow]
    vhosts: list[VhostRow]
    permissions: list[PermissionRow]
    topic_permissions: list[TopicPermissionRow]
    parameters: list[ParameterRow]
    are_new: bool


class PutUser(NamedTuple):
    """The user is new, or has changed."""

    user: UserRow


class RemoveUser(NamedTuple):
    """The user goes, with its permissions."""

    name: str


class PutVhost(NamedTuple):
    """The vhost is new, or has changed."""

    vhost: VhostRow


class RemoveVhost(NamedTuple):
    """The vhost goes, with its permissions, parameters, queues, exchanges and bindings."""

    name: str


class PutPermission(NamedTuple):
    """The permission is new, or has changed."""

    permission: PermissionRow


class RemovePermission(NamedTuple):
    """The permission goes."""

    user: str
    vhost: str


class PutTopicPermission(NamedTuple):
    """The topic permission is new, or has changed."""

    permission: TopicPermissionRow


class RemoveTopicPermission(NamedTuple):
    """The topic permission goes."""

    user: str
    vhost: str
    exchange: str


class PutParameter(NamedTuple):
    """The parameter is new, or has changed."""

    parameter: ParameterRow


class RemoveParameter(NamedTuple):
    """The parameter goes."""

    component: str
    vhost: str
    name: str


AccountChange = (
    PutUser
    | RemoveUser
    | PutVhost
    | RemoveVhost
    | PutPermission
    | RemovePermission
    | PutTopicPermission
    | RemoveTopicPermission
    | PutParameter
    | RemoveParameter
)


# Those whose rows go with their vhost.
_TABLES_OF_VHOSTS: Final = (
    "permissions",
    "topic_permissions",
    "parameters",
    "bindings",
    "queues",
    "exchanges",
)


def load_accounts(connection: sqlite3.Connection) -> AccountRows:
    """Read everything."""
    execute = connection.execute
    users = execute("SELECT name, password_hash, tags, limits FROM users ORDER BY rowid").fetchall()
    vhosts = execute("SELECT name, metadata FROM vhosts ORDER BY rowid").fetchall()
    permissions = execute(
        'SELECT "user", vhost, configure, "write", "read" FROM permissions ORDER BY rowid'
    )
    topic_permissions = execute(
        'SELECT "user", vhost, exchange, "write", "read" FROM topic_permissions ORDER BY rowid'
    )
    parameters = execute("SELECT component, vhost, name, value FROM parameters ORDER BY rowid")
    marked = execute("SELECT count(*) FROM marks WHERE name = ?", (_MARK,)).fetchone()[0]
    return AccountRows(
        [UserRow(*row) for row in users],
        [VhostRow(*row) for row in vhosts],
        [PermissionRow(*row) for row in permissions],
        [TopicPermissionRow(*row) for row in topic_permissions],
        [ParameterRow(*row) for row in parameters],
        not (marked or users or vhosts),
    )


def apply_account_change(connection: sqlite3.Connection, change: AccountChange) -> None:
    """Make one change, inside the catalog's transaction."""
    execute = connection.execute
    execute("INSERT INTO marks VALUES (?) ON CONFLICT DO NOTHING", (_MARK,))
    match change:
        case PutUser(user):
            execute(
                "INSERT INTO users VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE"
                " SET password_hash = excluded.password_hash, tags = excluded.tags,"
                " limits = excluded.limits",
                user,
            )
        case RemoveUser(name):
            for table in ("permissions", "topic_permissions"):
                execute(f'DELETE FROM {table} WHERE "user" = ?', (name,))
            execute("DELETE FROM users WHERE name = ?", (name,))
        case PutVhost(vhost):
            execute(
                "INSERT INTO vhosts VALUES (?, ?) ON CONFLICT (name) DO UPDATE"
                " SET metadata = excluded.metadata",
                vhost,
            )
        case RemoveVhost(name):
            for table in _TABLES_OF_VHOSTS:
                execute(f"DELETE FROM {table} WHERE vhost = ?", (name,))
            execute("DELETE FROM vhosts WHERE name = ?", (name,))
        case PutPermission(permission):
            execute(
                'INSERT INTO permissions VALUES (?, ?, ?, ?, ?) ON CONFLICT ("user", vhost)'
                ' DO UPDATE SET configure = excluded.configure, "write" = excluded."write",'
                ' "read" = excluded."read"',
                permission,
            )
        case RemovePermission(user_name, vhost_name):
            named = (user_name, vhost_name)
            execute('DELETE FROM permissions WHERE "user" = ? AND vhost = ?', named)
        case PutTopicPermission(topic):
            execute(
                "INSERT INTO topic_permissions VALUES (?, ?, ?, ?, ?)"
                ' ON CONFLICT ("user", vhost, exchange)'
                ' DO UPDATE SET "write" = excluded."write", "read" = excluded."read"',
                topic,
            )
        case RemoveTopicPermission():
            execute(
                'DELETE FROM topic_permissions WHERE "user" = ? AND vhost = ? AND exchange = ?',
                change,
            )
        case PutParameter(parameter):
            execute(
                "INSERT INTO parameters VALUES (?, ?, ?, ?) ON CONFLICT (component, vhost, name)"
                " DO UPDATE SET value = excluded.value",
                parameter,
            )
        case RemoveParameter():
            execute("DELETE FROM parameters WHERE component = ? AND vhost = ? AND name = ?", change)


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
    paused: bool = False


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


class RenameQueue(NamedTuple):
    """The queue has this name from now on; its bindings are removed before and added after."""

    queue_id: int
    name: str


class PauseQueue(NamedTuple):
    """The queue is paused from now on, or no longer."""

    queue_id: int
    paused: bool


class AddBinding(NamedTuple):
    """The binding is new; the same again changes nothing."""

    binding: BindingRow


class RemoveBinding(NamedTuple):
    """The binding goes."""

    binding: BindingRow


TopologyChange = (
    AddExchange
    | RemoveExchange
    | AddQueue
    | RemoveQueue
    | RenameQueue
    | PauseQueue
    | AddBinding
    | RemoveBinding
)
Change = TopologyChange | AccountChange
# Those that leave less in the file.
REMOVALS: Final = (RemoveExchange, RemoveQueue, RemoveBinding, RemoveUser, RemoveVhost)


class Catalog:
    """An open catalog."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        # Of the directory: the segments of its journal have it, too.
        self.directory_id = b""
        # One more with each transaction. The journal records it before anything depends on it.
        self.change_number = 0

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        may_be_new: bool = True,
        new_directory_id: bytes = bytes(DIRECTORY_ID_BYTES),
    ) -> Self:
        """Open the file; StorageError if it is damaged, newer or in use.

        Where there is none, or an empty one, a new one is made if it may be; else it is damaged.
        `new_directory_id`, random bytes, is for a catalog that has none yet.
        """
        if not may_be_new and not path.exists():
            raise catalog_is_gone(path)
        with suppress(OSError):
            # Hashes of passwords are nobody else's to read. Of a wrong path SQLite speaks.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, _OWNER_ONLY))
            os.chmod(path, _OWNER_ONLY)
        with errors_named(path):
            # Autocommit: transactions are begun and committed in words.
            connection = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=0
            )
            try:
                catalog = cls(connection, path)
                catalog._prepare(may_be_new, new_directory_id)
            except BaseException:
                connection.close()
                raise
        return catalog

    @property
    def next_queue_id(self) -> int:
        """Above every queue id that was ever stored, of queues long gone, too."""
        with errors_named(self._path):
            row = self._connection.execute(
                "SELECT seq FROM sqlite_sequence WHERE name = 'queues'"
            ).fetchone()
        return int(row[0]) + 1 if row else 1

    def load(self) -> CatalogContents:
        """Read everything."""
        execute = self._connection.execute
        with errors_named(self._path):
            exchanges = execute(
                "SELECT vhost, name, type, durable, auto_delete, internal, arguments"
                " FROM exchanges ORDER BY rowid"
            )
            queues = execute(
                "SELECT queue_id, vhost, name, durable, auto_delete, arguments, paused"
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
                    QueueRow(queue_id, vhost, name, bool(durable), bool(auto), args, bool(paused))
                    for queue_id, vhost, name, durable, auto, args, paused in queues
                ],
                [BindingRow(*row) for row in bindings],
            )

    def load_accounts(self) -> AccountRows:
        """Read users, vhosts, permissions and parameters."""
        with errors_named(self._path):
            return load_accounts(self._connection)

    def apply(self, changes: Sequence[Change]) -> None:
        """Make all the changes, or none. They are on the disk when this returns."""
        if not changes:
            return
        with self._transaction() as execute:
            for change in changes:
                _apply(self._connection, change)
            execute("UPDATE directory SET change_number = change_number + 1")
        # Now that it is on the disk: the journal's thread reads the number, and writes it.
        self.change_number += 1

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """Commit the changes made within the block, which are then on the disk, or none of them."""
        execute = self._connection.execute
        with errors_named(self._path):
            execute("BEGIN IMMEDIATE")
            try:
                yield execute
                execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    execute("ROLLBACK")
                raise

    def note_journal(self, newest_segment: int) -> None:
        """Record that a journal of this version is there, and the segment that this start created.

        If either is gone at a later start, that is damage, or the journal is an older one.
        """
        with self._transaction() as execute:
            execute("UPDATE directory SET has_journal = 1")
            self._mark_segment(newest_segment)

    def forget_newest_segment(self) -> None:
        """Expect nothing of the journal: a start goes on with an older one, or without one."""
        with self._transaction():
            self._mark_segment(0)

    def _mark_segment(self, number: int) -> None:
        execute = self._connection.execute
        execute("DELETE FROM marks WHERE name LIKE ?", (SEGMENT_MARK + "%",))
        if number:
            execute("INSERT INTO marks VALUES (?)", (f"{SEGMENT_MARK}{number}",))

    def raise_numbers(self, queue_id: int, change_number: int) -> None:
        """Give out no id up to this one, and count changes on from at least this one."""
        self.change_number = max(self.change_number, change_number)
        with errors_named(self._path):
            self._connection.executescript(
                "BEGIN IMMEDIATE;"
                f" UPDATE directory SET change_number = {self.change_number:d};"
                " INSERT INTO sqlite_sequence (name, seq) SELECT 'queues', 0"
                " WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'queues');"
                f" UPDATE sqlite_sequence SET seq = max(seq, {queue_id:d}) WHERE name = 'queues';"
                " COMMIT;"
            )

    def close(self) -> None:
        """Close the file. Changes that were applied are there already."""
        self._connection.close()

    def _prepare(self, may_be_new: bool, new_directory_id: bytes) -> None:
        execute = self._connection.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")
        version = check_schema(self._connection, self._path, SCHEMA_VERSION)
        if not version and not may_be_new:
            raise catalog_is_gone(self._path)
        if version < SCHEMA_VERSION:
            steps = "".join(STEPS[each] for each in range(version, SCHEMA_VERSION))
            if version < DIRECTORY_ROW_VERSION:
                steps += f"INSERT INTO directory VALUES (x'{new_directory_id.hex()}', 0, 0);"
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {steps} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )
        self.directory_id, self.change_number, _ = directory_row(self._connection, self._path)


def _apply(connection: sqlite3.Connection, change: Change) -> None:
    execute = connection.execute
    match change:
        case AddQueue(queue):
            execute("INSERT INTO queues VALUES (?, ?, ?, ?, ?, ?, ?)", queue)
        case RenameQueue(queue_id, name):
            execute("UPDATE queues SET name = ? WHERE queue_id = ?", (name, queue_id))
        case PauseQueue(queue_id, paused):
            execute("UPDATE queues SET paused = ? WHERE queue_id = ?", (paused, queue_id))
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
                "DELETE FROM bindings WHERE vhost = ? AND (source = ?"
                " OR (destination_kind = 'exchange' AND destination = ?))",
                (vhost, name, name),
            )
            execute("DELETE FROM exchanges WHERE vhost = ? AND name = ?", (vhost, name))
        case _:
            apply_account_change(connection, change)


def read_claims(path: Path, *, may_be_new: bool) -> CatalogClaims:
    """The catalog's claims; a missing or empty one counts as new, if it may be new.

    StorageError if it is damaged, newer or in use.
    """
    if path.exists() and not path.is_file():
        # SQLite calls a directory an I/O error, and waits at a pipe.
        msg = f"catalog {path} is no file"
        raise StorageError(msg)
    if not path.exists() or not path.stat().st_size:
        if not may_be_new:
            raise catalog_is_gone(path)
        return CatalogClaims(next_queue_id=1, change_number=0)
    wal, shared = path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")
    own = [file for file in (wal, shared) if not file.exists()]
    try:
        with errors_named(path):
            uri = f"file:{quote(os.path.abspath(path))}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True, timeout=0)) as connection:
                if not check_schema(connection, path, SCHEMA_VERSION) and not may_be_new:
                    raise catalog_is_gone(path)
                return _claims(connection, path)
    finally:
        # SQLite leaves them behind when it has only read, and then nothing is in them.
        if wal not in own or not (wal.exists() and wal.stat().st_size):
            for file in own:
                file.unlink(missing_ok=True)


def _claims(connection: sqlite3.Connection, path: Path) -> CatalogClaims:
    execute = connection.execute
    tables = {name for (name,) in execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if "queues" not in tables:
        return CatalogClaims(next_queue_id=1, change_number=0)
    names = {
        queue_id: f"{name!r} in {vhost!r}"
        for queue_id, name, vhost in execute("SELECT queue_id, name, vhost FROM queues")
    }
    last = execute("SELECT seq FROM sqlite_sequence WHERE name = 'queues'").fetchone()
    directory_id, change_number, has_journal = b"", 0, False
    newest_segment = read_newest_segment(connection) if "marks" in tables else 0
    if "directory" in tables:
        directory_id, change_number, has_journal = directory_row(connection, path)
    next_queue_id = int(last[0]) + 1 if last else 1
    return CatalogClaims(
        names.keys(),
        names,
        directory_id,
        next_queue_id,
        change_number,
        has_journal,
        newest_segment,
    )


class Catalogs(Protocol):
    """Finds and opens catalogs. A simulation, to which SQLite's files are closed, has its own."""

    def read_claims(self, path: Path, *, may_be_new: bool) -> CatalogClaims:
        """As the function of this name."""

    def open(self, path: Path, *, may_be_new: bool, new_directory_id: bytes) -> Catalog:
        """As `Catalog.open`."""


class CatalogFiles:
    """Those in files."""

    def read_claims(self, path: Path, *, may_be_new: bool) -> CatalogClaims:
        """Read what the file says."""
        return read_claims(path, may_be_new=may_be_new)

    def open(self, path: Path, *, may_be_new: bool, new_directory_id: bytes) -> Catalog:
        """Open the file."""
        return Catalog.open(path, may_be_new=may_be_new, new_directory_id=new_directory_id)
