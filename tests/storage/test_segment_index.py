"""Indexes of segments: a start with any of them, or with bad ones, finds what one without finds."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from crashing_files import CrashingFiles
from examples import examples
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from journals import DIRECTORY, new_file, opened
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.storage.belonging import CatalogClaims
from leveret.storage.journal.journal import COMPACTION_RULES
from leveret.storage.journal.opening import begin_journal
from leveret.storage.journal.recovery import Recovery
from leveret.storage.journal.segment_facts import read_facts
from leveret.storage.journal.segment_files import segment_numbers, segment_path
from leveret.storage.journal.segment_index import (
    encode_index,
    index_path,
    may_be_indexed,
    write_index,
)
from leveret.storage.journal.segment_reader import SegmentReader
from segments_at_random import KNOWN, SEGMENT_BYTES_MAX, Writer, written_at_random

# A failure names its seed; a shorter history than that of the seed is not searched for.
SEEDS = st.integers(0, 2**32)
SETTINGS = settings(max_examples=examples(30), deadline=None, phases=[Phase.generate])


def read(files: CrashingFiles, may_use_indexes: bool = True) -> Recovery:
    claims = CatalogClaims(KNOWN, directory_id=bytes(16))
    recovery = Recovery(files, DIRECTORY, claims, decode_publishes, may_use_indexes)
    recovery.read()
    return recovery


def everything(recovery: Recovery) -> dict[str, Any]:
    """All that a recovery says, comparable."""
    ledger, recovered = recovery.ledger, recovery.recovered
    return {
        "entries": {queue_id: list(runs) for queue_id, runs in recovered.queues.items()},
        "numbers": (recovered.next_batch_number, recovered.next_entry_ids, recovery.entries),
        "report": recovered.report,
        "identities": {
            queue_id: [
                (run.segment, run.first_entry_id, run.last_entry_id, run.until_ms, run.identities)
                for run in runs
            ]
            for queue_id, runs in recovered.identities.items()
        },
        "blocks": {
            queue_id: [
                (list(each.entry_ids), each.body_segment, each.entries_segment, list(each.places))
                for each in live
            ]
            for queue_id, live in ledger.queues.items()
        },
        "segments": (ledger.live, ledger.speaks_of, ledger.remembered.bytes_in),
        "end": (recovery.before, recovery.torn, recovery.damaged, recovery.dropped_entries),
        "claims": (recovery.journal_claims(), recovery.next_segment_number, recovery.names()),
        "messages": [
            (queue_id, run.first_entry_id, run.attempts, list(run.indexes), bytes(run.batch.wire))
            for queue_id, run in recovered.messages_of(recovered.queues.keys())
        ],
    }


def write_indexes(files: CrashingFiles, directory_id: bytes = bytes(16)) -> list[int]:
    """Write an index for each segment that can have one."""
    written = []
    for number in segment_numbers(files, DIRECTORY):
        path = segment_path(DIRECTORY, number)
        reader = SegmentReader(files.read(path, 0, files.size(path)), number, directory_id, path)
        facts = read_facts(reader)
        if may_be_indexed(facts):
            write_index(files, DIRECTORY, facts)
            written.append(number)
    return written


def spoil(files: CrashingFiles, number: int, others: dict[int, bytes], random: Random) -> None:
    """Damage the index of the segment, or let it be another's, or a stale one."""
    path = index_path(DIRECTORY, number)
    content = bytes(files.names[path].content)
    what = random.randrange(6)
    files.remove(path)
    if what == 0:
        return
    if what == 1:
        content = content[: random.randrange(len(content))]
    elif what == 2:
        at = random.randrange(len(content))
        flipped = content[at] ^ (1 << random.randrange(8))
        content = content[:at] + bytes([flipped]) + content[at + 1 :]
    elif what == 3:
        content = others[random.choice(list(others))]
    else:
        data = bytes(files.names[segment_path(DIRECTORY, number)].content)
        reader = SegmentReader(data, number, bytes(16), path)
        offsets = [offset for offset, _ in reader.records()]
        if what == 4:
            # Of the same segment before its last records were written.
            reader = SegmentReader(data[: random.choice(offsets)], number, bytes(16), path)
        facts = read_facts(reader)
        assert facts.header is not None
        if what == 5:
            # Of another directory, or of an earlier broker's segment of that number.
            other = {"directory_id": random.randbytes(16)} if random.randrange(2) else {"epoch": 99}
            facts.header = facts.header._replace(**other)
        content = encode_index(facts)
    new_file(files, path, content)


