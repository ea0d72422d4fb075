"""The data directory: whose it is, what format it has, how often a broker started on it.

    lock      held (flock) by the one broker that uses the directory
    format    "leveret 1": the version of the layout, and of what is in it as a whole
    boot      how many times a broker has started here; names this run in message ids
    journal/  segments (journal.py)
    catalog.sqlite  durable topology, users, vhosts and permissions (catalog.py)
    control.sock    of the broker that runs: what the command line talks to

`format` and `boot` are replaced, never written over: a crash leaves the old or the new.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from .errors import StorageError
from .files import FileLockedError, Files, OperatingSystemFiles, write_all

FORMAT_VERSION = 1
_FORMAT_NAME = "leveret"


class DataDirectoryLocked(StorageError):  # noqa: N818 - named for what is so, like FileExistsError's kin
    """Another broker uses the directory."""


class DataDirectoryNewer(StorageError):  # noqa: N818 - as above
    """A newer broker wrote the directory."""


class DataDirectory:
    """A directory that is this broker's until `close`."""

    def __init__(self, path: Path, files: Files, lock: int, boot_number: int) -> None:
        self.path = path
        # 1 at the first start here, then one more each time; 0 if this is none.
        self.boot_number = boot_number
        self._files = files
        self._lock = lock

    @classmethod
    def open(cls, path: Path, files: Files | None = None, *, is_start: bool = True) -> Self:
        """Create the directory if need be, lock it, check its format, count the start if it is one.

        StorageError if it cannot be made or used; what is in it may bring an OSError besides.
        """
        files = OperatingSystemFiles() if files is None else files
        directory = str(path)
        try:
            files.make_directory(directory)
            lock = files.lock(os.path.join(directory, "lock"))
        except FileLockedError as error:
            msg = f"data directory {directory} is in use by another broker"
            raise DataDirectoryLocked(msg) from error
        except OSError as error:
            msg = f"data directory {directory} cannot be made or written to: {error.strerror}"
            raise StorageError(msg) from error
        try:
            _check_format(files, directory)
            boot_number = _next_boot(files, directory) if is_start else 0
        except BaseException:
            files.close(lock)
            raise
        return cls(path, files, lock, boot_number)

    def has_journal(self) -> bool:
        """Has a journal ever been begun here? The catalog was there before it."""
        journal = os.path.join(str(self.path), "journal")
        names = self._files.list_directory(str(self.path))
        return "journal" in names and bool(self._files.list_directory(journal))

    def close(self) -> None:
        """Give the directory back. Call when journal and catalog are closed."""
        if self._lock >= 0:
            self._files.close(self._lock)
            self._lock = -1


def _check_format(files: Files, directory: str) -> None:
    text = _content(files, directory, "format")
    if text is None:
        _replace(files, directory, "format", f"{_FORMAT_NAME} {FORMAT_VERSION}\n")
        return
    name, _, version = text.strip().partition(" ")
    if name != _FORMAT_NAME or not (version.isascii() and version.isdigit()):
        msg = f"data directory {directory}: its format file says {text[:40]!r}, not a version"
        raise StorageError(msg)
    if int(version) > FORMAT_VERSION:
        msg = (
            f"data directory {directory} has format version {int(version)}, "
            f"newer than {FORMAT_VERSION}, which this broker knows"
        )
        raise DataDirectoryNewer(msg)


def _next_boot(files: Files, directory: str) -> int:
    text = _content(files, directory, "boot") or "0"
    if not (text.strip().isascii() and text.strip().isdigit()):
        msg = f"data directory {directory}: its boot file says {text[:40]!r}, not a number"
        raise StorageError(msg)
    boot_number = int(text) + 1
    _replace(files, directory, "boot", f"{boot_number}\n")
    return boot_number


def _content(files: Files, directory: str, name: str) -> str | None:
    if name not in files.list_directory(directory):
        return None
    path = os.path.join(directory, name)
    return files.read(path, 0, files.size(path)).decode("ascii", "replace")


def _replace(files: Files, directory: str, name: str, content: str) -> None:
    """Write the file anew, synced, under another name first."""
    path = os.path.join(directory, name)
    unfinished = path + ".new"
    if os.path.basename(unfinished) in files.list_directory(directory):
        files.remove(unfinished)
    handle = files.create(unfinished)
    try:
        write_all(files, handle, 0, [content.encode("ascii")])
        files.sync_data(handle)
    finally:
        files.close(handle)
    files.rename(unfinished, path)
    files.sync_directory(directory)
