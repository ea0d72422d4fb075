"""The seam below the journal's rules: what every log promises, and the rules over one that has no
files."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from crashing_files import CrashingFiles
from leveret.storage.errors import NoSpaceError
from leveret.storage.journal.discarding import Discarding
from leveret.storage.journal.journal import Found, Journal
from leveret.storage.journal.ledger import RunningLedger
from leveret.storage.journal.log import (
    JournalUnusableError,
    Log,
    LogPositionError,
    Position,
    SegmentBegin,
)
from leveret.storage.journal.records import EntriesRecord, RangesRecord, RemovedRecord
from leveret.storage.journal.segment_header import SegmentEnd
from leveret.storage.journal.segment_log import SegmentLog
from leveret.storage.journal.segment_reader import SegmentReader
from leveret.storage.journal.synced_file import Synced
from memory_log import MemoryLog
from publishes import batch_of

DIRECTORY = "/journal"
DIRECTORY_ID = bytes(range(16))


def segment_log() -> SegmentLog:
    files = CrashingFiles()
    files.make_directory(DIRECTORY)
    discarding = Discarding(files, DIRECTORY, {}, set(), (), ())
    return SegmentLog(files, DIRECTORY, 1 << 20, None, discarding)


@pytest.fixture(params=[segment_log, MemoryLog])
def log(request: pytest.FixtureRequest) -> Log:
    make: Callable[[], Log] = request.param
    return make()


def begin(number: int, header: bytes = b"a header") -> SegmentBegin:
    return SegmentBegin(header, Synced(DIRECTORY_ID, number, len(header), 0, 0, 0))


def test_what_was_appended_is_read_back_from_each_segment(log: Log) -> None:
    log.begin_segment(begin(1))
    assert log.append(Position(1, 8), [b"one ", b"two"]) == 7
    log.begin_segment(begin(2))
    log.append(Position(2, 8), [b"three"])
    log.sync()
    assert log.read(Position(1, 8), 7) == b"one two"
    assert log.read(Position(1, 12), 3) == b"two"
    assert log.read(Position(2, 0), 13) == b"a headerthree"
    assert (log.number, log.synced) == (2, Position(2, 13))


@pytest.mark.parametrize("at", [Position(1, 7), Position(1, 9), Position(2, 8), Position(0, 8)])
def test_an_append_that_is_expected_elsewhere_is_an_error(log: Log, at: Position) -> None:
    log.begin_segment(begin(1))
    with pytest.raises(LogPositionError):
        log.append(at, [b"lost"])
    assert log.read(Position(1, 8), 4).strip(b"\0") == b""


def test_a_dropped_segment_is_gone_and_the_others_stay(log: Log) -> None:
    for number in (1, 2, 3):
        log.begin_segment(begin(number, b"of %d" % number))
    assert log.drop([1, 2]) == []
    with pytest.raises((OSError, KeyError)):
        log.read(Position(1, 0), 4)
    assert log.read(Position(3, 0), 4) == b"of 3"


def test_a_closed_log_refuses_everything(log: Log) -> None:
    log.begin_segment(begin(1))
    log.close(Synced(DIRECTORY_ID, 1, 8, 0, 0, 0))
    with pytest.raises(JournalUnusableError, match="closed"):
        log.append(Position(1, 8), [b"more"])


class Rules:
    """The journal's rules over a log in memory."""

    def __init__(self, segment_bytes_max: int = 1 << 20) -> None:
        self.log = MemoryLog()
        found = Found(DIRECTORY_ID, RunningLedger(), 1, SegmentEnd(0, 0), [], {}, 1, 0)
        self.journal = Journal(self.log, found, segment_bytes_max, lambda: 0, 1)

    def append(self, number: int) -> None:
        batch = batch_of([b"%d" % number * 50], number)
        self.journal.append(1, batch, range(1), range(number, number + 1))

    def records(self, segment: int) -> list[object]:
        data = bytes(self.log.segments[segment])
        reader = SegmentReader(data, segment, DIRECTORY_ID, "")
        records = [record for _, record in reader.records()]
        assert not reader.holes
        return records


def test_rules_one_sync_covers_all_that_was_appended() -> None:
    rules = Rules()
    syncs = rules.log.syncs
    rules.append(1)
    rules.append(2)
    assert rules.journal.commit().synced
    assert rules.log.syncs == syncs + 1
    ids = [list(each.entry_ids) for each in rules.records(1) if isinstance(each, EntriesRecord)]
    assert ids == [[1], [2]]


def test_rules_settles_alone_are_written_and_not_synced() -> None:
    rules = Rules()
    rules.append(1)
    rules.journal.commit()
    syncs = rules.log.syncs
    rules.journal.settle(1, [(1, 1)])
    assert not rules.journal.commit().synced
    assert rules.log.syncs == syncs
    assert RangesRecord in map(type, rules.records(1))


def test_rules_a_segment_is_dropped_when_nothing_needs_it_and_a_record_says_so() -> None:
    rules = Rules(segment_bytes_max=520)
    number = 0
    while len(rules.log.segments) < 3:
        number += 1
        rules.append(number)
        rules.journal.commit()
    rules.journal.settle(1, [(1, number)])
    assert rules.journal.reclaim() == 2
    assert list(rules.log.segments) == [3]
    [removed] = [each for each in rules.records(3) if isinstance(each, RemovedRecord)]
    assert removed.segments == [(1, 2)]


def test_rules_a_commit_without_room_is_taken_back_and_the_log_goes_on_where_it_began() -> None:
    rules = Rules()
    rules.append(1)
    rules.journal.commit()
    before = bytes(rules.log.segments[1])
    rules.log.room = 10
    rules.append(2)
    commit = rules.journal.begin_commit()
    assert commit is not None
    with pytest.raises(NoSpaceError):
        commit.run()
    assert rules.journal.roll_back(commit) == {(1, 2)}
    rules.log.room = 1 << 20
    rules.journal.end_shortage()
    assert bytes(rules.log.segments[1]) == before
    rules.append(3)
    rules.journal.commit()
    ids = [list(each.entry_ids) for each in rules.records(1) if isinstance(each, EntriesRecord)]
    assert ids == [[1], [3]]


def test_rules_a_failed_sync_is_final() -> None:
    rules = Rules()
    rules.append(1)
    rules.log.fault = OSError("the log is ill")
    with pytest.raises(OSError, match="ill"):
        rules.journal.commit()
    with pytest.raises(JournalUnusableError, match="ill"):
        rules.append(2)
