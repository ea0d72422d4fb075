"""Reads one segment for its messages, and decides whether each hole in it is a tear or damage.

A crash tears only bytes that were not synced. The journal names positions up to which it was
synced: each commit record that of an earlier commit, the file `synced` that of the newest segment's
header or of a clean stop. Everything before the highest of them counts as having been on the disk,
so a hole below it is damage, and one above it is a tear. A later header names the torn holes that a
start has accepted, so that they do not count as damage when their segment is no longer the newest.

Headers and commit records have the number of entries appended to the journal by then. So the number
of entries in an unreadable stretch is known at the next such mark, whatever was damaged; their
queues are not.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from sys import maxsize
from typing import NamedTuple

from .records import CompactedRecord
from .replay import Replay
from .report import Report, entries_words
from .segment_facts import SegmentFacts
from .segment_header import SegmentEnd, Stretch, numbers_in
from .segment_reader import Hole
from .synced_file import Synced


class Tail(NamedTuple):
    """The newest segment's facts about itself and other segments."""

    # Up to here it was synced; maxsize: all of it, for there was a later one.
    synced_end: int = 0
    # Where the first hole begins that a crash tore.
    torn_from: int = maxsize
    # Segments that are gone, whether their files show or not.
    removed: frozenset[int] = frozenset()
    # Segments that were to go. Their files may be gone; the present ones count.
    removed_in_doubt: frozenset[int] = frozenset()
    # The anchors of segments that were rewritten, whether that is in place or not.
    compacted: tuple[CompactedRecord, ...] = ()


def tail_of(facts: SegmentFacts, synced: Synced | None, is_newest: bool) -> Tail:
    """The segment's facts about segments.

    A record of removal behind a torn hole is in doubt, because the records that made the removal
    possible, settles and identities that were written anew, may have been in the hole. Files are
    removed after the sync that covers both; so if the hole is a crash's, the files are there.
    """
    positions = [] if synced is None else [(synced.segment, synced.end)]
    segment, end = max([*positions, facts.synced])
    if not is_newest or segment > facts.number:
        synced_end = maxsize
    else:
        synced_end = end if segment == facts.number else 0
    torn = (hole.start for hole in facts.holes if 0 < hole.start >= synced_end)
    torn_from = min(torn, default=maxsize)
    sure: set[int] = set()
    in_doubt: set[int] = set()
    for offset, segments in facts.removals:
        (sure if offset < torn_from else in_doubt).update(numbers_in(segments))
    anchors = facts.header.compacted if facts.header is not None else ()
    compacted = (*anchors, *facts.compacted)
    return Tail(synced_end, torn_from, frozenset(sure), frozenset(in_doubt), compacted)


class EntryTally:
    """Follows the reading of one segment; `counted` is how many entries there were by then."""

    def __init__(self, segment_number: int, counted: int | None, report: Report) -> None:
        self._segment_number = segment_number
        self._report = report
        # None: not known, as in segments of earlier formats, which have no marks.
        self.counted = counted
        # The bytes between the last mark and here.
        self._has_damage = False
        self._has_new_tear = False

    def add(self, entries: int) -> None:
        """An entries record was read."""
        if self.counted is not None:
            self.counted += entries

    def pass_damage(self) -> None:
        """Records may be missing here that were on the disk."""
        self._has_damage = True

    def pass_new_tear(self) -> None:
        """Records may be missing here that were being written when a crash came, the last one."""
        self._has_new_tear = True

    def lacks(self, entries: int) -> bool:
        """Had more entries been appended by here than were read, and does no hole explain that?"""
        is_explained = self._has_damage or self._has_new_tear
        return not is_explained and self.counted is not None and self.counted < entries

    def mark(self, entries: int) -> None:
        """So many entries had been appended by here."""
        lost = 0 if self.counted is None else entries - self.counted
        if lost > 0 and self._has_damage:
            where = f"what does not verify of segment {self._segment_number}"
            were = "was" if lost == 1 else "were"
            text = f"{entries_words(lost)} {were} in {where}: those that were not settled are lost"
            self._report.note("lost", text, lost)
        elif lost > 0 and self._has_new_tear:
            were, are = ("was", "is") if lost == 1 else ("were", "are")
            text = f"{entries_words(lost)} that {were} being written {are} not there"
            self._report.note("torn", text, lost)
        self.counted = max(entries, self.counted or 0)
        self._has_damage = self._has_new_tear = False


class Successor(NamedTuple):
    """The facts about this segment in a later segment's header."""

    end: SegmentEnd
    # Entries appended to the journal when the later segment was created.
    entries: int


