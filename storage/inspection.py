"""A data directory that no broker uses, read and never written to: `leveret journal`.

The code of a start reads it, so a finding has the same words. Meanwhile the process holds a shared
lock on the lock file: a broker that is started is refused, and several readers may work side by
side. A directory without a lock file, such as a backup, is read without one.

Nothing below the directory is created or changed. Therefore the catalog is read from a copy in a
temporary directory, because SQLite makes files beside a catalog whose broker was killed. Of the
journal one segment at a time is looked at. Indexes of segments are trusted by nobody here.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from ..amqp_frames.messages.publishes import decode_publishes
from .belonging import CatalogClaims, contradictions
from .catalog import read_claims
from .data_directory import (
    CATALOG_FILE,
    JOURNAL_DIRECTORY,
    DataDirectoryLocked,
    check_format,
)
from .errors import StorageError
from .files import OperatingSystemFiles
from .journal.recovery import Recovery
from .journal.report import Report
from .journal.segment_facts import read_facts
from .journal.segment_index import encode_index, index_path, read_index
from .journal.segment_reader import SegmentReader
from .journal.survey import SegmentFile, Survey, errors_named

# What SQLite keeps beside a catalog that was not closed.
_WAL = CATALOG_FILE + "-wal"


class IndexFault(Enum):
    """What can be wrong with the index of a segment."""

    # It does not verify, or it is of another state of the segment: a start reads the segment.
    UNUSED = "does not hold: a start reads the segment"
    # It verifies, and the records of the segment say something else; or they no longer verify.
    WRONG = "says something else than the segment's records"


class Inspection:
    """The catalog's claims, and the ways to read the journal."""

    def __init__(self, path: Path, claims: CatalogClaims) -> None:
        self.path = path
        self.claims = claims
        self._files = OperatingSystemFiles()
        self._journal = str(path / JOURNAL_DIRECTORY)

    def recover(self) -> Recovery:
        """What a start would find that trusts no index of a segment."""
        recovery = Recovery(
            self._files, self._journal, self.claims, decode_publishes, may_use_indexes=False
        )
        recovery.read()
        return recovery

    def contradictions(self, recovery: Recovery) -> list[str]:
        """Every proof that catalog and journal do not belong together, as half a sentence."""
        return contradictions(self.claims, recovery.journal_claims())

    def segments(self) -> list[SegmentFile]:
        """The files that hold segments of this directory, ascending by number."""
        survey = Survey(self._files, self._journal, self.claims.directory_id, Report())
        return [file for _, file in sorted(survey.segments.items())]

    def open(self, segment: SegmentFile) -> SegmentReader:
        """Read one segment; StorageError if the disk does not let it.

        Mapped, not copied: the memory is the kernel's, which takes it back whenever it wants to.
        """
        path = os.path.join(self._journal, segment.name)
        mapped: Any = b""
        with errors_named(path), open(path, "rb") as file:
            if segment.size:
                mapped = mmap(file.fileno(), segment.size, access=ACCESS_READ)
        return SegmentReader(mapped, segment.number, self.claims.directory_id, segment.name)

    def index_fault(self, segment: SegmentFile) -> IndexFault | None:
        """Compare the index of a segment with its records; None if there is no fault, or no index.

        Damage of the segment is no fault of its index, which is from before.
        """
        path = index_path(self._journal, segment.number)
        if not os.path.exists(path):
            return None
        own = os.path.join(self._journal, segment.name)
        found = read_index(self._files, self._journal, own, segment.size, segment.header)
        if found is None:
            return IndexFault.UNUSED
        with errors_named(path):
            octets = self._files.read(path, 0, self._files.size(path))
        facts = read_facts(self.open(segment))
        is_true = bool(facts.holes) or octets == encode_index(facts)
        return None if is_true else IndexFault.WRONG

    def read(self, segment: SegmentFile, start: int, end: int) -> bytes:
        """These bytes of the segment."""
        path = os.path.join(self._journal, segment.name)
        with errors_named(path):
            return self._files.read(path, start, end - start)


@contextmanager
def inspected(path: Path) -> Iterator[Inspection]:
    """Hold the directory still; StorageError if a broker uses it, or if it is none."""
    if not path.is_dir():
        msg = f"there is no data directory {path.absolute()}"
        raise StorageError(msg)
    with _shared_lock(path):
        files = OperatingSystemFiles()
        check_format(files, str(path))
        yield Inspection(path, _claims(path, may_be_new=not (path / JOURNAL_DIRECTORY).is_dir()))


@contextmanager
def _shared_lock(path: Path) -> Iterator[None]:
    try:
        handle = os.open(path / "lock", os.O_RDONLY)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        msg = f"data directory {path} is in use by a broker: stop it, or look at a copy"
        raise DataDirectoryLocked(msg) from error
    finally:
        os.close(handle)


def _claims(path: Path, *, may_be_new: bool) -> CatalogClaims:
    with tempfile.TemporaryDirectory(prefix="leveret-catalog-") as folder:
        for name in (CATALOG_FILE, _WAL):
            with suppress(FileNotFoundError):
                shutil.copyfile(path / name, Path(folder) / name)
        try:
            return read_claims(Path(folder) / CATALOG_FILE, may_be_new=may_be_new)
        except StorageError as error:
            raise StorageError(str(error).replace(folder, str(path))) from error
