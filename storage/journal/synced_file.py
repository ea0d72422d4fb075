"""The file `synced` beside the segments: what the newest segment is, known from elsewhere.

    two slots, at 0 and at 4096, written in turns:
    magic "LEVERETS" 8 | directory id 16 | segment u64 | end u64 |
    entries when the segment was created u64 | entries now u64 | catalog change u64 |
    CRC-32 of the 64 before u32

It names a position up to which the journal was synced when the slot was written: the header of a
segment that was just created, before any record follows, or the very end at a clean stop. So a
newest segment that is missing, empty or too short is noticed. A slot is written over in place,
which costs one sync for each segment and none for a commit; the other slot stands meanwhile.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from ..errors import StorageError
from ..files import Files, write_all
from .records import NUMBER_MAX
from .segment_files import names_in

NAME: Final = "synced"
_UNFINISHED: Final = NAME + ".new"
MAGIC: Final = b"LEVERETS"
# No sector has both slots, so a write that the power cuts off leaves the other one alone.
SLOT_AT: Final = 4096

_slot = Struct("<8s16sQQQQQ")
_crc = Struct("<I")
SLOT_BYTES: Final = _slot.size + _crc.size


class Synced(NamedTuple):
    """A position up to which the journal is on the disk."""

    directory_id: bytes
    # 0: none of this version was created yet.
    segment: int
    # Where in it.
    end: int
    # As in a commit record: when the segment was created, and at this position.
    entries_at_begin: int
    entries: int
    catalog_change: int


class Slots(NamedTuple):
    """The values of the two slots."""

    # The one that names the farthest position; None if there is none, or none verifies.
    farthest: Synced | None
    # Is something in a slot that does not verify? A newer position may have been there.
    is_half_unreadable: bool
    # Do both verify? They do once a start has been completed, unless something damages them.
    is_whole: bool = False


def encode_slot(synced: Synced) -> bytes:
    """One slot."""
    directory_id, *numbers = synced
    slot = _slot.pack(MAGIC, directory_id, *numbers)
    return slot + _crc.pack(crc32(slot))


def read_synced(files: Files, directory: str) -> Slots:
    """The values in the file; none if the file does not exist.

    StorageError if the file cannot be read.
    """
    if NAME not in names_in(files, directory):
        return Slots(None, False)
    path = os.path.join(directory, NAME)
    try:
        data = files.read(path, 0, SLOT_AT + SLOT_BYTES)
    except OSError as error:
        # A directory, for one.
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    slots = [data[at : at + SLOT_BYTES] for at in (0, SLOT_AT)]
    read = [_decode(slot) for slot in slots]
    found = [synced for synced in read if synced is not None]
    farthest = max(found, key=lambda synced: (synced.segment, synced.end), default=None)
    # Zeros are a slot that was not written yet.
    pairs = zip(slots, read, strict=True)
    is_half_unreadable = any(synced is None and any(slot) for slot, synced in pairs)
    return Slots(farthest, is_half_unreadable, len(found) == len(slots))


def _decode(slot: bytes) -> Synced | None:
    if len(slot) < SLOT_BYTES:
        return None
    magic, *values = _slot.unpack_from(slot)
    (crc,) = _crc.unpack_from(slot, _slot.size)
    synced = Synced(*values)
    is_possible = max(synced[1:]) <= NUMBER_MAX
    return synced if magic == MAGIC and crc == crc32(slot[: _slot.size]) and is_possible else None


class SyncedFile:
    """The file of a running broker. For one thread at a time."""

    def __init__(self, files: Files, directory: str, first: Synced) -> None:
        """Replace the file; on the disk when this returns."""
        self._files = files
        self._next_at = SLOT_AT
        names = files.list_directory(directory)
        unfinished = os.path.join(directory, _UNFINISHED)
        if _UNFINISHED in names:
            files.remove(unfinished)
        self._handle = files.create(unfinished)
        try:
            slot = encode_slot(first)
            # As long as it will ever be, so that a sync of a slot puts no new size on the disk.
            write_all(files, self._handle, 0, [slot, bytes(SLOT_AT + SLOT_BYTES - len(slot))])
            files.sync_data(self._handle)
            files.rename(unfinished, os.path.join(directory, NAME))
            files.sync_directory(directory)
        except BaseException:
            self.close()
            raise

    def write(self, synced: Synced) -> None:
        """Name a position that lies behind all before it; on the disk when this returns."""
        write_all(self._files, self._handle, self._next_at, [encode_slot(synced)])
        self._files.sync_data(self._handle)
        self._next_at = SLOT_AT - self._next_at

    def close(self) -> None:
        """Close the file."""
        if self._handle >= 0:
            self._files.close(self._handle)
            self._handle = -1
