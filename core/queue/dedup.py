"""The window of a queue with `x-dedup-window`: which messages entered it lately.

Bounded by count and, with `x-dedup-age-ms`, by age: an identity that comes again within both is a
repeat. The window is of the queue alone: purged, acked, expired and dead-lettered messages stay
remembered, rejected ones never were.

An identity is 16 octets: a digest (amqp_frames/messages/dedup_headers.py), and the kind of message
that it came with. Millions are remembered, so none is an object of its own. They lie behind each
other in short byte strings, a bucket for each value of their first bits, and are found there by a
search for bytes. Within a bucket the oldest is the first; which bucket has the oldest of all is
listed by *rows*, each of identities with the same deadline, about 256 in a full window. So an
identity costs some 30 octets, to find it a search in half a kilobyte, and to forget the oldest no
search at all.

Ages are rounded up to a 256th of the limit: an identity is remembered for at least that long.

A publish to a queue with a window is divided: messages that are new to the queue, and repeats.

Each message is looked up once. A transient message repeats any of its identity; a message that
the journal stores repeats stored ones only, because a confirm of it says that it is on disk.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import ClassVar, Final, NamedTuple

from ...amqp_frames.messages.batch import Batch, Indexes
from ...amqp_frames.values.field_table import Table
from .columns import DIGEST_BYTES, IdentityReader
from .parts import Part

IDENTITY_BYTES: Final = DIGEST_BYTES + 1
# The last octet of an identity. A transient message goes with a crash, so it is no reason to
# confirm a persistent one: that is taken in, as if it had never come.
TRANSIENT_KIND: Final = b"\1"
STORED_KIND: Final = b"\2"

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

    __slots__ = ("buckets", "first_entry_id", "forgotten", "until_ms")

    def __init__(self, first_entry_id: int, until_ms: int) -> None:
        self.first_entry_id = first_entry_id
        self.until_ms = until_ms
        self.buckets = array("I")
        # How many of them are forgotten already.
        self.forgotten = 0


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
        # Clocks may be set back; a later identity does not leave before an earlier one.
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

    def withdraw(self, identities: Iterable[bytes]) -> None:
        """Forget identities that were remembered lately: their messages could not be stored.

        An identity that is forgotten already is passed over.
        """
        buckets = self._buckets
        for identity in identities:
            [word] = _first_words((identity,))
            number = word & self._mask
            bucket = buckets.get(number)
            place = -1 if bucket is None else _find(bucket, identity)
            if bucket is None or place < 0:
                continue
            # So many of its bucket are younger; the rows list them in the same order.
            younger = len(bucket) // IDENTITY_BYTES - place // IDENTITY_BYTES - 1
            del bucket[place : place + IDENTITY_BYTES]
            if not bucket:
                del buckets[number]
            self._strike(number, younger)
            self._count -= 1

    def _strike(self, number: int, younger: int) -> None:
        """Remove from the rows the identity of this bucket that has so many younger ones."""
        for row in reversed(self._rows):
            there = row.buckets
            for place in range(len(there) - 1, row.forgotten - 1, -1):
                if there[place] != number:
                    continue
                if younger:
                    younger -= 1
                    continue
                del there[place]
                if len(there) == row.forgotten:
                    self._rows.remove(row)
                return

    def restore(self, remembered: Iterable[RememberedRow], now_ms: int) -> None:
        """Restore the identities that the journal kept, in entry order, if not too old."""
        for first_entry_id, until_ms, identities in remembered:
            if 0 < until_ms <= now_ms:
                continue
            starts = range(0, len(identities), IDENTITY_BYTES)
            pieces = [bytes(identities[start : start + IDENTITY_BYTES]) for start in starts]
            self.remember(pieces, first_entry_id, until_ms)

    def succeeding(self, before: DedupWindow, now_ms: int) -> DedupWindow:
        """This window, or one like it, with the identities of another that it replaces.

        With other bounds they are remembered as if they had come now.
        """
        if (before._count_max, before._age_ms) == (self._count_max, self._age_ms):
            return before
        until_ms = self.until_ms(now_ms)
        for first_entry_id, identities in before.remembered():
            self.remember(identities, first_entry_id, until_ms)
        return self

    def remembered(self) -> Iterator[tuple[int, list[bytes]]]:
        """All identities, oldest first, each row with an entry id that none of its is below."""
        buckets = self._buckets
        places = dict.fromkeys(buckets, 0)
        for row in self._rows:
            identities = []
            for number in row.buckets[row.forgotten :]:
                place = places[number]
                places[number] = place + IDENTITY_BYTES
                identities.append(bytes(buckets[number][place : place + IDENTITY_BYTES]))
            yield row.first_entry_id, identities

    def expire(self, now_ms: int) -> None:
        """Forget identities that have become too old."""
        rows = self._rows
        while rows and 0 < rows[0].until_ms <= now_ms:
            row = rows[0]
            self._forget(len(row.buckets) - row.forgotten)

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
        count = min(count, len(row.buckets) - row.forgotten)
        buckets = self._buckets
        for number in row.buckets[row.forgotten : row.forgotten + count]:
            bucket = buckets[number]
            if len(bucket) == IDENTITY_BYTES:
                del buckets[number]
            else:
                del bucket[:IDENTITY_BYTES]
        row.forgotten += count
        self._count -= count
        if row.forgotten == len(row.buckets):
            self._rows.popleft()


def window_of(arguments: Table) -> DedupWindow:
    """The window that a declaration's arguments, which were checked, ask for."""
    count = arguments["x-dedup-window"]
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
    return _find(bucket, identity) >= 0


