"""Looking into the catalog without changing it: what it says of itself and of its journal.

A start does this before anything else: where catalog and journal do not belong together nothing may
be changed, and SQLite changes the file of a catalog whose broker was killed when it is opened and
closed to be written.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from ..belonging import CatalogClaims
from ..errors import StorageError
from .file import (
    catalog_is_gone,
    check_schema,
    directory_row,
    errors_named,
    read_newest_segment,
)
from .schema import SCHEMA_VERSION


def read_claims(path: Path, *, may_be_new: bool) -> CatalogClaims:
    """What the catalog claims; a missing or empty one counts as new, if it may be new.

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
