"""A second reader of the journal, written from docs/JOURNAL.md alone: which records are there.

It knows nothing of order or of what was synced: it looks for the records of every segment in every
file. What it finds verifies, wherever it lies. Of several files with records of one segment it
believes the one in which more of them verifies, as a start reads one of them and keeps the others.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from struct import calcsize, unpack_from
from typing import NamedTuple
from zlib import crc32

HEAD = "<IIIII"
HEAD_BYTES = calcsize(HEAD)


class Seen(NamedTuple):
    """A record that verifies: of which segment, where it lies, and from its kind on."""

    segment: int
    offset: int
    covered: bytes

    @property
    def kind(self) -> int:
        return self.covered[0]


def records_in(content: bytes, directory_id: bytes, segment: int) -> list[Seen]:
    """Every record of that segment in these bytes."""
    digest = blake2b(
        segment.to_bytes(8, "little"), digest_size=8, key=directory_id, person=b"leveret"
    ).digest()
    marker, seed = digest[:4], int.from_bytes(digest[4:], "little")
    found = []
    offset = -1
    while (offset := content.find(marker, offset + 1)) >= 0:
        if offset + HEAD_BYTES > len(content):
            break
        _, crc, length, _, _ = unpack_from(HEAD, content, offset)
        end = offset + HEAD_BYTES + length
        if end <= len(content) and crc32(content[offset + 8 : end], seed) == crc:
            found.append(Seen(segment, offset, content[offset + HEAD_BYTES : end]))
    return found


class Entries(NamedTuple):
    """An entries record without lists: the only form that these tests write."""

    queue_id: int
    batch_number: int
    first_index: int
    first_id: int
    count: int


def entries_of(covered: bytes) -> Entries:
    _, form, count, queue_id, batch, first_index, first_id = unpack_from("<BBIQQIQ", covered)
    assert form == 0
    return Entries(queue_id, batch, first_index, first_id, count)


def _bytes_of(found: list[Seen]) -> int:
    """Of the records behind the header."""
    return sum(HEAD_BYTES + len(seen.covered) for seen in found if seen.kind != 1)


class Evidence:
    """All that verifies in a journal's directory."""

    def __init__(self, journal: Path, directory_id: bytes, segments: range) -> None:
        contents = {
            file.stem: file.read_bytes() for file in journal.glob("*.journal") if file.is_file()
        }
        self.seen: list[Seen] = []
        for segment in segments:
            copies = []
            for name, content in contents.items():
                found = records_in(content, directory_id, segment)
                copies.append((_bytes_of(found), int(name) == segment, found))
            self.seen += max(copies, default=(0, False, []))[-1]
        # Per segment that has a header: entries and catalog change in it.
        self.headers: dict[int, tuple[int, int]] = {}
        self.bodies: set[int] = set()
        self.settled: set[tuple[int, int]] = set()
        self.entries: dict[tuple[int, int], Seen] = {}
        self.queue_id_max = 0
        self.catalog_change = 0
        # Positions that commit records and `synced` name.
        self.synced = [(0, 0)]
        for seen in self.seen:
            self._apply(seen)
        self.slots = slots_of(journal / "synced", directory_id)
        for segment, end, _, _, change in self.slots:
            self.synced.append((segment, end))
            self.catalog_change = max(self.catalog_change, change)

    def _apply(self, seen: Seen) -> None:
        covered = seen.covered
        if seen.kind == 1:
            entries, change = unpack_from("<QQ", covered, 65)
            self.headers[seen.segment] = entries, change
            self.catalog_change = max(self.catalog_change, change)
        elif seen.kind == 2:
            self.bodies.add(unpack_from("<Q", covered, 6)[0])
        elif seen.kind == 3:
            record = entries_of(covered)
            self.queue_id_max = max(self.queue_id_max, record.queue_id)
            for entry_id in range(record.first_id, record.first_id + record.count):
                self.entries[record.queue_id, entry_id] = seen
        elif seen.kind == 4:
            _, count, queue_id = unpack_from("<BIQ", covered)
            self.queue_id_max = max(self.queue_id_max, queue_id)
            numbers = unpack_from(f"<{2 * count}Q", covered, 13)
            for first, last in zip(numbers[::2], numbers[1::2], strict=True):
                self.settled.update((queue_id, each) for each in range(first, last + 1))
        elif seen.kind == 8:
            segment, end, _, change = unpack_from("<QQQQ", covered, 1)
            self.synced.append((segment, end))
            self.catalog_change = max(self.catalog_change, change)


def slots_of(file: Path, directory_id: bytes) -> list[tuple[int, ...]]:
    """The verified slots of `synced`: segment, end, entries twice, catalog change."""
    if not file.is_file():
        return []
    content = file.read_bytes()
    found = []
    for at in (0, 4096):
        slot = content[at : at + 68]
        if len(slot) == 68 and crc32(slot[:64]) == unpack_from("<I", slot, 64)[0]:
            magic, owner, *numbers = unpack_from("<8s16sQQQQQ", slot)
            if (magic, owner) == (b"LEVERETS", directory_id):
                found.append(tuple(numbers))
    return found
