"""What keeps a segment: for every segment, how much in it is live and what its records speak of.

A segment can be removed when
1. no live entry has its body record or its entries record in it, and
2. every segment that its settle and delivered records speak of is gone, or goes with it.
   A settle is live until the entries record it speaks of is gone: without it, a message that was
   settled comes back at the next start.
Identities that queues' windows remember keep no segment with messages: they are few octets, and
are written anew before their segment goes. Only a segment of nothing else may stay for them
(`identity_runs.py`).

The open segment never goes. Counting is done as records are made, block by block; nothing here
reads a segment or touches a file. `journal.py` keeps a ledger while it runs, `replay.py` fills
one from the records at start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic

from .identity_runs import RememberedIdentities
from .live_entries import Block, BlockType, EntryIds, LiveEntries

# First and last entry id, both inclusive.
EntryRange = tuple[int, int]


class SegmentLedger(Generic[BlockType]):
    """The live entries of every queue, and what each segment is still needed for."""

    def __init__(self) -> None:
        # Identities for dedup windows.
        self.remembered = RememberedIdentities()
        self.queues: dict[int, LiveEntries[BlockType]] = {}
        # Per segment that is there: how many live entries need it, counted once for the entries
        # record and once more for the body record if that lies in another segment.
        self.live: dict[int, int] = {}
        # Per segment: the other segments that its settle and delivered records speak of.
        self.speaks_of: dict[int, set[int]] = {}
        self.open_segment = 0
        # Has anything happened since the last `removable` that may let a segment go?
        self.may_remove = False

    def open(self, number: int) -> None:
        """From here on, records go to this new segment."""
        self.live[number] = 0
        self.speaks_of[number] = set()
        self.open_segment = number
        self.may_remove = True

    def append(self, queue_id: int, block: BlockType) -> None:
        """Entries above all others of their queue are live."""
        live_entries = self.queues.get(queue_id)
        if live_entries is None:
            live_entries = self.queues[queue_id] = LiveEntries()
        live_entries.append(block)
        self.count(block.body_segment, block.entries_segment, len(block.entry_ids))

    def count(self, body_segment: int, entries_segment: int, entries: int) -> None:
        """So many entries of these segments have become live (or dead, if negative)."""
        live = self.live
        live[entries_segment] += entries
        if not live[entries_segment]:
            self.may_remove = True
        if body_segment != entries_segment:
            live[body_segment] += entries
            if not live[body_segment]:
                self.may_remove = True

    def settle(self, queue_id: int, ranges: Sequence[EntryRange]) -> bool:
        """The entries in these ranges are dead, says a record in the open segment.

        False if none of them was live: then the record would say nothing.
        """
        live_entries = self.queues.get(queue_id)
        if live_entries is None:
            return False
        found = False
        for first, last in ranges:
            for block in live_entries.cut(first, last):
                found = True
                self.speaks_of[self.open_segment].add(block.entries_segment)
                self.count(block.body_segment, block.entries_segment, -len(block.entry_ids))
        return found

    def delivered(self, queue_id: int, ranges: Sequence[EntryRange]) -> bool:
        """The entries in these ranges were delivered, says a record in the open segment.

        False if none of them is live.
        """
        live_entries = self.queues.get(queue_id)
        if live_entries is None:
            return False
        found = False
        for first, last in ranges:
            for block in live_entries.within(first, last):
                found = True
                self.speaks_of[self.open_segment].add(block.entries_segment)
        return found

    def drop(self, queue_id: int) -> None:
        """Everything of this queue is dead, without a record: the catalog does not know it."""
        self.remembered.drop(queue_id)
        self._identities_went()
        live_entries = self.queues.pop(queue_id, None)
        if live_entries is not None:
            for block in live_entries:
                self.count(block.body_segment, block.entries_segment, -len(block.entry_ids))

    def forget_identities(self, queue_id: int, below: int) -> None:
        """The queue's window remembers no entry with an id below this."""
        self.remembered.forget(queue_id, below)
        self._identities_went()

    def _identities_went(self) -> None:
        # Segments that have nothing else, and stayed because of how many they had.
        if self.remembered.made:
            self.may_remove = True

    def removable(self) -> list[int]:
        """The segments that can go now, together. Cheap while nothing has changed."""
        if not self.may_remove:
            return []
        self.may_remove = False
        going: list[int] = []
        # A record speaks of its own segment or of earlier ones, so ascending order decides all.
        for number in sorted(self.live):
            if number == self.open_segment or self.live[number]:
                continue
            if self.remembered.keeps(number):
                continue
            needed = self.speaks_of[number]
            needed.intersection_update(self.live)
            needed.difference_update(going, (number,))
            if not needed:
                going.append(number)
        return going

    def forget(self, numbers: Iterable[int]) -> None:
        """These segments are gone."""
        for number in numbers:
            del self.live[number]
            del self.speaks_of[number]
            self.remembered.made.pop(number, None)


class RunningLedger(SegmentLedger[Block]):
    """The ledger while the broker runs: what is appended continues the block before if it can."""

    def extend(
        self, queue_id: int, entry_ids: EntryIds, body_segment: int, entries_segment: int
    ) -> None:
        """Entries above all others of their queue are live."""
        live_entries = self.queues.get(queue_id)
        tail = None if live_entries is None else live_entries.tail()
        if tail is not None and isinstance(entry_ids, range):
            tail_ids = tail.entry_ids
            if (
                tail.entries_segment == entries_segment
                and tail.body_segment == body_segment
                and isinstance(tail_ids, range)
                and tail_ids.stop == entry_ids.start
            ):
                tail.entry_ids = range(tail_ids.start, entry_ids.stop)
                self.count(body_segment, entries_segment, len(entry_ids))
                return
        self.append(queue_id, Block(entry_ids, body_segment, entries_segment))
