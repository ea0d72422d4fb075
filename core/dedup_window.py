"""The window of a queue with `x-dedup-window`: which messages it has taken lately.

Bounded by count and, with `x-dedup-age-ms`, by age: an identity that comes again within both is a
repeat. It is of the queue alone: what is purged, acked, expired or dead-lettered stays remembered,
what was rejected never was.

An identity is 16 octets: a digest (dedup_headers.py), and the kind of message that it came with.
Millions are remembered, so none is an object of its own. They lie behind each other in short byte
strings, a bucket for each value of their first bits, and are found there by a search for bytes.
Within a bucket the oldest is the first; which bucket has the oldest of all is listed by *rows*,
each of identities with the same deadline, about 256 in a full window. So an identity costs some 30
octets, to find it a search in half a kilobyte, and to forget the oldest no search at all.

Ages are rounded up to a 256th of the limit: an identity is remembered for at least that long.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ..amqp_frames.dedup_headers import DIGEST_BYTES
from ..amqp_frames.field_table import Table

IDENTITY_BYTES: Final = DIGEST_BYTES + 1
# The last octet of an identity. A transient message goes with a crash, so it is no reason to
# confirm a persistent one: that is taken in, as if it had never come.
TRANSIENT_KIND: Final = b"\1"
STORED_KIND: Final = b"\2"

# What `x-dedup-window` may ask for, if the settings say nothing else.
DEDUP_WINDOW_MAX: Final = 10_000_000

_BUCKET_IDENTITIES: Final = 32
_ROWS: Final = 256


class RememberedRow(NamedTuple):
    """Identities of stored messages as the journal kept them, in the order of entry ids."""

    first_entry_id: int
    # In milliseconds since the epoch; 0: no age is too old.
    until_ms: int
    identities: bytes | bytearray


class _Row:
    """Identities in the order in which they came: the number of each one's bucket."""

    __slots__ = ("buckets", "first_entry_id", "gone", "until_ms")

    def __init__(self, first_entry_id: int, until_ms: int) -> None:
        self.first_entry_id = first_entry_id
        self.until_ms = until_ms
        self.buckets = array("I")
        # How many of them are forgotten already.
        self.gone = 0


class DedupWindow:
    """The last identities that a queue has taken; who calls says what time it is."""

    __slots__ = ("_age_ms", "_buckets", "_count", "_count_max", "_mask", "_row_max", "_rows")

    def __init__(self, count_max: int, age_ms: int | None = None) -> None:
        """`age_ms`: None for no limit."""
        self._count_max = count_max
        self._age_ms = age_ms
        self._count = 0
        self._row_max = -(-count_max // _ROWS)
        self._mask = (1 << (count_max // _BUCKET_IDENTITIES).bit_length()) - 1
        self._buckets: dict[int, bytearray] = {}
        self._rows: deque[_Row] = deque()

    def __len__(self) -> int:
        return self._count

    def __contains__(self, identity: bytes) -> bool:
        [word] = _first_words((identity,))
        bucket = self._buckets.get(word & self._mask)
        return bucket is not None and _holds(bucket, identity)

    def holds_any(self, identities: Sequence[bytes]) -> bool:
        """Is one of them in the window? In nearly every batch none is."""
        find, mask = self._buckets.get, self._mask
        for identity, word in zip(identities, _first_words(identities), strict=True):
            bucket = find(word & mask)
            if bucket is not None and identity in bucket and _holds(bucket, identity):
                return True
        return False

    def until_ms(self, now_ms: int) -> int:
        """Until when an identity of this moment is remembered: 0 for as long as there is room."""
        if self._age_ms is None:
            return 0
        step = -(-self._age_ms // _ROWS)
        until = -(-(now_ms + self._age_ms) // step) * step
        # Clocks may be set back; who came later does not go before.
        return max(until, self._rows[-1].until_ms) if self._rows else until

    def remember(self, identities: Sequence[bytes], first_entry_id: int, until_ms: int) -> None:
        """These have been taken; no entry of theirs has an id below that.

        `until_ms` is what the method of this name said. The oldest make room for the newest.
        """
        buckets, mask = self._buckets, self._mask
        rows, row_max = self._rows, self._row_max
        row = rows[-1] if rows else None
        for identity, word in zip(identities, _first_words(identities), strict=True):
            if row is None or row.until_ms != until_ms or len(row.buckets) >= row_max:
                row = _Row(first_entry_id, until_ms)
                rows.append(row)
            number = word & mask
            bucket = buckets.get(number)
            if bucket is None:
                buckets[number] = bytearray(identity)
            else:
                bucket += identity
            row.buckets.append(number)
        self._count += len(identities)
        while self._count > self._count_max:
            self._forget(min(self._count - self._count_max, self._row_max))

    def restore(self, remembered: Iterable[RememberedRow], now_ms: int) -> None:
        """Take back what the journal kept, in the order of entry ids; not what is too old now."""
        for first_entry_id, until_ms, identities in remembered:
            if 0 < until_ms <= now_ms:
                continue
            starts = range(0, len(identities), IDENTITY_BYTES)
            pieces = [bytes(identities[start : start + IDENTITY_BYTES]) for start in starts]
            self.remember(pieces, first_entry_id, until_ms)

    def expire(self, now_ms: int) -> None:
        """Forget what has become too old."""
        rows = self._rows
        while rows and 0 < rows[0].until_ms <= now_ms:
            row = rows[0]
            self._forget(len(row.buckets) - row.gone)

    def next_expiry_ms(self) -> int | None:
        """When the oldest become too old; None if there are none, or never."""
        return self._rows[0].until_ms or None if self._rows else None

    def floor(self, next_entry_id: int) -> int:
        """No entry whose identity is remembered has an id below this.

        `next_entry_id` is what the queue's next message will get.
        """
        return self._rows[0].first_entry_id if self._rows else next_entry_id

    def _forget(self, count: int) -> None:
        """The oldest go, no more than there are in the oldest row."""
        row = self._rows[0]
        count = min(count, len(row.buckets) - row.gone)
        buckets = self._buckets
        for number in row.buckets[row.gone : row.gone + count]:
            bucket = buckets[number]
            if len(bucket) == IDENTITY_BYTES:
                del buckets[number]
            else:
                del bucket[:IDENTITY_BYTES]
        row.gone += count
        self._count -= count
        if row.gone == len(row.buckets):
            self._rows.popleft()


def window_of(arguments: Table) -> DedupWindow | None:
    """The window that a declaration's arguments, which were checked, ask for."""
    count = arguments.get("x-dedup-window")
    if count is None:
        return None
    age = arguments.get("x-dedup-age-ms")
    assert isinstance(count.value, int)
    if age is None:
        return DedupWindow(count.value)
    assert isinstance(age.value, int)
    return DedupWindow(count.value, age.value)


def _first_words(identities: Sequence[bytes]) -> array[int]:
    """The first four octets of each, as numbers: they choose the bucket."""
    return array("I", b"".join(identities))[:: IDENTITY_BYTES // 4]


def _holds(bucket: bytearray, identity: bytes) -> bool:
    place = bucket.find(identity)
    # Octets that end one identity and begin the next may look like it.
    while place > 0 and place % IDENTITY_BYTES:
        place = bucket.find(identity, place + 1)
    return place >= 0
