"""Recovers a journal from its segments after a stop, a kill or a power cut.

`read` reads all segments in order and writes nothing. What does not verify, a hole, is treated by
where it lies:
- below a position that the journal says was synced, it is damage: reported with its place and what
  it cost. Its bytes stay where they are until nothing needs their segment, whose file is then kept
  under another name. Everything before the newest segment was synced.
- above the highest such position, a crash tore it: the records that verify behind it count,
  for a power cut keeps any of the pages that were not synced, and nothing is called damage.
- a newest segment in which nothing verifies, and which the file `synced` does not know yet, was
  being created: it held nothing.

`make_safe` syncs the recovered bytes, so that nothing that a client learns of can be lost any more.
The journal then goes on in a new segment: no record can come to lie behind bytes that do not
verify, and a second start reads what this one read. docs/JOURNAL.md has the rules as a table.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Set
from functools import cached_property, partial
from itertools import pairwise
from sys import maxsize
from typing import Final, NamedTuple

from ..belonging import CatalogClaims, JournalClaims
from ..files import Files
from .background_check import BackgroundCheck
from .clean_reading import CleanReading
from .identity_runs import IdentityRun
from .ledger import EntryIds, EntryRange, RunningLedger, ranges_in
from .loading import Decode, Loading, Losses, MessageRun
from .log import Position
from .presence import Presence
from .records import BodyRecord, CompactedRecord
from .recovered_entries import RecoveredEntries
from .replay import Replay
from .report import Report, ReportLine, described, entries_words
from .segment_facts import SegmentFacts, read_facts
from .segment_header import SegmentEnd, Stretch
from .segment_index import read_index
from .segment_reader import SegmentReader
from .segment_recovery import SegmentRecovery, Tail, tail_of
from .survey import SegmentFile, Survey, errors_named
from .synced_file import Synced, read_synced

# Called with the bytes of segments that are read, and with those of all; they ascend.
OnProgress = Callable[[int, int], None]

# More torn stretches of one segment are remembered as one.
TORN_STRETCHES_MAX: Final = 256


class Recovered(NamedTuple):
    """The contents of the journal: all that its queues still hold."""

    # Per known queue that has entries: these, without bodies.
    queues: dict[int, RecoveredEntries]
    next_batch_number: int
    # Per known queue: above every entry id that the journal speaks of.
    next_entry_ids: dict[int, int]
    report: list[ReportLine]
    # Per queue with a dedup window: what it is to remember, in the order of entry ids.
    identities: dict[int, list[IdentityRun]]
    # The entries of these queues again, with their messages, each with its queue's id, in one
    # reading of the journal and in bounded memory; those of each queue ascend by entry id. For as
    # long as no segment goes.
    messages_of: Callable[[Set[int]], Iterator[tuple[int, MessageRun]]]
    # The findings of that; the report does not have them.
    losses: Losses

    def messages(self, queue_id: int) -> Iterator[MessageRun]:
        """The entries of one queue with their messages, as `messages_of`."""
        for _, run in self.messages_of({queue_id}):
            yield run


class Recovery:
    """One recovery of one directory: `read`, then the attributes, then `make_safe`."""

    def __init__(
        self,
        files: Files,
        directory: str,
        catalog: CatalogClaims,
        decode: Decode,
        may_use_indexes: bool = False,
        on_progress: OnProgress | None = None,
    ) -> None:
        """`may_use_indexes`: read the indexes of segments in place of these.

        Otherwise every record is verified. `on_progress` is called for each piece of a segment; one
        whose index is read counts as read, and so does one that turns out to be gone.
        """
        self._files = files
        self._directory = directory
        self._catalog = catalog
        self._decode = decode
        self._report = Report()
        self._losses = Losses()
        self._replay = Replay(catalog.queue_ids)
        self._may_use_indexes = may_use_indexes
        self._on_progress = on_progress
        # Of segments that are done with.
        self._bytes_read = 0
        # The segments of which only the index was read, in order.
        self.unverified: list[int] = []
        # Of segments that are read before others, for what they say of these.
        self._facts: dict[int, SegmentFacts] = {}
        self._survey = Survey(files, directory, catalog.directory_id, self._report)
        synced, is_half_unreadable, self._is_synced_whole = read_synced(files, directory)
        self._foreign_synced = synced if self._is_foreign(synced) else None
        self._synced = None if self._foreign_synced else synced
        self._presence = Presence(self._survey, self._synced, catalog, self._report)
        if is_half_unreadable:
            self._presence.note_unreadable_slot()
        # The newest segment, and what it says of others.
        self._last = self._presence.numbers[-1] if self._presence.numbers else 0
        self._tail = Tail()
        # Where each segment that was read is cut off, if it is longer.
        self._ends: dict[int, int] = {}
        self.recovered: Recovered
        self.ledger: RunningLedger
        # Per queue the ids of entries whose message is lost.
        self.dropped_entries: dict[int, list[EntryRange]] = {}
        # Names of files to remove, or to set aside, once the journal's next segment is there.
        self.leftovers = self._presence.leftovers
        self.in_the_way = self._presence.in_the_way
        # Segments whose files are kept: something did not verify that had been synced, or may be.
        self.damaged: set[int] = set()
        # What the next segment's header is to say: of the last one, and of what crashes tore.
        self.before = SegmentEnd(0, 0)
        self.torn: list[Stretch] = []
        # The anchors of segments that were rewritten.
        self.compacted: list[CompactedRecord] = []
        # Entries that have ever been appended, as far as it is known.
        self.entries = 0
        # When the last segment was created, and at its end, None if it is not known; and those read
        # in it.
        self._last_at_begin: int | None = 0
        self._last_at_end: int | None = None
        self._last_entries = 0
        self._catalog_change = 0

    def read(self) -> None:
        """Read everything, and find the live entries; nothing is written."""
        presence, replay = self._presence, self._replay
        self._read_tail()
        for number in presence.choose(self._tail):
            self._read_segment(self._survey.segments[number])
        if presence.numbers:
            self._bytes_read = self._bytes_in_all
            self._note_progress(0)
        if presence.is_newest_missing:
            presence.note_newest_missing(self._last_at_end)
        if self._synced is not None:
            self.entries = max(self.entries, self._synced.entries)
        if self._last_at_begin is None:
            # So that nothing that is missing there is counted again.
            self._last_at_begin = max(0, self.entries - self._last_entries)
        self.before = self.before._replace(entries=self._last_at_begin)
        for queue_id, count in sorted(replay.dropped().items()):
            text = f"queue {queue_id} is not in the catalog: {count} entries"
            self._report.note("dropped", text, count)
        self._find_bodies()
        replay.finish()
        self.ledger = replay.ledger
        self.recovered = Recovered(
            replay.entries(),
            replay.next_batch_number,
            replay.next_entry_ids,
            self._report.lines(),
            self.ledger.remembered.lists(),
            self._messages_of,
            self._losses,
        )

    @property
    def next_segment_number(self) -> int:
        """Above every segment number that was ever seen."""
        seen = [self._survey.next_number - 1]
        seen += [synced.segment for synced in (self._synced, self._foreign_synced) if synced]
        return max(seen) + 1

    @property
    def known_before(self) -> Synced | None:
        """The value that `synced` keeps until the next segment is there.

        None if it was missing, and must be missed again should the start not go through.
        """
        if self._synced is None and self._presence.is_first:
            return Synced(self._catalog.directory_id, 0, 0, 0, 0, 0)
        return self._synced

    @property
    def epoch_max(self) -> int:
        """The highest epoch of a segment that is here."""
        return max((header.epoch for header in self._presence.headers()), default=0)

    def journal_claims(self) -> JournalClaims:
        """The journal's claims about the catalog."""
        changes = [header.catalog_change for header in self._presence.headers()]
        changes.append(self._catalog_change)
        if self._synced is not None:
            changes.append(self._synced.catalog_change)
        has_foreign = bool(self._survey.foreign) or self._foreign_synced is not None
        newest = None
        if self._synced is not None and self._is_synced_whole:
            newest = self.next_segment_number - 1
        return JournalClaims(has_foreign, self._replay.queue_id_max, max(changes), newest)

    def unmatched(self) -> str:
        """The messages that a start with this catalog would drop, for the operator."""
        foreign = Replay(frozenset())
        for file in sorted(self._survey.foreign):
            assert file.header is not None
            path = os.path.join(self._directory, file.name)
            with errors_named(path):
                data = self._files.read(path, 0, file.size)
            # What contradicts itself is not counted.
            foreign.apply(read_facts(SegmentReader(data, file.number, b"", file.name)), maxsize)
        unknown, others = self._replay.dropped(), foreign.dropped()
        return (
            f"{unknown.total()} message{'s' * (unknown.total() != 1)} of {len(unknown)} "
            f"queue{'s' * (len(unknown) != 1)} that this catalog does not know "
            f"and {others.total()} of another directory"
        )

    def make_safe(self) -> None:
        """Sync the segments read; cut off what nothing verifies, and was not synced, at the end."""
        for number, end in self._ends.items():
            self._files.truncate(self._path(number), min(end, self._survey.segments[number].size))

    def background_check(self, files: Files) -> BackgroundCheck:
        """The check of the closed segments from now on, by another thread with these files."""
        return BackgroundCheck(
            files,
            self._directory,
            self._catalog.directory_id,
            self.names(),
            self.unverified,
            self.torn,
            self.damaged,
        )

    def _path(self, number: int) -> str:
        """Where the segment lies."""
        return os.path.join(self._directory, self._survey.segments[number].name)

    def names(self) -> dict[int, str]:
        """The file names of the segments that were read."""
        return {number: self._survey.segments[number].name for number in self._ends}

    def _read_bytes(self, number: int, offset: int, length: int) -> bytes:
        path = self._path(number)
        with errors_named(path):
            return self._files.read(path, offset, length)

    def _reader(self, number: int) -> SegmentReader:
        file = self._survey.segments[number]
        data = self._read_bytes(number, 0, file.size)
        return SegmentReader(data, number, self._catalog.directory_id, file.name)

    @cached_property
    def _bytes_in_all(self) -> int:
        """Of the segments that may count."""
        return sum(self._survey.segments[number].size for number in self._presence.numbers)

    def _note_progress(self, bytes_of_segment: int) -> None:
        """So much of the segment that is being read is read."""
        if self._on_progress is not None:
            self._on_progress(self._bytes_read + bytes_of_segment, self._bytes_in_all)

    def _facts_of(self, number: int) -> SegmentFacts:
        facts = self._facts.pop(number, None)
        if facts is None:
            facts = self._read_facts(number)
            self._bytes_read += self._survey.segments[number].size
            self._note_progress(0)
        return facts

    def _read_facts(self, number: int) -> SegmentFacts:
        file = self._survey.segments[number]
        path = self._path(number)
        if self._may_use_indexes:
            facts = read_index(self._files, self._directory, path, file.size, file.header)
            if facts is not None:
                self.unverified.append(number)
                return facts
        clean = CleanReading(partial(self._read_bytes, number), number, file.size, path)
        while clean.step():
            self._note_progress(clean.bytes_read)
        return read_facts(self._reader(number)) if clean.facts is None else clean.facts

    def _is_foreign(self, synced: Synced | None) -> bool:
        return synced is not None and synced.directory_id != self._catalog.directory_id

    def _read_tail(self) -> None:
        """From the newest header on, what records say of segments."""
        presence = self._presence
        for number in presence.numbers:
            if number >= presence.newest_headed:
                facts = self._facts[number] = self._facts_of(number)
                found = tail_of(facts, self._synced, number == self._last)
                removed = self._tail.removed | found.removed
                in_doubt = self._tail.removed_in_doubt | found.removed_in_doubt
                self._tail = found._replace(
                    removed=removed,
                    removed_in_doubt=in_doubt,
                    compacted=self._tail.compacted + found.compacted,
                )

    def _read_segment(self, file: SegmentFile) -> None:
        number = file.number
        facts = self._facts_of(number)
        is_last = number == self._last
        successor = self._presence.successors.get(number)
        accepted = self._presence.torn.get(number, set())
        synced = self._synced
        # The newest segment that is here may end where a missing one began.
        named = (number, number + 1) if is_last else (number,)
        segment = SegmentRecovery(
            facts,
            self._replay,
            self._report,
            self._tail if is_last else None,
            accepted,
            successor,
            synced if synced is not None and synced.segment in named else None,
            [each for each in self._tail.compacted if each.segment == number],
        )
        segment.read()
        if segment.anchor is not None:
            self.compacted.append(segment.anchor)
        self._ends[number] = segment.end
        self._catalog_change = max(self._catalog_change, facts.catalog_change)
        self.entries = max(self.entries, segment.entries or 0)
        if segment.is_damaged or segment.may_hide_records:
            self.damaged.add(number)
        self.torn += _few(sorted(accepted.union(segment.torn)))
        if is_last:
            self._last_at_begin = segment.entries_at_begin
            self._last_at_end = segment.entries
            self._last_entries = facts.entries_read
            self.before = SegmentEnd(number, segment.end, facts.checksum)

    def _find_bodies(self) -> None:
        """Search for bodies that are not where they should be; without them, entries are lost.

        A journal of an earlier version refers to bodies that lie further back.
        """
        replay = self._replay
        live = [(each, parts) for each in replay.bodiless if (parts := replay.live_parts(each))]
        found = self._search({(each.segment, each.reference.batch_number) for each, _ in live})
        lost: dict[tuple[int, int, bool], list[EntryIds]] = defaultdict(list)
        for each, parts in live:
            batch_number = each.reference.batch_number
            place = found.get(batch_number)
            if place is not None and place.segment < each.segment:
                replay.bind(each, place.segment, place.offset)
                continue
            replay.let_go(each)
            self.dropped_entries.setdefault(each.queue_id, []).extend(
                each_range for ids in parts for each_range in ranges_in(ids)
            )
            # What a crash tore is reported at the start after the crash: if it is in the last
            # segment.
            if not each.is_torn or each.segment == self._last:
                lost[each.queue_id, batch_number, each.is_torn] += parts
        for (queue_id, batch_number, is_torn), several in lost.items():
            count = sum(map(len, several))
            name = self._catalog.name_of(queue_id)
            what = f"{entries_words(count)} of {name}, {described(several)}"
            text = f"{what}: no body of batch {batch_number}"
            if is_torn:
                self._report.note("torn", f"{text} was written", count)
            else:
                self._report.note("lost", f"{text} that verifies holds them", count)

    def _search(self, wanted: set[tuple[int, int]]) -> dict[int, Position]:
        """Where the bodies of batches lie, each referred to in a segment, and lie before that.

        A segment's header says which batch numbers may have been used before it, so that a body
        that a crash tore is not searched for.
        """
        found: dict[int, Position] = {}
        numbers = sorted(self._ends)
        for number, after in reversed(list(pairwise(numbers))):
            header = self._survey.segments[after].header
            below = maxsize if header is None else header.next_batch_number
            missing = {
                batch_number
                for segment, batch_number in wanted
                if batch_number < below and number < segment and batch_number not in found
            }
            if missing:
                for offset, record in self._reader(number).records():
                    if isinstance(record, BodyRecord) and record.batch_number in missing:
                        found[record.batch_number] = Position(number, offset)
        return found

    def _messages_of(self, queue_ids: Set[int]) -> Iterator[tuple[int, MessageRun]]:
        loading = Loading(
            self._replay, self._reader, self._decode, self._losses, self._catalog.name_of
        )
        return loading.runs(queue_ids)


def _few(stretches: list[Stretch]) -> list[Stretch]:
    if len(stretches) <= TORN_STRETCHES_MAX:
        return stretches
    segment, start, _ = stretches[0]
    return [Stretch(segment, start, max(stretch.end for stretch in stretches))]
