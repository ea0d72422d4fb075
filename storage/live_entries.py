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
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final, Generic, Self, TypeVar

# Ascending entry ids: a range where there are no gaps, else array('Q').
EntryIds = range | array  # type: ignore[type-arg]
# When entries expire, in milliseconds since the epoch, 0 being never: one for all, or each's.
Deadlines = int | array  # type: ignore[type-arg]
# To remove from a list of so many takes a tenth of a microsecond, about as long as to find it.
BLOCKS_PER_LIST_MAX: Final = 512


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


def _last_id_of_all(blocks: list[BlockType]) -> int:
    return int(blocks[-1].entry_ids[-1])


class LiveEntries(Generic[BlockType]):
    """The live entries of one queue: blocks that ascend, do not overlap and are never empty.

    They are iterated over in that order. Entries that are settled one by one in any order leave
    a block for each gap, so to find, split or remove one costs the same among many: blocks are in
    a list of lists, none of them empty or longer than BLOCKS_PER_LIST_MAX.
    """

    __slots__ = ("_lists",)

    def __init__(self) -> None:
        self._lists: list[list[BlockType]] = []

    def __iter__(self) -> Iterator[BlockType]:
        return chain.from_iterable(self._lists)

    def __len__(self) -> int:
        """How many blocks there are."""
        return sum(map(len, self._lists))

    def tail(self) -> BlockType | None:
        """The block of the highest ids."""
        return self._lists[-1][-1] if self._lists else None

    def append(self, block: BlockType) -> None:
        """Take a block as it is; its ids must lie above all that are here."""
        tail = self.tail()
        if tail is not None and tail.entry_ids[-1] >= block.entry_ids[0]:
            msg = f"entry id {block.entry_ids[0]} does not ascend"
            raise ValueError(msg)
        if tail is not None and len(self._lists[-1]) < BLOCKS_PER_LIST_MAX:
            self._lists[-1].append(block)
        else:
            self._lists.append([block])

    def replace(self, blocks: Iterable[BlockType]) -> None:
        """Hold these, which ascend, and no others."""
        self._lists.clear()
        for block in blocks:
            self.append(block)

    def cut(self, first: int, last: int) -> list[BlockType]:
        """Take out the entries whose ids lie within first and last, both inclusive."""
        lists = self._lists
        number, place = self._split_before(first)
        taken: list[BlockType] = []
        while number < len(lists):
            blocks = lists[number]
            end = place
            while end < len(blocks) and blocks[end].entry_ids[-1] <= last:
                end += 1
            taken += blocks[place:end]
            if end < len(blocks):
                block = blocks[end]
                if block.entry_ids[0] <= last:
                    blocks[end] = block.split(bisect_right(block.entry_ids, last))
                    taken.append(block)
                del blocks[place:end]
                break
            del blocks[place:]
            if blocks:
                number += 1
            else:
                del lists[number]
            place = 0
        return taken

    def isolate(self, first: int, last: int) -> list[BlockType]:
        """The entries whose ids lie within first and last, as blocks of their own, which stay."""
        lists = self._lists
        number, place = self._split_before(first)
        found: list[BlockType] = []
        while number < len(lists):
            block = lists[number][place]
            if block.entry_ids[0] > last:
                break
            found.append(block)
            if block.entry_ids[-1] > last:
                rest = block.split(bisect_right(block.entry_ids, last))
                self._insert(number, place + 1, rest)
                break
            place += 1
            if place == len(lists[number]):
                number, place = number + 1, 0
        return found

    def within(self, first: int, last: int) -> Iterator[BlockType]:
        """The blocks that have entries within first and last, both inclusive; nothing is cut."""
        number, place = self._find(first)
        for blocks in islice(self._lists, number, None):
            for block in islice(blocks, place, None):
                ids = block.entry_ids
                if ids[0] > last:
                    return
                if bisect_left(ids, first) < bisect_right(ids, last):
                    yield block
            place = 0

    def _split_before(self, first: int) -> tuple[int, int]:
        """Split the block that has ids on both sides; gives the place of the first not below."""
        number, place = self._find(first)
        if number < len(self._lists):
            block = self._lists[number][place]
            if block.entry_ids[0] < first:
                rest = block.split(bisect_left(block.entry_ids, first))
                return self._insert(number, place + 1, rest)
        return number, place

    def _find(self, first: int) -> tuple[int, int]:
        """The place of the first block that has an id not below `first`, or that of the end."""
        lists = self._lists
        # In order, which is the rule, it is the first of all.
        if not lists or lists[0][0].entry_ids[-1] >= first:
            return 0, 0
        number = bisect_left(lists, first, key=_last_id_of_all)
        if number == len(lists):
            return number, 0
        return number, bisect_left(lists[number], first, key=_last_id)

    def _insert(self, number: int, place: int, block: BlockType) -> tuple[int, int]:
        """Put a block there; gives its place, which is another if its list became too long."""
        blocks = self._lists[number]
        blocks.insert(place, block)
        if len(blocks) <= BLOCKS_PER_LIST_MAX:
            return number, place
        half = len(blocks) // 2
        self._lists.insert(number + 1, blocks[half:])
        del blocks[half:]
        return (number, place) if place < half else (number + 1, place - half)
