"""Which identities the journal must keep for the windows of queues, and in which segment they are.

A queue with a dedup window has the identity of every message stored in the entries record of the
message, so both are on the disk or neither is. The identity outlives the message: it is needed
until the queue's window has forgotten it. Here they are kept as runs, ascending by entry id, so
that a segment can go whose messages are gone: its runs are then written anew, to the open segment,
before it does. Many of them go to segments of their own, without any messages, which stay until
most has been forgotten: so none is written again and again, and as no settle speaks of such a
segment, it keeps no other.

An identity is 16 octets; what they mean is core/queue/dedup.py's.
"""

from __future__ import annotations

from array import array
from bisect import insort
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

IDENTITY_BYTES: Final = 16
# A run is forgotten, or written anew, as a whole.
RUN_BYTES_MAX: Final = 64 * 1024
# A segment of identities stays until no more than this part of them is left.
KEPT_PART_MIN: Final = 4
# For an entry without one: its message names no producer, or no id.
NO_IDENTITY: Final = bytes(IDENTITY_BYTES)


class Identities(NamedTuple):
    """Those of the entries of one record."""

    # Aligned with the entries, NO_IDENTITY for entries without one.
    octets: bytes
    # Until when they are remembered, in milliseconds since the epoch; 0: while there is room.
    until_ms: int


def identities_in(identities: Identities) -> list[bytes]:
    """Each of them; without entries that have none."""
    return [piece for piece in _pieces(identities.octets) if piece != NO_IDENTITY]


class IdentityRun:
    """Identities of one queue with the same deadline, in one segment, in order of entry ids."""

    __slots__ = ("first_entry_id", "identities", "last_entry_id", "segment", "until_ms")

    def __init__(
        self,
        segment: int,
        first_entry_id: int,
        last_entry_id: int,
        until_ms: int,
        identities: bytearray,
    ) -> None:
        self.segment = segment
        self.first_entry_id = first_entry_id
        self.last_entry_id = last_entry_id
        self.until_ms = until_ms
        self.identities = identities


class RememberedIdentities:
    """The runs of all queues. `bytes_in` says per segment how many octets of identities it has.

    `made` says of segments that have nothing but identities how many octets these were at first.
    """

    def __init__(self) -> None:
        self.made: dict[int, int] = {}
        # So few octets are written anew at any time.
        self.few_bytes_max = 0
        self.queues: dict[int, deque[IdentityRun]] = {}
        self.bytes_in: dict[int, int] = {}

    def append(
        self, queue_id: int, segment: int, entry_ids: range | array[int], identities: Identities
    ) -> None:
        """Entries of the queue, in a record of this segment, have these identities."""
        octets = identities.octets
        if NO_IDENTITY in octets:
            octets = _without_missing(octets)
            if not octets:
                return
        runs = self.queues.get(queue_id)
        if runs is None:
            runs = self.queues[queue_id] = deque()
        self._count(segment, len(octets))
        first, last = entry_ids[0], entry_ids[-1]
        tail = runs[-1] if runs else None
        if (
            tail is not None
            and tail.segment == segment
            and tail.until_ms == identities.until_ms
            and len(tail.identities) < RUN_BYTES_MAX
        ):
            tail.identities += octets
            tail.last_entry_id = last
        else:
            runs.append(IdentityRun(segment, first, last, identities.until_ms, bytearray(octets)))

    def add_rewritten(self, queue_id: int, run: IdentityRun) -> None:
        """Recovery has read a run that was written anew.

        A crash may have left the segment that its identities were in before: they count once.
        """
        first, last = run.first_entry_id, run.last_entry_id
        known = self.queues.get(queue_id, ())
        for each in known:
            if each.first_entry_id <= last and first <= each.last_entry_id:
                self._count(each.segment, -len(each.identities))
                _remove(each.identities, run.identities)
                self._count(each.segment, len(each.identities))
        runs = [each for each in known if each.identities]
        insort(runs, run, key=_first_entry_id)
        self.queues[queue_id] = deque(runs)
        self._count(run.segment, len(run.identities))

    def forget_these(self, queue_id: int, first: int, last: int, octets: bytes) -> None:
        """These identities, of entries from `first` to `last`, are not to be remembered."""
        runs = self.queues.get(queue_id, ())
        for run in runs:
            if run.first_entry_id <= last and first <= run.last_entry_id:
                self._count(run.segment, -len(run.identities))
                _remove(run.identities, octets)
                self._count(run.segment, len(run.identities))
        if queue_id in self.queues:
            self.queues[queue_id] = deque(run for run in runs if run.identities)

    def lists(self) -> dict[int, list[IdentityRun]]:
        """Each queue's runs as they are now."""
        return {queue_id: list(runs) for queue_id, runs in self.queues.items()}

    def forget(self, queue_id: int, below: int) -> None:
        """The queue's window has forgotten all identities of entries below this id."""
        runs = self.queues.get(queue_id)
        while runs and runs[0].last_entry_id < below:
            run = runs.popleft()
            self._count(run.segment, -len(run.identities))

    def drop(self, queue_id: int) -> None:
        """The queue is no more."""
        for run in self.queues.pop(queue_id, ()):
            self._count(run.segment, -len(run.identities))

    def keeps(self, segment: int) -> bool:
        """Must the segment stay, since it has nothing but identities, and still many?"""
        made = self.made.get(segment)
        if made is None:
            return False
        left = self.bytes_in.get(segment, 0)
        return left > self.few_bytes_max and left * KEPT_PART_MIN > made

    def within(self, segments: set[int]) -> dict[int, list[IdentityRun]]:
        """By queue the runs that lie in these segments."""
        if segments.isdisjoint(self.bytes_in):
            return {}
        found = {
            queue_id: [run for run in runs if run.segment in segments]
            for queue_id, runs in self.queues.items()
        }
        return {queue_id: runs for queue_id, runs in found.items() if runs}

    def move(self, run: IdentityRun, segment: int) -> None:
        """The run has been written anew, to this segment."""
        self._count(run.segment, -len(run.identities))
        run.segment = segment
        self._count(segment, len(run.identities))

    def undo_rewrite(self, queue_id: int, run: IdentityRun, segment: int) -> None:
        """The run was not written anew; until it is, it counts for this segment."""
        if self.still_there(queue_id, [run]):
            self.move(run, segment)

    def still_there(self, queue_id: int, runs: Sequence[IdentityRun]) -> list[IdentityRun]:
        """Those of the queue's runs that are still to be remembered."""
        there = {id(run) for run in self.queues.get(queue_id, ())}
        return [run for run in runs if id(run) in there]

    def _count(self, segment: int, octets: int) -> None:
        left = self.bytes_in.get(segment, 0) + octets
        if left:
            self.bytes_in[segment] = left
        else:
            self.bytes_in.pop(segment, None)


def _first_entry_id(run: IdentityRun) -> int:
    return run.first_entry_id


def _pieces(octets: bytes | bytearray) -> list[bytes]:
    starts = range(0, len(octets), IDENTITY_BYTES)
    return [bytes(octets[start : start + IDENTITY_BYTES]) for start in starts]


def _remove(octets: bytearray, others: bytes | bytearray) -> None:
    gone = set(_pieces(others))
    octets[:] = b"".join([piece for piece in _pieces(octets) if piece not in gone])


def _without_missing(octets: bytes) -> bytes:
    return b"".join([piece for piece in _pieces(octets) if piece != NO_IDENTITY])
