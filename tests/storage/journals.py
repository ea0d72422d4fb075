"""Journals with something in them, and what a start finds there."""

from __future__ import annotations

from typing import NamedTuple

from crashing_files import CrashingFiles
from leveret.storage.journal.journal import Journal
from leveret.storage.journal.opening import open_journal
from leveret.storage.journal.records import (
    COMMIT_BYTES,
    SETTLE,
    BodyRecord,
    EntriesRecord,
    RangesRecord,
)
from leveret.storage.journal.recovery import Recovered
from leveret.storage.journal.report import ReportLine
from leveret.storage.journal.segment_files import segment_path
from leveret.storage.journal.segment_reader import SegmentReader
from publishes import batch_of, kept

DIRECTORY = "/journal"
Contents = dict[tuple[int, int], bytes]


def opened(
    files: CrashingFiles,
    known: set[int] | None = None,
    segment_bytes_max: int = 1 << 20,
    epoch: int | None = None,
) -> tuple[Journal, Recovered]:
    return open_journal(DIRECTORY, files, known or {1, 2}, segment_bytes_max, epoch=epoch)


def contents(recovered: Recovered) -> Contents:
    return {
        (queue_id, run.first_entry_id + position): kept(run.batch, index)
        for queue_id in recovered.queues
        for run in recovered.messages(queue_id)
        for position, index in enumerate(run.indexes)
    }


def started_twice(files: CrashingFiles) -> tuple[Contents, list[ReportLine]]:
    """Start, kill, start: the same is there. What the first start had to say."""
    files.kill()
    _, first = opened(files)
    files.kill()
    _, second = opened(files)
    assert contents(second) == contents(first)
    return contents(first), first.report


def events(report: list[ReportLine]) -> list[str]:
    return [line.event for line in report]


def written_step_by_step(
    is_closed: bool = False,
) -> tuple[CrashingFiles, list[tuple[int, Contents]]]:
    """One segment, and what it held up to the end of each commit but for the record that ends it.

    The last commit is of a settle, and is not synced unless the journal is closed.
    """
    files = CrashingFiles()
    journal, _ = opened(files)
    size = files.size(segment_path(DIRECTORY, 1))
    stages: list[tuple[int, Contents]] = [(size, {})]
    held: Contents = {}
    for number in (1, 2, 3):
        batch = batch_of([b"%d %d" % (number, index) for index in range(3)], number)
        for queue_id in (1, 2):
            # A commit each, so that every stage ends with an entries record.
            journal.append(queue_id, batch, range(3), range(number * 3, number * 3 + 3))
            size += journal.commit().bytes
            held = held | {(queue_id, number * 3 + i): kept(batch, i) for i in range(3)}
            stages.append((size - COMMIT_BYTES, held))
    journal.settle(1, [(3, 7)])
    size += journal.commit().bytes
    held = {key: wire for key, wire in held.items() if key[0] != 1 or key[1] > 7}
    stages.append((size - COMMIT_BYTES, held))
    if is_closed:
        journal.close()
    else:
        files.kill()
        # What the journal has written ahead of itself is for other tests.
        files.truncate(segment_path(DIRECTORY, 1), size)
    assert files.size(segment_path(DIRECTORY, 1)) == size
    return files, stages


class Placed(NamedTuple):
    """A record, where it lies, and of what kind it is: "body 1", "entries 2 of 1", "settle"."""

    start: int
    end: int
    what: str


def records_of(files: CrashingFiles, number: int = 1) -> list[Placed]:
    """The records of a segment."""
    path = segment_path(DIRECTORY, number)
    reader = SegmentReader(bytes(files.names[path].content), number, bytes(16), path)
    offsets, records = zip(*reader.records(), strict=True)
    ends = (*offsets[1:], reader.end)
    return list(map(Placed, offsets, ends, map(_what, records)))


def _what(record: object) -> str:
    if isinstance(record, BodyRecord):
        return f"body {record.batch_number}"
    if isinstance(record, EntriesRecord):
        return f"entries {record.queue_id} of {record.batch_number}"
    if isinstance(record, RangesRecord):
        return "settle" if record.kind == SETTLE else "delivered"
    return type(record).__name__


def held_at(stages: list[tuple[int, Contents]], size: int) -> Contents:
    return [held for end, held in stages if end <= size][-1]


def new_file(files: CrashingFiles, path: str, content: bytes) -> None:
    handle = files.create(path)
    files.write(handle, 0, [content])
    files.sync_data(handle)
    files.close(handle)


def in_three_segments() -> tuple[CrashingFiles, Contents]:
    """Queue 1 with one batch in each of the segments 1 to 3."""
    files = CrashingFiles()
    held: Contents = {}
    for number in (1, 2, 3):
        journal, _ = opened(files)
        batch = batch_of([b"%d" % number * 20], number)
        journal.append(1, batch, range(1), range(number, number + 1))
        journal.commit()
        held[1, number] = kept(batch, 0)
        journal.close()
    return files, held
