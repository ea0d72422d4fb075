"""Counts for every segment its live entries, and records which segments its records refer to.

A segment can be removed when
1. no live entry has its body record or its entries record in it, and
2. every segment that its settle and delivered records speak of is gone, or goes with it.
   A settle is live until the entries record it speaks of is gone: without it, a message that was
   settled comes back at the next start. A segment that is rewritten without its dead entries
   (`compaction.py`) needs the settles of these no more, wherever they are.
Identities that queues' windows remember keep no segment with messages: they are few octets, and
are written anew before their segment goes. Only a segment of nothing else may stay for them
(`identity_runs.py`).

The open segment never goes. Counting is done as records are made, block by block; nothing here
reads a segment or touches a file. `journal.py` keeps a ledger while it runs, `replay.py` fills
one from the records at start.

The live entries of a queue are kept as blocks, ascending by entry id. A block is a range of ids, or
an array where the ids have gaps, whose body records lie in one segment and whose entries records
lie in one segment. Blocks that continue each other are joined, so a queue that is filled and
emptied in order costs a block a segment at any depth. Recovery keeps its blocks, which know their
messages too, in the same structure.

A block also knows about where its records lie: a row for each stretch of its segment, so that a
message is found by reading a stretch and not the segment (`locating.py`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Final, Generic, NamedTuple, Self, TypeVar

from .identity_runs import RememberedIdentities

# Ascending entry ids: a range where there are no gaps, else array('Q').
EntryIds = range | array  # type: ignore[type-arg]
# When entries expire, in milliseconds since the epoch, 0 being never: one for all, or each's.
Deadlines = int | array  # type: ignore[type-arg]
# To remove from a list of so many takes a tenth of a microsecond, about as long as to find it.
BLOCKS_PER_LIST_MAX: Final = 512


# The records of the entries of one row of places begin within so many bytes: entries records and
# body records, each by themselves. So much is read at most to find one; and so many bytes of a
# segment with messages of one queue cost a row of 24.
PLACES_STRIDE_BYTES: Final = 256 * 1024
# Notes about entries of so many queues of one segment are told apart at most: 100 octets each.
NOTED_QUEUES_MAX: Final = 1_000
# The numbers of a row: first entry id, offset of a body record, offset of an entries record.
PLACES_WIDTH: Final = 3


class Block:
    """Entries with their body records in one segment and their entries records in one.

    `places` are rows of three numbers, of which the blocks that a block was split into share one
    array: from the entry with the first number on, the body records begin at the second one or up
    to PLACES_STRIDE_BYTES behind it, each in its segment, and the entries records at the third one
    or up to as many bytes behind that. A row may be of entries that are gone.
    """

    __slots__ = ("body_segment", "entries_segment", "entry_ids", "places")

    def __init__(
        self,
        entry_ids: EntryIds,
        body_segment: int,
        entries_segment: int,
        body_offset: int,
        entries_offset: int,
    ) -> None:
        """The offsets are those of the records, each in its segment."""
        self.entry_ids = entry_ids
        self.body_segment = body_segment
        self.entries_segment = entries_segment
        self.places = array("Q", (entry_ids[0], body_offset, entries_offset))

    def split(self, position: int) -> Self:
        """Keep the entries before the position; the others come back as a block of their own."""
        rest = self.__new__(type(self))
        rest.entry_ids = self.entry_ids[position:]
        rest.body_segment = self.body_segment
        rest.entries_segment = self.entries_segment
        rest.places = self.places
        self.entry_ids = self.entry_ids[:position]
        return rest

    def join(self, entry_ids: range, body_offset: int, entries_offset: int) -> None:
        """Entries with the next ids, in records of the same segments that were written later."""
        add_place(self.places, entry_ids[0], body_offset, entries_offset)
        self.entry_ids = range(self.entry_ids[0], entry_ids.stop)

    def body_offset(self, entry_id: int) -> int:
        """Where the body record of this entry begins, or up to PLACES_STRIDE_BYTES before it."""
        places = self.places
        rows = range(0, len(places), PLACES_WIDTH)
        row = rows[bisect_right(rows, entry_id, key=places.__getitem__) - 1]
        return places[row + 1]

    def forget_places_behind(self) -> None:
        """The entries behind this block's were never written, and others take their places."""
        last = self.entry_ids[-1]
        while self.places[-PLACES_WIDTH] > last:
            del self.places[-PLACES_WIDTH:]


