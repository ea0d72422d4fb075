"""A catalog of schema version 4, as a killed broker left it, becomes one of this version."""

from __future__ import annotations

import os
import signal
import sqlite3
from pathlib import Path

import pytest
from earlier_directories import unpack
from leveret.storage.catalog import SCHEMA_VERSION, Catalog, VhostRow
from leveret.storage.errors import StorageError

# Its broker had schema version 4.
FORMAT_VERSION = 5
TABLES = ("exchanges", "queues", "bindings", "users", "vhosts", "permissions", "marks", "directory")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return unpack(FORMAT_VERSION, tmp_path) / "catalog.sqlite"


def rows_of(path: Path) -> tuple[int, set[str], dict[str, list[tuple[object, ...]]]]:
    """The schema version, the names of tables, and each old table's rows in their old columns."""
    connection = sqlite3.connect(path)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    found = {}
    for table in TABLES:
        columns = {"users": "name, password_hash, tags", "vhosts": "name"}.get(table, "*")
        found[table] = connection.execute(f"SELECT {columns} FROM {table}").fetchall()
    connection.close()
    return version, names, found


def test_all_that_was_in_it_is_kept_and_there_is_nothing_new(path: Path) -> None:
    version, _, before = rows_of(path)
    assert version == 4
    catalog = Catalog.open(path, may_be_new=False)
    accounts = catalog.load_accounts()
    catalog.close()
    assert {user.limits for user in accounts.users} == {"{}"}
    assert accounts.vhosts == [VhostRow("/"), VhostRow("shop")]
    assert (accounts.topic_permissions, accounts.parameters) == ([], [])
    version, _, after = rows_of(path)
    assert (version, after) == (SCHEMA_VERSION, before)


def killed_at(path: Path, statement: int) -> bool:
    """Open it in a process that dies as its n-th statement begins; false if it never gets there."""
    child = os.fork()
    if not child:
        connect, left = sqlite3.connect, iter(range(statement))

        def die_in_time(_statement: str) -> None:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)

        def traced(*given: object, **named: object) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*given, **named)  # type: ignore[arg-type]
            connection.set_trace_callback(die_in_time)
            return connection

        sqlite3.connect = traced  # type: ignore[assignment]
        try:
            Catalog.open(path, may_be_new=False)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def test_killed_at_any_statement_it_is_of_the_old_version_or_of_the_new(tmp_path: Path) -> None:
    statement, versions = 0, []
    while True:
        path = unpack(FORMAT_VERSION, tmp_path / f"{statement}") / "catalog.sqlite"
        if not killed_at(path, statement):
            break
        version, names, held = rows_of(path)
        assert version in (4, SCHEMA_VERSION)
        assert ("parameters" in names) == ("topic_permissions" in names) == (version > 4)
        Catalog.open(path, may_be_new=False).close()
        assert rows_of(path)[2] == held
        versions.append(version)
        statement += 1
    # Not killed in the midst of a statement, but between any two of the conversion.
    assert versions.count(4) > 8


def test_a_broker_that_knows_version_4_refuses_it_in_a_sentence(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Catalog.open(path).close()
    # An earlier broker has this very check, with its own number.
    monkeypatch.setattr("leveret.storage.catalog.SCHEMA_VERSION", 4)
    words = r"has schema version 5, newer than 4, which this broker knows$"
    with pytest.raises(StorageError, match=words):
        Catalog.open(path)
