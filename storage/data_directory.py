"""The data directory: whose it is, what format it has, how often a broker started on it.

    lock      held (flock) by the one broker that uses the directory
    format    "leveret 5": the version of the layout as a whole
    boot      how many times a broker has started here; names this run in message ids
    journal/  segments (journal.py)
    spill/    messages that may be lost when the broker stops (spill.py)
    catalog.sqlite  durable topology, users, vhosts and permissions (catalog.py)
    control.sock    of the broker that runs: the command line connects to it

`format` and `boot` are replaced, never written over: a crash leaves the old or the new. They are
read when the directory is opened, and replaced when a start is sure to go on.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from .errors import StorageError
from .files import FileLockedError, Files, OperatingSystemFiles, write_all
from .journal.records import EPOCH_MAX

# Version 2: segments of format version 4; each later one: of the segments' version after that. A
# broker that knows only an earlier one refuses it.
FORMAT_VERSION = 5
_FORMAT_NAME = "leveret"
_FORMAT_FILE = "format"
JOURNAL_DIRECTORY = "journal"
SPILL_DIRECTORY = "spill"
CATALOG_FILE = "catalog.sqlite"
# A crash at the very first start may leave these and no format file yet.
_MADE_BEFORE_FORMAT = {"lock", "format.new"}
# mkfs makes it at the root of a file system, which may be there for the broker alone.
_NOBODYS = {"lost+found"}
_NAMES_SHOWN_MAX = 3
# Neither of these is without the other in a broker's directory; a folder of somebody else, /var/log
# for example, may well have one of them.
_MADE_TOGETHER = {"boot", JOURNAL_DIRECTORY}
# Longer than any number that we write into a file, or read from one.
_DIGITS_MAX = 20
# More is not read of a file that holds one number.
_FILE_BYTES_MAX = 4096


class DataDirectoryLocked(StorageError):  # noqa: N818 - named for a state, like FileExistsError's kin
    """Another broker uses the directory."""


class DataDirectoryForeign(StorageError):  # noqa: N818 - as above
    """The directory holds files, and none that says that a broker made it."""


class DataDirectoryNewer(StorageError):  # noqa: N818 - as above
    """A newer broker wrote the directory."""


class DataDirectoryGone(StorageError):  # noqa: N818 - as above
    """The directory of a running broker was removed or moved away, or has another in its place."""


class DirectoryWatch:
    """Knows the directory and the folder of its journal again by device and inode.

    Files that are open outlive their names: a commit into them succeeds, and no later start finds
    it. So nothing may be confirmed once the names are gone.
    """

    def __init__(self, path: str, files: Files) -> None:
        """`path` is the data directory, in which the journal has been begun."""
        self._files = files
        self._path = path
        watched = (path, os.path.join(path, JOURNAL_DIRECTORY))
        self._identities = {each: files.identity(each) for each in watched}

    def check(self) -> None:
        """DataDirectoryGone unless both are there still; OSError if the disk does not say."""
        for path, identity in self._identities.items():
            try:
                is_same = self._files.identity(path) == identity
            except (FileNotFoundError, NotADirectoryError):
                fate = "was removed or moved away"
            else:
                if is_same:
                    continue
                fate = "is not the one that the broker opened: another is in its place"
            msg = f"data directory {self._path}: {path} {fate}; nothing more can be confirmed"
            raise DataDirectoryGone(msg)


class DataDirectory:
    """A directory that is this broker's until `close`."""

    def __init__(self, path: Path, files: Files, lock: int) -> None:
        self.path = path
        # 1 at the first start here, then more each time; before `begin`, of the last start.
        self.boot_number = 0
        self._files = files
        self._lock = lock
        self._format_version = 0

    @classmethod
    def open(cls, path: Path, files: Files | None = None) -> Self:
        """Create the directory if need be, lock it, check what format it has.

        StorageError if it cannot be made or used; its contents may cause an OSError besides. A
        directory that holds other files and no format file is somebody else's, as `/etc` is: it is
        left as it is, because a journal among them would be hard to find and easy to delete.
        """
        files = OperatingSystemFiles() if files is None else files
        directory = str(path)
        try:
            files.make_directory(directory)
            _check_owner(files, directory)
            lock = files.lock(os.path.join(directory, "lock"))
        except FileLockedError as error:
            msg = f"data directory {directory} is in use by another broker"
            raise DataDirectoryLocked(msg) from error
        except OSError as error:
            msg = f"data directory {directory} cannot be made or written to: {error.strerror}"
            raise StorageError(msg) from error
        opened = cls(path, files, lock)
        try:
            opened._format_version = _read_format(files, directory)
            opened.boot_number = _read_boot(files, directory)
        except BaseException:
            files.close(lock)
            raise
        return opened

    def convert(self) -> None:
        """Record that the directory is of this version from now on.

        Before anything of this version is written: an earlier broker then touches nothing.
        """
        if self._format_version < FORMAT_VERSION:
            content = f"{_FORMAT_NAME} {FORMAT_VERSION}\n"
            _replace(self._files, str(self.path), _FORMAT_FILE, content)
            self._format_version = FORMAT_VERSION

    def begin(self, boot_number_min: int = 1) -> int:
        """Convert, and count a start; returns its number, at least the given one."""
        boot_number = max(self.boot_number + 1, boot_number_min)
        if boot_number > EPOCH_MAX:
            msg = f"data directory {self.path}: it was started on {boot_number - 1} times"
            raise StorageError(msg)
        self.convert()
        _replace(self._files, str(self.path), "boot", f"{boot_number}\n")
        self.boot_number = boot_number
        return boot_number

    def has_journal(self) -> bool:
        """Has a journal ever been begun here? The catalog was there before it."""
        journal = os.path.join(str(self.path), JOURNAL_DIRECTORY)
        names = self._files.list_directory(str(self.path))
        return JOURNAL_DIRECTORY in names and bool(self._files.list_directory(journal))

    def close(self) -> None:
        """Give the directory back. Call when journal and catalog are closed."""
        if self._lock >= 0:
            self._files.close(self._lock)
            self._lock = -1