class Moved(NamedTuple):
    """Entries whose records have other places now, first and last inclusive."""

    queue_id: int
    first: int
    last: int
    # Of their body record; None: it lies in another segment, where it was.
    body_offset: int | None
    entries_segment: int
    entries_offset: int


def add_place(places: array[int], first: int, body_offset: int, entries_offset: int) -> None:
    """Entries from the first id on have these records, behind those that `places` ends with."""
    # Read in place: a slice is an array of its own, at each append.
    if (
        places
        and 0 <= entries_offset - places[-1] <= PLACES_STRIDE_BYTES
        and 0 <= body_offset - places[-2] <= PLACES_STRIDE_BYTES
    ):
        return
    places.extend((first, body_offset, entries_offset))


BlockType = TypeVar("BlockType", bound=Block)


def _last_id(block: Block) -> int:
    return int(block.entry_ids[-1])


def _last_id_of_all(blocks: list[BlockType]) -> int:
    return int(blocks[-1].entry_ids[-1])


class LiveEntries(Generic[BlockType]):
    """The live entries of one queue: blocks that ascend, do not overlap and are never empty.

    They are iterated over in that order. Entries that are settled one by one in any order leave
    a block for each gap, so to find, split or remove one costs the same among many: blocks are in
    a list of lists, none of them empty or longer than `blocks_per_list_max`.
    """

    __slots__ = ("_blocks_per_list_max", "_lists")

    def __init__(self, blocks_per_list_max: int = BLOCKS_PER_LIST_MAX) -> None:
        self._blocks_per_list_max = blocks_per_list_max
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
        """Take a block as it is; its ids must lie above all present ids."""
        tail = self.tail()
        if tail is not None and tail.entry_ids[-1] >= block.entry_ids[0]:
            msg = f"entry id {block.entry_ids[0]} does not ascend"
            raise ValueError(msg)
        if tail is not None and len(self._lists[-1]) < self._blocks_per_list_max:
            self._lists[-1].append(block)
        else:
            self._lists.append([block])

    def insert(self, block: BlockType) -> None:
        """Take a block as it is; no id may be present from its first to its last."""
        number, place = self._find(block.entry_ids[0])
        if number == len(self._lists):
            self.append(block)
        else:
            self._insert(number, place, block)

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
        lists = self._lists
        start, place = self._find(first)
        # By position, because an iterator would count its way to the place.
        for number in range(start, len(lists)):
            blocks = lists[number]
            for at in range(place, len(blocks)):
                block = blocks[at]
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
        if len(blocks) <= self._blocks_per_list_max:
            return number, place
        half = len(blocks) // 2
        self._lists.insert(number + 1, blocks[half:])
        del blocks[half:]
        return (number, place) if place < half else (number + 1, place - half)


# First and last entry id, both inclusive.
EntryRange = tuple[int, int]


def joined(ranges: Sequence[EntryRange]) -> list[EntryRange]:
    """Ranges, in any order and overlapping, as ascending ones that have gaps between them."""
    found: list[EntryRange] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found


def ranges_in(ids: Sequence[int]) -> list[EntryRange]:
    """Ascending ids, or other numbers, as ranges that have gaps between them."""
    if not ids:
        return []
    first = last = ids[0]
    if ids[-1] - first + 1 == len(ids):
        return [(first, ids[-1])]
    ranges: list[EntryRange] = []
    for each in ids:
        if each > last + 1:
            ranges.append((first, last))
            first = each
        last = each
    ranges.append((first, last))
    return ranges


def ranges_without(
    ranges: Sequence[EntryRange], excluded: Sequence[EntryRange]
) -> Sequence[EntryRange]:
    """The parts of the ranges that are in none of the excluded ranges, which ascend."""
    kept = []
    for first, last in ranges:
        start = first
        position = bisect_left(excluded, start, key=itemgetter(1))
        while position < len(excluded) and excluded[position][0] <= last:
            hole_first, hole_last = excluded[position]
            if start < hole_first:
                kept.append((start, hole_first - 1))
            start = hole_last + 1
            position += 1
        if start <= last:
            kept.append((start, last))
    return kept


