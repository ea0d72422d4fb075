"""Reading the records of a stretch of a segment, in pieces, wherever it begins.

`segment_reader.py` reads a whole segment in memory, and is for a start. A `Scan` begins at a record
in the midst of a segment, which the ledger knows of, and holds a piece of it at a time. Each record
is verified; what does not verify is passed over up to the next record that does.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from ..files import BLOCK_BYTES, NotAFileError
from .log import Position
from .records import HEAD_BYTES, salt_of
from .segment_header import SEALED_VERSION_MIN, decode_prefix
from .segment_reader import EARLIER_HEAD_BYTES, Beginning, read_beginning

# Reads so many bytes from there on; fewer only where the segment ends.
ReadLog = Callable[[Position, int], bytes]

# The first piece of a stretch, and what pieces grow to while the reading goes on behind them.
PIECE_BYTES_MIN: Final = 16 * 1024
PIECE_BYTES_MAX: Final = 256 * 1024
# A record that is longer than this is held only if it is asked for.
LONG_RECORD_BYTES: Final = 1024 * 1024
# Most headers are no longer.
_HEADER_BYTES: Final = 4096
# A longer one has not been written: so many bytes are looked at where the prefix does not verify.
_HEADER_BYTES_MAX: Final = 64 * 1024
# So much of a long record says which it is.
LONG_BEGIN_BYTES: Final = 64
# So many records are verified at a time.
HELD_MAX: Final = 64
# Errors of a disk that cannot read some place of it.
UNREADABLE: Final = (errno.EIO, errno.EBADMSG, errno.ENODATA, errno.EILSEQ)

_sealed_head = Struct("<IIIII").unpack_from
_earlier_head = Struct("<II").unpack_from
# Behind marker and checksum, or behind length and checksum: what the checksum covers.
_COVERED_AT: Final = 8


# A record that verifies: its offset in the segment, then bytes, and from where to where it is in
# these from its kind on; its head is before that. Of a long record the bytes are the begin
# only; `Scan.whole` reads it. A plain tuple, for there is one for each record.
RawRecord = tuple[int, bytes, int, int]


class Gap(NamedTuple):
    """A stretch that does not verify."""

    offset: int
    end: int


class Sealing(NamedTuple):
    """How the records of a segment verify."""

    head_bytes: int
    # None: it has none, in segments of earlier formats.
    marker: int | None
    seed: int
    # None: the first record that verifies says it.
    epoch: int | None


class Scan:
    """The records of one segment from an offset on, where one begins."""

    def __init__(
        self,
        read: ReadLog,
        number: int,
        offset: int,
        directory_id: bytes,
        sealing: Sealing | None = None,
        first_bytes: int = PIECE_BYTES_MIN,
    ) -> None:
        """`directory_id` is for a segment whose header does not say it.

        `sealing` is that of an earlier scan of the segment. `first_bytes` are read at once: as much
        as is known to be wanted.
        """
        self._read_log = read
        self.number = number
        # It has read everything between these.
        self.begin = self.position = offset
        # How much it has read, and why some of that could not be.
        self.bytes_read = 0
        self.error: OSError | None = None
        # The piece at hand, and where it begins.
        self.data = b""
        self.base = offset
        self._view = memoryview(b"")
        self._piece_bytes = first_bytes
        self._is_at_end = False
        self.sealing = self._read_sealing(directory_id) if sealing is None else sealing
        self._head_bytes, self._marker, self._seed, self._epoch = self.sealing

    def _read_sealing(self, directory_id: bytes) -> Sealing:
        beginning = self._read_beginning()
        header, version = beginning.header, beginning.version
        if header is not None and header.directory_id:
            salt = salt_of(header.directory_id, self.number)
            return Sealing(HEAD_BYTES, salt.marker, salt.seed, header.epoch)
        salt = salt_of(directory_id, self.number)
        is_sealed = header is None and (
            self._read(self.position, len(salt.marker_bytes)) == salt.marker_bytes
            if version is None
            else version >= SEALED_VERSION_MIN
        )
        if is_sealed:
            return Sealing(HEAD_BYTES, salt.marker, salt.seed, None)
        return Sealing(EARLIER_HEAD_BYTES, None, self.number, None)

    def _read_beginning(self) -> Beginning:
        data = self._read(0, _HEADER_BYTES)
        prefix = decode_prefix(data, f"segment {self.number}")
        length = _HEADER_BYTES_MAX if prefix is None else prefix.header_bytes
        if length > len(data) == _HEADER_BYTES:
            data += self._read(len(data), length - len(data))
        return read_beginning(data, f"segment {self.number}")

    def held(self, limit: int) -> list[tuple[int, int]]:
        """Records that lie one behind the other in the piece at hand: start and end in `data`.

        They verify, and do not begin behind the limit. None of them: it is up to `next`.
        """
        records: list[tuple[int, int]] = []
        marker, epoch, seed, view, data = (
            self._marker,
            self._epoch,
            self._seed,
            self._view,
            self.data,
        )
        if marker is None or epoch is None:
            return records
        at, size, last = self.position - self.base, len(data), limit - self.base
        if at < 0:
            return records
        while at <= last and len(records) < HELD_MAX and at + HEAD_BYTES < size:
            found, checksum, length, _, found_epoch = _sealed_head(data, at)
            start = at + HEAD_BYTES
            end = start + length
            if (
                found != marker
                or found_epoch != epoch
                or not length
                or end > size
                or crc32(view[at + _COVERED_AT : end], seed) != checksum
            ):
                break
            records.append((start, end))
            at = end
        self.position = self.base + at
        return records

    def next(self, limit: int) -> RawRecord | Gap | None:
        """The next record or gap; None if it begins behind the limit, or the segment ends."""
        at = self.position
        if at > limit:
            return None
        head_bytes = self._head_bytes
        start = at - self.base
        if start + head_bytes >= len(self.data):
            if not self._fetch(at, head_bytes + 1):
                return self._pass_over(at, limit)
            start = at - self.base
        marker = self._marker
        if marker is None:
            length, checksum = _earlier_head(self.data, start)
            found, epoch = None, None
        else:
            found, checksum, length, _, epoch = _sealed_head(self.data, start)
        if found != marker or not length or (epoch != self._epoch and self._epoch is not None):
            return self._pass_over(at, limit)
        end = start + head_bytes + length
        if end > len(self.data):
            if length > LONG_RECORD_BYTES:
                return self._next_long(at, at + head_bytes + length, epoch, limit)
            if not self._fetch(at, head_bytes + length):
                return self._pass_over(at, limit)
            start = at - self.base
            end = start + head_bytes + length
        if crc32(self._view[start + _COVERED_AT : end], self._seed) != checksum:
            return self._pass_over(at, limit)
        self._epoch = epoch
        self.position = self.base + end
        return at, self.data, start + head_bytes, end

    def _next_long(
        self, at: int, end: int, epoch: int | None, limit: int
    ) -> RawRecord | Gap | None:
        """The same of a long record."""
        if not self._verifies(at):
            return self._pass_over(at, limit)
        self._epoch = epoch
        self.position = end
        data = self._read(at, LONG_BEGIN_BYTES)
        return at, data, self._head_bytes, end - at

    def whole(self, record: RawRecord) -> RawRecord:
        """The record with all of its bytes."""
        offset, data, start, end = record
        return record if end <= len(data) else (offset, self._read(offset, end), start, end)

    def _pass_over(self, at: int, limit: int) -> Gap | None:
        """Go on at the next record that verifies and does not begin behind the limit."""
        position = at
        while (position := self._next_start(position, limit)) <= limit:
            if self._verifies(position):
                break
        self.position = max(position, at + 1)
        return Gap(at, self.position) if self._holds_more_than_zeros(at, self.position) else None

    def _next_start(self, position: int, limit: int) -> int:
        """Where a record may begin, behind this one that does not verify."""
        if self._marker is None:
            if self._fetch(position, EARLIER_HEAD_BYTES):
                length, _ = _earlier_head(self.data, position - self.base)
                if length:
                    return position + EARLIER_HEAD_BYTES + int(length)
            return limit + 1
        marker = self._marker.to_bytes(4, "little")
        position += 1
        while position <= limit and self._fetch(position, len(marker)):
            found = self.data.find(marker, position - self.base)
            if found >= 0:
                return self.base + found
            position = self.base + len(self.data) - len(marker) + 1
        return limit + 1

    def _verifies(self, position: int) -> bool:
        """Does a record that verifies begin there? Of a long one a piece is held at a time."""
        head_bytes = self._head_bytes
        if not self._fetch(position, head_bytes + 1):
            return False
        start = position - self.base
        if self._marker is None:
            length, checksum = _earlier_head(self.data, start)
        else:
            _, checksum, length, _, epoch = _sealed_head(self.data, start)
            if self._epoch not in (None, epoch):
                return False
        if not length:
            return False
        end, crc, at = position + head_bytes + length, self._seed, position + _COVERED_AT
        while at < end:
            if not self._fetch(at, 1):
                return False
            piece = self._view[at - self.base : end - self.base]
            crc = crc32(piece, crc)
            at += len(piece)
        return bool(crc == checksum)

    def _holds_more_than_zeros(self, start: int, end: int) -> bool:
        """Are there others than the zeros that the journal writes ahead of itself?"""
        return bool(self._read(start, end - start).strip(b"\0"))

    def _fetch(self, at: int, count: int) -> bool:
        """Have so many bytes from there on in `_data`; false if the segment ends before."""
        held_end = self.base + len(self.data)
        if at < self.base or at > held_end:
            self.data, self.base, self._piece_bytes = b"", at, PIECE_BYTES_MIN
            self._is_at_end = False
            held_end = at
        if at + count <= held_end:
            return True
        if not self._is_at_end:
            length = max(self._piece_bytes, at + count - held_end)
            self._piece_bytes = min(2 * self._piece_bytes, PIECE_BYTES_MAX)
            more = self._read(held_end, length)
            self._is_at_end = len(more) < length
            self.data = self.data[at - self.base :] + more
            self._view = memoryview(self.data)
            self.base = at
        return at + count <= self.base + len(self.data)

    def _read(self, offset: int, length: int) -> bytes:
        """Bytes of the segment; zeros where the disk cannot read them."""
        self.bytes_read += length
        try:
            return self._read_log(Position(self.number, offset), length)
        except (FileNotFoundError, NotAFileError) as error:
            self.error = error
            return b""
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            self.error = error
        return self._read_blocks(offset, length)

    def _read_blocks(self, offset: int, length: int) -> bytes:
        """Block by block: a disk that cannot read one costs no other."""
        pieces: list[bytes] = []
        end = offset + length
        while offset < end:
            block_end = min(offset - offset % BLOCK_BYTES + BLOCK_BYTES, end)
            try:
                piece = self._read_log(Position(self.number, offset), block_end - offset)
                if len(piece) < block_end - offset:
                    return b"".join((*pieces, piece))
            except OSError as error:
                if error.errno not in UNREADABLE:
                    raise
                piece = bytes(block_end - offset)
            pieces.append(piece)
            offset = block_end
        return b"".join(pieces)