def _check_owner(files: Files, directory: str) -> None:
    names = files.list_directory(directory)
    foreign = sorted(set(names) - _MADE_BEFORE_FORMAT - _NOBODYS)
    if _FORMAT_FILE in names or not foreign:
        return
    if CATALOG_FILE in names or _MADE_TOGETHER.issubset(names):
        # A broker writes the format file before it makes any of these.
        path = os.path.join(directory, _FORMAT_FILE)
        msg = (
            f"data directory {directory} is damaged: its format file is missing. Put {path} back "
            f"from a backup, or, if a broker of this version was the last one here, write the line "
            f"'{_FORMAT_NAME} {FORMAT_VERSION}' into it"
        )
        raise StorageError(msg)
    shown = ", ".join(foreign[:_NAMES_SHOWN_MAX])
    more = len(foreign) - _NAMES_SHOWN_MAX
    if more > 0:
        shown += f" and {more} more"
    msg = (
        f"data directory {directory} has files in it that are not a broker's ({shown}): "
        "name an empty directory, or one that is not there yet"
    )
    raise DataDirectoryForeign(msg)


def check_format(files: Files, directory: str) -> None:
    """StorageError unless the directory is a broker's, of a version that this one knows."""
    if not _read_format(files, directory):
        msg = f"data directory {directory} is no broker's: it has no file `{_FORMAT_FILE}`"
        raise StorageError(msg)


def _read_format(files: Files, directory: str) -> int:
    """The version of the directory's format; 0 if it has none yet."""
    text = _content(files, directory, _FORMAT_FILE)
    if text is None:
        return 0
    name, _, version = text.strip().partition(" ")
    if name != _FORMAT_NAME or not _is_number(version):
        msg = f"data directory {directory}: its format file says {text[:40]!r}, not a version"
        raise StorageError(msg)
    if int(version) > FORMAT_VERSION:
        msg = (
            f"data directory {directory} has format version {int(version)}, "
            f"newer than {FORMAT_VERSION}, which this broker knows"
        )
        raise DataDirectoryNewer(msg)
    return int(version)


def _read_boot(files: Files, directory: str) -> int:
    text = _content(files, directory, "boot") or "0"
    if not _is_number(text.strip()) or int(text) > EPOCH_MAX:
        msg = (
            f"data directory {directory}: its boot file says {text[:40]!r}, "
            f"not a number up to {EPOCH_MAX}"
        )
        raise StorageError(msg)
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX


def _content(files: Files, directory: str, name: str) -> str | None:
    if name not in files.list_directory(directory):
        return None
    path = os.path.join(directory, name)
    try:
        return files.read(path, 0, _FILE_BYTES_MAX).decode("ascii", "replace")
    except OSError as error:
        msg = f"data directory {directory}: its {name} file cannot be read: {error.strerror}"
        raise StorageError(msg) from error


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