@dataclass(slots=True)
class Spoken:
    """Which segments the records of one speak of: those that its settles are about, and its notes.

    A settle is needed for as long as the settled entry is in its segment's file, a note, which is
    a delivered, a deferred or an identities record, for as long as what it is about is needed.

    `notes` has by segment and queue id the lowest and the highest entry id that a note is about;
    None in place of a segment's queues if that is not known.
    """

    settles: set[int] = field(default_factory=set)
    notes: dict[int, dict[int, EntryRange] | None] = field(default_factory=dict)

    def note(self, segment: int, queue_id: int, first: int, last: int) -> None:
        """A note is about these entries of the segment, both ends inclusive."""
        about = self.notes.setdefault(segment, {})
        if about is None:
            return
        known = about.get(queue_id)
        if known is None:
            if len(about) == NOTED_QUEUES_MAX:
                self.notes[segment] = None
                return
            about[queue_id] = first, last
        elif first < known[0] or last > known[1]:
            about[queue_id] = min(first, known[0]), max(last, known[1])

    def note_unknown(self, segments: Iterable[int]) -> None:
        """Notes are about something of these segments."""
        self.notes.update(dict.fromkeys(segments))

    def add(self, other: Spoken) -> None:
        """It speaks of these, too."""
        self.settles |= other.settles
        for segment, about in other.notes.items():
            if about is None:
                self.notes[segment] = None
            else:
                for queue_id, (first, last) in about.items():
                    self.note(segment, queue_id, first, last)

    def keep(self, segments: Container[int]) -> None:
        """It speaks of no others any more."""
        self.settles = {each for each in self.settles if each in segments}
        for each in [each for each in self.notes if each not in segments]:
            del self.notes[each]


class SegmentLedger(Generic[BlockType]):
    """The live entries of every queue, and what each segment is still needed for."""

    def __init__(self) -> None:
        # Identities for dedup windows.
        self.remembered = RememberedIdentities()
        self.queues: dict[int, LiveEntries[BlockType]] = {}
        # Per segment that is there: how many live entries need it, counted once for the entries
        # record and once more for the body record if that lies in another segment.
        self.live: dict[int, int] = {}
        # Per segment: how many entries were ever appended in it, as far as its file still has them.
        self.appended: dict[int, int] = {}
        # Of live entries whose body record lies in another segment: how many, by that segment and
        # the one of the entries record.
        self.elsewhere: dict[tuple[int, int], int] = {}
        # Per segment: what its records say of others.
        self.speaks_of: dict[int, Spoken] = {}
        # Per segment that is being rewritten: those with settles of entries that were live when it
        # began.
        self._settled_since: dict[int, set[int]] = {}
        self.open_segment = 0
        # Has anything happened since the last `removable` that may let a segment go?
        self.may_remove = False

    def open(self, number: int) -> None:
        """From here on, records go to this new segment."""
        self.live[number] = 0
        self.appended[number] = 0
        self.speaks_of[number] = Spoken()
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
        if entries > 0:
            self.appended[entries_segment] += entries
        if not live[entries_segment]:
            self.may_remove = True
        if body_segment != entries_segment:
            live[body_segment] += entries
            pair = body_segment, entries_segment
            self.elsewhere[pair] = self.elsewhere.get(pair, 0) + entries
            if not self.elsewhere[pair]:
                del self.elsewhere[pair]
            if not live[body_segment]:
                self.may_remove = True

    def insert(self, queue_id: int, block: BlockType) -> None:
        """Entries are live whose ids lie anywhere; no id from first to last is live by now."""
        self.queues.setdefault(queue_id, LiveEntries()).insert(block)
        self.count(block.body_segment, block.entries_segment, len(block.entry_ids))

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
                self.speaks_of[self.open_segment].settles.add(block.entries_segment)
                if block.entries_segment in self._settled_since:
                    self._settled_since[block.entries_segment].add(self.open_segment)
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
                segment = block.entries_segment
                # Of itself a segment may say what it likes.
                if segment != self.open_segment:
                    spoken = self.speaks_of[self.open_segment]
                    ids = block.entry_ids
                    spoken.note(segment, queue_id, max(first, ids[0]), min(last, ids[-1]))
        return found

    def withdraw(self, queue_id: int, entry_ids: EntryIds) -> None:
        """These entries, or the live ones among them, were never written."""
        live_entries = self.queues.get(queue_id)
        if live_entries is None:
            return
        for block in live_entries.cut(entry_ids[0], entry_ids[-1]):
            self.count(block.body_segment, block.entries_segment, -len(block.entry_ids))
        tail = live_entries.tail()
        if tail is not None:
            tail.forget_places_behind()

    def roll_back(self, number: int) -> None:
        """Segments behind this one do not come to be, and what they spoke of it will speak of."""
        spoken = self.speaks_of.setdefault(number, Spoken())
        self.live.setdefault(number, 0)
        self.appended.setdefault(number, 0)
        self.remembered.made.pop(number, None)
        for gone in [each for each in self.live if each > number]:
            spoken.add(self.speaks_of.pop(gone))
            del self.live[gone], self.appended[gone]
            self.remembered.made.pop(gone, None)
        # Nor of entries that were gone again already: their numbers are to be used anew.
        spoken.keep(range(number + 1))
        for since in self._settled_since.values():
            if any(each > number for each in since):
                since.add(number)
        self.open_segment = number
        self.may_remove = True

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

    def drop_identities(self, queue_id: int, below: int) -> None:
        """No start remembers an entry with an id below this, says a record in the open segment."""
        self.forget_identities(queue_id, below)
        # Any of them may have identities, also such as the window had forgotten already.
        self.speaks_of[self.open_segment].note_unknown(self.live)

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
            if number in self._settled_since:
                # Its replacement may be about to take its place.
                continue
            if self.remembered.keeps(number):
                continue
            if not self.needs(number).difference(going):
                going.append(number)
        return going

    def needs(self, number: int) -> set[int]:
        """The other segments that are there of which the segment's records speak."""
        spoken = self.speaks_of[number]
        spoken.keep(self.live)
        return (spoken.settles | spoken.notes.keys()) - {number}

    def speak(self, spoken: Spoken) -> None:
        """Records of the open segment say this, or less."""
        self.speaks_of[self.open_segment].add(spoken)
        for number, since in self._settled_since.items():
            if number in spoken.settles:
                since.add(self.open_segment)

    def begin_rewrite(self, number: int) -> None:
        """From here on, it is noted which segments settle entries of this one."""
        self._settled_since[number] = set()

    def end_rewrite(self, number: int) -> None:
        """The segment stays as it was."""
        del self._settled_since[number]
        self.may_remove = True

    def rewritten(self, number: int, spoken: Spoken, entries: int) -> None:
        """The segment has only those entries now that were live when its rewriting began.

        Settles of other entries, wherever they are, are about nothing any more. Neither are notes
        about entries that have died since. `spoken` is what the segment's own records still say.
        """
        since = self._settled_since.pop(number)
        for each, its in self.speaks_of.items():
            if each not in since:
                its.settles.discard(number)
            about = its.notes.get(number)
            if about is not None and not self._has_live(number, about):
                del its.notes[number]
        self.speaks_of[number] = spoken
        self.appended[number] = entries
        self.may_remove = True

    def _has_live(self, number: int, about: Mapping[int, EntryRange]) -> bool:
        """Is an entry of the segment live between the ends of these ranges, by queue id?"""
        return any(
            block.entries_segment == number
            for queue_id, ends in about.items()
            if queue_id in self.queues
            for block in self.queues[queue_id].within(*ends)
        )

    def forget(self, numbers: Iterable[int]) -> dict[int, Spoken]:
        """These segments are gone; returns what each spoke of."""
        spoke_of = {}
        for number in numbers:
            del self.live[number], self.appended[number]
            spoke_of[number] = self.speaks_of.pop(number)
            self.remembered.made.pop(number, None)
        return spoke_of