def _find(bucket: bytearray, identity: bytes) -> int:
    """Where in the bucket it is; -1 if it is not there."""
    place = bucket.find(identity)
    # Octets that end one identity and begin the next may look like it.
    while place > 0 and place % IDENTITY_BYTES:
        place = bucket.find(identity, place + 1)
    return place


class Division(NamedTuple):
    """Which messages are what; indexes ascend in each."""

    fresh: Indexes
    # Aligned with `fresh`: b"" for a message that carries no identity.
    identities: list[bytes]
    # What these repeat has been taken before: stored messages, and transient ones.
    repeats_stored: Indexes
    repeats_transient: Indexes
    # These repeat one of `fresh`, whose fate is not decided yet; and that one's identity.
    again: Indexes
    again_identities: list[bytes]


def divide_by_identity(
    window: DedupWindow, reader: IdentityReader, batch: Batch, indexes: Indexes, durable: bool
) -> Division:
    """`durable`: does the queue store persistent messages?"""
    digests = reader.digests(batch, indexes)
    if durable and all(digests) and 0 not in batch.persistent:
        # As it nearly always is: all are to be stored, and none has ever come before.
        identities = [digest + STORED_KIND for digest in digests]
        if len(set(identities)) == len(identities) and not window.holds_any(identities):
            return Division(indexes, identities, range(0), range(0), range(0), [])
    return _one_by_one(window, batch, indexes, digests, durable)


def _one_by_one(
    window: DedupWindow, batch: Batch, indexes: Indexes, digests: Sequence[bytes], durable: bool
) -> Division:
    fresh, again = array("I"), array("I")
    repeats_stored, repeats_transient = array("I"), array("I")
    identities: list[bytes] = []
    again_identities: list[bytes] = []
    seen: set[bytes] = set()
    persistent = batch.persistent
    for index, digest in zip(indexes, digests, strict=True):
        stored = digest + STORED_KIND
        identity = stored if durable and persistent[index] else digest + TRANSIENT_KIND
        if not digest:
            identity = b""
        elif stored in window:
            repeats_stored.append(index)
            continue
        elif identity is not stored and identity in window:
            repeats_transient.append(index)
            continue
        elif identity in seen or stored in seen:
            again.append(index)
            again_identities.append(stored if stored in seen else identity)
            continue
        else:
            seen.add(identity)
        fresh.append(index)
        identities.append(identity)
    if len(fresh) == len(indexes):
        return Division(indexes, identities, range(0), range(0), range(0), [])
    return Division(fresh, identities, repeats_stored, repeats_transient, again, again_identities)