class SegmentRecovery:
    """One segment: `read`, then the attributes."""

    def __init__(
        self,
        facts: SegmentFacts,
        replay: Replay,
        report: Report,
        tail: Tail | None,
        accepted: Set[Stretch],
        successor: Successor | None,
        synced: Synced | None,
        anchors: Sequence[CompactedRecord],
    ) -> None:
        """`anchors` name what it may be after it was rewritten.

        `accepted` are its torn stretches; `tail` and `synced` are for the newest segment only.

        `synced` names this segment, or the next one if that is missing.
        """
        self._facts = facts
        self._replay = replay
        self._report = report
        self._tail = tail
        self._accepted = accepted
        self._successor = successor
        self._judged = 0
        self._anchors = anchors
        # The one that it is, if it was rewritten.
        self.anchor = self._find_anchor()
        # How many entries had been appended when the segment was created; None: not known.
        self.entries_at_begin = self._find_entries_at_begin(synced)
        self._tally = EntryTally(facts.number, self.entries_at_begin, report)
        self._entries_at_end: int | None = None
        self._is_next_missing = False
        if successor is not None:
            self._entries_at_end = successor.entries
        elif synced is not None:
            is_here = synced.segment == facts.number
            self._is_next_missing = not is_here
            self._entries_at_end = synced.entries if is_here else synced.entries_at_begin
        self.is_damaged = False
        # Stretches that a crash tore, found at this start.
        self.torn: list[Stretch] = []
        # Where the segment ends: behind this nothing verifies, and nothing was synced.
        self.end = 0

    @property
    def entries(self) -> int | None:
        """How many entries had been appended at its end; None: not known."""
        return self._tally.counted

    @property
    def may_hide_records(self) -> bool:
        """Are there bytes that nobody can read on behind?

        In an earlier format they are, behind a length that does not lead to a record.
        """
        facts = self._facts
        return any(not hole.is_bounded for hole in facts.holes) and not facts.ends_in_zeros

    def _find_anchor(self) -> CompactedRecord | None:
        """Before and after a crash, a segment and its replacement may each be in place."""
        header, size = self._facts.header, self._facts.size
        if header is not None:
            found = [each for each in self._anchors if each.rewritten == header.rewritten]
        else:
            # Of a damaged one its size may tell; before, it was as large as the next one says.
            found = [each for each in self._anchors if each.end == size]
            if not found and (self._successor is None or size < self._successor.end.end):
                found = list(self._anchors)
        return found[-1] if found else None

    def _find_entries_at_begin(self, synced: Synced | None) -> int | None:
        facts = self._facts
        if not facts.is_sealed:
            return None
        if self.anchor is not None:
            # So many less than there were, that it is all there at its end.
            known = self._successor
            return None if known is None else known.entries - self.anchor.entries
        if facts.header is not None:
            return facts.header.entries
        if self._successor is not None:
            return self._successor.end.entries
        if synced is not None and synced.segment == facts.number:
            return synced.entries_at_begin
        return None

    def read(self) -> None:
        """Replay what verifies, report what does not."""
        facts, tally = self._facts, self._tally
        contradictions = self._replay.apply(facts, self._torn_from())
        for passage in facts.passages:
            self._judge_holes(passage.holes)
            tally.add(passage.entries)
            tally.mark(passage.counted)
        self._judge_holes(len(facts.holes))
        tally.add(facts.entries_behind)
        for offset, text in contradictions:
            self._judge(Hole(offset, offset, [f"contradiction: {text}"]))
        self._judge_end()
        if self._entries_at_end is not None and facts.is_sealed:
            if self._is_next_missing and tally.lacks(self._entries_at_end):
                # Cut off at the end of a record, so that no hole shows it.
                self._note("records are missing at its end")
            tally.mark(self._entries_at_end)

    def _synced_end(self) -> int:
        return maxsize if self._tail is None else self._tail.synced_end

    def _torn_from(self) -> int:
        if self._tail is not None:
            return self._tail.torn_from
        return min((stretch.start for stretch in self._accepted), default=maxsize)

    def _judge_holes(self, end: int) -> None:
        for hole in self._facts.holes[self._judged : end]:
            self._judge(hole)
        self._judged = end

    def _judge(self, hole: Hole) -> None:
        if any(each.start <= hole.start and hole.end <= each.end for each in self._accepted):
            # Accepted, and reported, by the start after the crash.
            return
        # The header is synced before anything follows it.
        if hole.start == 0 or hole.start < self._synced_end():
            self._note_damage(hole)
            return
        facts = self._facts
        is_end = hole.end == facts.size and hole.end > hole.start
        if is_end and facts.ends_in_zeros:
            # What the journal itself writes ahead.
            return
        where = f"segment {facts.number} at byte {hole.start}: {hole.end - hole.start} bytes"
        what = f"that were being written{_claimed(hole)}"
        self._tally.pass_new_tear()
        if is_end and hole.is_bounded:
            self._report.note("truncated", f"{where} behind the last record that verifies, {what}")
        else:
            self.torn.append(Stretch(facts.number, hole.start, hole.end))
            self._report.note("torn", f"{where} do not verify, {what}")

    def _note_damage(self, hole: Hole) -> None:
        if hole.start == hole.end and not hole.claims:
            self._note(f"records are missing before byte {hole.start}")
            return
        cost = "" if hole.is_bounded else ", and all that was behind it in this segment"
        self._note(f"bytes {hole.start} to {hole.end}{_claimed(hole)}{cost}")

    def _note(self, what: str) -> None:
        self.is_damaged = True
        self._tally.pass_damage()
        facts = self._facts
        self._report.note("damaged", f"segment {facts.number} of {facts.size} bytes: {what}")

    def _judge_end(self) -> None:
        """Is all there that was synced?"""
        facts, known = self._facts, self._successor
        synced_end = self._synced_end()
        known_end = known.end if known else SegmentEnd(0, 0)
        if self.anchor is not None:
            # A successor was created behind the segment as it was before.
            known_end = known_end._replace(end=self.anchor.end, checksum=self.anchor.checksum)
        elif facts.header is not None and facts.header.rewritten:
            self._note("no record says that it was rewritten")
            known_end = SegmentEnd(0, 0)
        end = known_end.end if synced_end == maxsize or self.anchor else synced_end
        if facts.size < end:
            self._note(f"it had {end} bytes at least")
        elif end and facts.end == end and known_end.checksum not in (0, facts.checksum):
            self._note("its last record is not the one that was there")
        # Nothing below the synced position is cut off, whether it verifies or not. Nor what may
        # hide records.
        is_cut = self._tail is not None and not self.may_hide_records
        self.end = max(facts.end, end) if is_cut else facts.size


def _claimed(hole: Hole) -> str:
    return ", that claim to be: " + "; ".join(hole.claims) if hole.claims else ""
