"""Which entries of a queue are live, in ranges: the journal's bookkeeping of one queue.

A queue's live entries are kept as blocks, ascending by entry id. A block is a range of ids, or an
array where the ids have gaps, whose body records lie in one segment and whose entries records lie
in one segment. Blocks that continue each other are joined, so a queue that is filled and emptied
in order costs one block whatever its depth is; what is settled in order leaves at the left.

No files and no segments in here, only their numbers: `segment_ledger.py` counts those. Recovery
keeps its blocks, which know their messages too, in the same structure.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Generic, Self, TypeVar

# Ascending entry ids: a range where there are no gaps, else array('Q').
EntryIds = range | array  # type: ignore[type-arg]
# When entries expire, in milliseconds since the epoch, 0 being never: one for all, or each's.
Deadlines = int | array  # type: ignore[type-arg]


class Block:
    """Entries with their body records in one segment and their entries records in one."""

    __slots__ = ("body_segment", "entries_segment", "entry_ids")

    def __init__(self, entry_ids: EntryIds, body_segment: int, entries_segment: int) -> None:
        self.entry_ids = entry_ids
        self.body_segment = body_segment
        self.entries_segment = entries_segment

    def split(self, position: int) -> Self:
        """Keep the entries before the position; the others come back as a block of their own."""
        rest = self.__new__(type(self))
        rest.entry_ids = self.entry_ids[position:]
        rest.body_segment = self.body_segment
        rest.entries_segment = self.entries_segment
        self.entry_ids = self.entry_ids[:position]
        return rest


BlockType = TypeVar("BlockType", bound=Block)


def _last_id(block: Block) -> int:
    return int(block.entry_ids[-1])


class LiveEntries(Generic[BlockType]):
    """The live entries of one queue: blocks that ascend, do not overlap and are never empty."""

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        self.blocks: deque[BlockType] = deque()

    def append(self, block: BlockType) -> None:
        """Take a block as it is; its ids must lie above all that are here."""
        blocks = self.blocks
        if blocks and blocks[-1].entry_ids[-1] >= block.entry_ids[0]:
            msg = f"entry id {block.entry_ids[0]} does not ascend"
            raise ValueError(msg)
        blocks.append(block)

    def cut(self, first: int, last: int) -> list[BlockType]:
        """Take out the entries whose ids lie within first and last, both inclusive."""
        blocks = self.blocks
        offset = self._turn_to(first)
        taken: list[BlockType] = []
        # The blocks before the range now stand behind the others; their ids are below `first`.
        while blocks and first <= blocks[0].entry_ids[0] <= last:
            block = blocks.popleft()
            if block.entry_ids[-1] > last:
                blocks.appendleft(block.split(bisect_right(block.entry_ids, last)))
            taken.append(block)
        if offset:
            blocks.rotate(offset)
        return taken

    def put_back(self, taken: list[BlockType]) -> None:
        """Undo a `cut`: the blocks go to their old place."""
        if taken:
            offset = self._turn_to(taken[0].entry_ids[0])
            self.blocks.extendleft(reversed(taken))
            self.blocks.rotate(offset)

    def within(self, first: int, last: int) -> Iterator[BlockType]:
        """The blocks that have entries within first and last, both inclusive; nothing is cut."""
        for block in islice(self.blocks, self._index_of(first), None):
            ids = block.entry_ids
            if ids[0] > last:
                return
            if bisect_left(ids, first) < bisect_right(ids, last):
                yield block

    def _turn_to(self, first: int) -> int:
        """Rotate until the entries from `first` on stand at the left; returns by how many blocks.

        A block that holds ids on both sides is split. In order, which is the rule, nothing moves.
        """
        index = self._index_of(first)
        blocks = self.blocks
        blocks.rotate(-index)
        if blocks and blocks[0].entry_ids[0] < first <= blocks[0].entry_ids[-1]:
            block = blocks[0]
            blocks.rotate(-1)
            blocks.appendleft(block.split(bisect_left(block.entry_ids, first)))
            index += 1
        return index

    def _index_of(self, first: int) -> int:
        """The place of the first block that has an id not below `first`."""
        blocks = self.blocks
        if not blocks or blocks[0].entry_ids[-1] >= first:
            return 0
        return bisect_left(blocks, first, key=_last_id)