class Deduplicated(NamedTuple):
    """The division of a publish by a window for duplicates; indexes ascend."""

    # Aligned with the appended messages: b"" for one that carries no identity. Empty if none does.
    identities: Sequence[bytes]
    # Until when they are remembered, in milliseconds since the epoch; 0: while there is room.
    until_ms: int
    # These repeat messages that are stored, or will be when the journal has all that it was told.
    repeats_stored: Indexes
    # These repeat transient messages.
    repeats_transient: Indexes


class Deduplication(Part):
    """Keeps repeats out of a queue: they are confirmed, and nothing else happens to them.

    Dead letters pass by: the broker moves them, once, and a message that comes back to its queue
    by way of another one is not published a second time.
    """

    __slots__ = ("_reader", "window")

    name: ClassVar[str] = "deduplication"

    def __init__(self, window: DedupWindow) -> None:
        self.window = window
        self._reader = IdentityReader()

    def succeed(self, before: Part, now_ms: int) -> None:
        """Remember what the window before remembered, as if it had come now."""
        assert isinstance(before, Deduplication)
        self.window = self.window.succeeding(before.window, now_ms)

    def divide(self, batch: Batch, indexes: Indexes, durable: bool, now_ms: int) -> Division:
        """Which of these messages are new; `durable`: does the queue store persistent messages?"""
        self.window.expire(now_ms)
        return divide_by_identity(self.window, self._reader, batch, indexes, durable)

    def remember(
        self,
        division: Division,
        next_entry_id: int,
        now_ms: int,
        appended: Indexes | None,
        rejected: Indexes | None,
    ) -> tuple[Deduplicated, Indexes | None]:
        """The new messages have entered, but for the `rejected`; the `appended` go to the journal.

        Returns the identities of appended messages and how repeats are answered, and the rejected
        messages with their repeats. The window does not remember what the queue rejected.
        """
        identities: Sequence[bytes] = ()
        until_ms = 0
        refused: Set[bytes] = frozenset()
        if any(division.identities):
            indexes, identities = division.fresh, division.identities
            if rejected is not None:
                outside = set(rejected)
                pairs = list(zip(indexes, identities, strict=True))
                entered = [pair for pair in pairs if pair[0] not in outside]
                refused = {identity for index, identity in pairs if index in outside}
                indexes = array("I", [index for index, _ in entered])
                identities = [identity for _, identity in entered]
            until_ms = self.window.until_ms(now_ms)
            first_entry_id = next_entry_id - len(indexes)
            self.window.remember(list(filter(None, identities)), first_entry_id, until_ms)
            identities = _of_appended(appended, indexes, identities)
        stored, transient = division.repeats_stored, division.repeats_transient
        if division.again:
            stored, transient, rejected = _resolve(division, refused, rejected)
        return Deduplicated(identities, until_ms, stored, transient), rejected


def _of_appended(
    appended: Indexes | None, indexes: Indexes, identities: Sequence[bytes]
) -> Sequence[bytes]:
    """The identities of those among these messages that go to the journal."""
    if appended is None:
        return ()
    if len(appended) == len(indexes):
        return identities
    among = set(appended)
    pairs = zip(indexes, identities, strict=True)
    return [identity for index, identity in pairs if index in among]


def _resolve(
    division: Division, refused: Set[bytes], rejected_before: Indexes | None
) -> tuple[Indexes, Indexes, Indexes | None]:
    """All repeats, stored, transient and rejected.

    A repeat of a message of the same batch fares as that.
    """
    rejected = array("I", rejected_before or ())
    stored = array("I", division.repeats_stored)
    transient = array("I", division.repeats_transient)
    for index, identity in zip(division.again, division.again_identities, strict=True):
        if identity in refused:
            rejected.append(index)
        elif identity.endswith(STORED_KIND):
            stored.append(index)
        else:
            transient.append(index)
    all_rejected = array("I", sorted(rejected)) if rejected else None
    return array("I", sorted(stored)), array("I", sorted(transient)), all_rejected


def deduplication_part(arguments: Table) -> Deduplication:
    """The part that `x-dedup-window` asks for."""
    return Deduplication(window_of(arguments))
