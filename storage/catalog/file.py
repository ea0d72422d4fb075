"""The catalog as a file of SQLite's: what all that open it need, and errors with its name."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ..errors import NoSpaceError, StorageError

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