class RunningLedger(SegmentLedger[Block]):
    """The ledger while the broker runs: an append continues the block before if it can."""

    def extend(
        self,
        queue_id: int,
        entry_ids: EntryIds,
        body_segment: int,
        entries_segment: int,
        body_offset: int,
        entries_offset: int,
    ) -> None:
        """Entries above all others of their queue are live.

        The offsets are those of their body record and of their entries record.
        """
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
                tail.join(entry_ids, body_offset, entries_offset)
                self.count(body_segment, entries_segment, len(entry_ids))
                return
        block = Block(entry_ids, body_segment, entries_segment, body_offset, entries_offset)
        self.append(queue_id, block)

    def move(self, moved: Iterable[Moved]) -> None:
        """The records of these entries lie elsewhere; several of one queue ascend."""
        # Per queue, and segments of body and entries records: the new rows of places.
        places: dict[tuple[int, int, int], array[int]] = {}
        blocks: list[tuple[Block, array[int]]] = []
        for each in moved:
            live_entries = self.queues.get(each.queue_id)
            for block in live_entries.within(each.first, each.last) if live_entries else ():
                if block.entries_segment != each.entries_segment:
                    continue
                first = max(each.first, block.entry_ids[0])
                body_offset = each.body_offset
                if body_offset is None:
                    body_offset = block.body_offset(first)
                key = each.queue_id, block.body_segment, block.entries_segment
                rows = places.setdefault(key, array("Q"))
                add_place(rows, first, body_offset, each.entries_offset)
                blocks.append((block, rows))
        for block, rows in blocks:
            block.places = rows
