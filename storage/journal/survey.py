"""Which file of the journal's directory is which segment: looked at before anything is read.

A segment is what its header says, whatever its file is called, so files whose names were swapped
are read as what they are. A file whose header does not verify is tried as the segment of its name,
and then as other segments, first those without a file. Nothing is written here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from ..errors import StorageError
from ..files import Files, NotAFileError
from .report import Report
from .segment_files import SEGMENT_NUMBER_MAX, segment_numbers, segment_path
from .segment_header import PREFIX_BYTES, SegmentHeader, numbers_in
from .segment_reader import SegmentReader, read_beginning

# Enough for the header of most segments.
_BEGINNING_BYTES: Final = 4096
# A file whose header does not verify is tried as so many segments; each try searches all of it.
CANDIDATES_MAX: Final = 1000


class SegmentFile(NamedTuple):
    """A file that holds the segment, or the rest of it."""

    number: int
    name: str
    size: int
    # None: it does not verify.
    header: SegmentHeader | None
    # Does anything in it verify?
    is_readable: bool


class Survey:
    """The segments of a directory, by number."""

    def __init__(self, files: Files, directory: str, directory_id: bytes, report: Report) -> None:
        self._files = files
        self._directory = directory
        self._directory_id = directory_id
        self._report = report
        self.segments: dict[int, SegmentFile] = {}
        # Those of another directory.
        self.foreign: list[SegmentFile] = []
        # Names of files that are in the way and hold nothing that is not elsewhere, too.
        self.in_the_way: list[str] = []
        # Above every number that a name or a header says.
        self.next_number = 1
        numbers = segment_numbers(files, directory)
        unverified = self._add_verified(numbers)
        known = self._candidates(numbers)
        unreadable = [number for number in unverified if not self._add_by_records(number, known)]
        for number in unreadable:
            self._add_unreadable(number)
        for number, file in sorted(self.segments.items()):
            if file.name != _name(number):
                report.note("damaged", f"{file.name} is segment {number}: read as that")

    def _add_verified(self, numbers: list[int]) -> list[int]:
        """Take the files whose header verifies; returns the numbers in the names of the others."""
        unverified: list[int] = []
        for number in numbers:
            name = _name(number)
            if number <= SEGMENT_NUMBER_MAX:
                self.next_number = max(self.next_number, number + 1)
            path = os.path.join(self._directory, name)
            try:
                with errors_named(path):
                    size = self._files.size(path)
                    header = self._header(path)
            except NotAFileError as error:
                what = f"{name} is no segment ({error.strerror}): left alone"
                self._report.note("damaged", what)
                continue
            if header is None:
                if number <= SEGMENT_NUMBER_MAX:
                    unverified.append(number)
                else:
                    self._report.note("ignored", f"{name}: no broker gives a segment such a number")
                continue
            file = SegmentFile(header.number, name, size, header, True)
            if header.directory_id in (b"", self._directory_id):
                self._add(file)
            else:
                self.foreign.append(file)
        return unverified

    def _add(self, file: SegmentFile) -> None:
        """Of two files that are the same segment the one counts in which more verifies."""
        other = self.segments.get(file.number)
        self.next_number = max(self.next_number, file.number + 1)
        if other is not None:
            if self._worth(file) > self._worth(other):
                file, other = other, file
            self.in_the_way.append(file.name)
            text = f"{file.name} is segment {file.number} once more, which {other.name} is"
            self._report.note("damaged", text)
            file = other
        self.segments[file.number] = file

    def _candidates(self, numbers: list[int]) -> list[int]:
        """What a file whose header does not verify may be; first the segments that have no file."""
        known = dict.fromkeys(
            number for number in (*numbers, *self._listed()) if number <= SEGMENT_NUMBER_MAX
        )
        return sorted(known, key=self.segments.__contains__)[:CANDIDATES_MAX]

    def _listed(self) -> list[int]:
        """The segments that the newest header lists: a present file may be one of them."""
        newest = self.segments[max(self.segments)].header if self.segments else None
        return [] if newest is None else list(numbers_in(newest.present))

    def _add_by_records(self, number: int, known: Iterable[int]) -> bool:
        """Take a file whose header does not verify as the segment that its records are of."""
        path = segment_path(self._directory, number)
        data = self._read(path)
        for candidate in (number, *known):
            if _has_records(data, candidate, self._directory_id, path):
                self._add(SegmentFile(candidate, _name(number), len(data), None, True))
                return True
        return False

    def _add_unreadable(self, number: int) -> None:
        name = _name(number)
        size = self._files.size(segment_path(self._directory, number))
        if number in self.segments:
            self.in_the_way.append(name)
            self._report.note("damaged", f"nothing in the {size} bytes of {name} verifies")
        else:
            self.segments[number] = SegmentFile(number, name, size, None, False)

    def _worth(self, file: SegmentFile) -> tuple[int, bool]:
        path = os.path.join(self._directory, file.name)
        reader = SegmentReader(self._read(path), file.number, self._directory_id, path)
        return reader.verified_bytes(), file.name == _name(file.number)

    def _read(self, path: str) -> bytes:
        with errors_named(path):
            return self._files.read(path, 0, self._files.size(path))

    def _header(self, path: str) -> SegmentHeader | None:
        size = self._files.size(path)
        data = self._files.read(path, 0, _BEGINNING_BYTES)
        beginning = read_beginning(data, path)
        header_bytes = beginning.header_bytes or PREFIX_BYTES
        if beginning.header is None and _BEGINNING_BYTES < header_bytes <= size:
            beginning = read_beginning(self._files.read(path, 0, header_bytes), path)
        return beginning.header


def _name(number: int) -> str:
    return os.path.basename(segment_path("", number))


def directory_id_in(files: Files, directory: str) -> bytes | None:
    """The id in the header of a segment; None if there is none."""
    for number in segment_numbers(files, directory):
        path = segment_path(directory, number)
        header = read_beginning(files.read(path, 0, _BEGINNING_BYTES), path).header
        if header is not None and header.directory_id:
            return header.directory_id
    return None


def _has_records(data: bytes, number: int, directory_id: bytes, path: str) -> bool:
    reader = SegmentReader(data, number, directory_id, path)
    return next(reader.records(), None) is not None


@contextmanager
def errors_named(path: str) -> Iterator[None]:
    """Turn an OSError into a sentence with the file's name, except for an entry that is no file."""
    try:
        yield
    except NotAFileError:
        raise
    except OSError as error:
        msg = f"journal segment {path} cannot be read: {error.strerror}"
        raise StorageError(msg) from error