@SETTINGS
@given(SEEDS)
def test_a_start_with_indexes_finds_what_one_without_finds(seed: int) -> None:
    random = Random(seed)
    files = written_at_random(random)
    wanted = everything(read(files, may_use_indexes=False))
    written = write_indexes(files)
    recovery = read(files)
    assert everything(recovery) == wanted
    assert sorted(recovery.unverified) == [
        number for number in written if number in recovery.names()
    ]


@SETTINGS
@given(SEEDS)
def test_bad_stale_and_missing_indexes_change_nothing(seed: int) -> None:
    random = Random(seed)
    files = written_at_random(random)
    wanted = everything(read(files, may_use_indexes=False))
    written = write_indexes(files)
    others = {each: bytes(files.names[index_path(DIRECTORY, each)].content) for each in written}
    for number in written:
        if random.randrange(2):
            spoil(files, number, others, random)
    assert everything(read(files)) == wanted


@SETTINGS
@given(SEEDS)
def test_a_segment_that_was_cut_or_changed_at_its_end_is_read_itself(seed: int) -> None:
    random = Random(seed)
    files = written_at_random(random)
    written = write_indexes(files)
    if not written:
        return
    number = random.choice(written)
    file = files.names[segment_path(DIRECTORY, number)]
    if random.randrange(2):
        del file.content[len(file.content) - random.randint(1, 20) :]
    else:
        file.content[-random.randint(1, 20)] ^= 1 << random.randrange(8)
    file.synced = bytes(file.content)
    wanted = everything(read(files, may_use_indexes=False))
    recovery = read(files)
    assert everything(recovery) == wanted
    assert number not in recovery.unverified


def in_segments() -> tuple[CrashingFiles, list[int]]:
    writer = Writer(Random(7))
    for _ in range(60):
        writer.step()
    writer.journal.close()
    return writer.files, write_indexes(writer.files)


@SETTINGS
@given(SEEDS)
def test_what_a_start_reads_by_an_index_is_on_the_disk_before_it_goes_on(seed: int) -> None:
    """Of a directory that was copied, nothing may be on the disk yet."""
    files, _ = in_segments()
    for file in files.names.values():
        file.synced = b""
    files.synced_names.clear()
    wanted = everything(read(files, may_use_indexes=False))["messages"]
    recovery = read(files)
    assert wanted
    assert recovery.unverified
    epoch = recovery.epoch_max + 1
    begin_journal(
        DIRECTORY,
        files,
        SEGMENT_BYTES_MAX,
        recovery,
        bytes(16),
        lambda: 0,
        epoch,
        COMPACTION_RULES,
    )
    files.cut_power(Random(seed))
    found = read(files)
    assert everything(found)["messages"] == wanted
    assert found.recovered.report == recovery.recovered.report


def test_an_index_goes_with_its_segment_and_a_stray_one_at_the_start() -> None:
    files, written = in_segments()
    new_file(files, index_path(DIRECTORY, 99_999), b"of a segment that is not here")
    new_file(files, index_path(DIRECTORY, written[0]) + ".new", b"half of one")
    journal, recovered = opened(files, KNOWN | {3}, SEGMENT_BYTES_MAX)
    for queue_id, runs in recovered.queues.items():
        for run in runs:
            journal.settle(queue_id, [(run.first_entry_id, run.first_entry_id + run.entries - 1)])
    journal.reclaim()
    there = segment_numbers(files, DIRECTORY)
    assert set(written) - set(there)
    indexes = {name for name in files.names if ".index" in name}
    assert indexes == {index_path(DIRECTORY, each) for each in written if each in there}


def test_no_index_is_written_of_a_segment_with_a_hole() -> None:
    files, written = in_segments()
    path = segment_path(DIRECTORY, written[0])
    content = bytes(files.names[path].content)
    reader = SegmentReader(content, written[0], bytes(16), path)
    offsets = [offset for offset, _ in reader.records()]
    at = offsets[len(offsets) // 2]
    data = content[: at + 8] + bytes([content[at + 8] ^ 1]) + content[at + 9 :]
    facts = read_facts(SegmentReader(data, written[0], bytes(16), path))
    assert facts.holes
    assert not may_be_indexed(facts)


@pytest.mark.parametrize("error", [PermissionError, FileNotFoundError])
def test_an_index_that_cannot_be_read_costs_time_only(error: type[OSError]) -> None:
    files, _ = in_segments()
    files.kill()
    wanted = everything(read(files, may_use_indexes=False))

    def refused(path: str, *rest: int) -> bytes:
        if path.endswith(".index"):
            raise error(path)
        return usual(path, *rest)

    usual, files.read = files.read, refused  # type: ignore[method-assign]
    assert everything(read(files)) == wanted
