"""What recovery makes of torn, damaged and missing segments. Every start is done twice."""

from __future__ import annotations

import copy
from bisect import bisect_right
from random import Random
from struct import pack, unpack_from
from zlib import crc32

import pytest
from crashing_files import CrashingFiles
from leveret.storage.journal import Journal
from leveret.storage.recovery import Recovered, ReportLine
from leveret.storage.segment_files import (
    MAGIC,
    JournalVersionError,
    encode_header,
    segment_numbers,
    segment_path,
)
from publishes import batch_of, message

DIRECTORY = "/journal"
Contents = dict[tuple[int, int], bytes]


def opened(
    files: CrashingFiles, known: set[int] | None = None, segment_bytes_max: int = 1 << 20
) -> tuple[Journal, Recovered]:
    return Journal.open(DIRECTORY, files, known or {1, 2}, segment_bytes_max)


def contents(recovered: Recovered) -> Contents:
    return {
        (queue_id, run.first_entry_id + position): message(run.batch, index)
        for queue_id, runs in recovered.queues.items()
        for run in runs
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


def written_step_by_step() -> tuple[CrashingFiles, list[tuple[int, Contents]]]:
    """One segment, and what it held at each size that it had between two commits."""
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
            held = held | {(queue_id, number * 3 + i): message(batch, i) for i in range(3)}
            stages.append((size, held))
    journal.settle(1, [(3, 7)])
    size += journal.commit().bytes
    held = {key: wire for key, wire in held.items() if key[0] != 1 or key[1] > 7}
    stages.append((size, held))
    journal.close()
    assert files.size(segment_path(DIRECTORY, 1)) == size
    return files, stages


def held_at(stages: list[tuple[int, Contents]], size: int) -> Contents:
    return [held for end, held in stages if end <= size][-1]


def written_behind(content: bytes) -> bytes:
    """What follows the last of the records whose lengths and checksums are right."""
    at = 20
    while at + 8 < len(content):
        length, crc = unpack_from("<II", content, at)
        covered = content[at + 8 : at + 8 + length]
        if not length or len(covered) < length or crc32(covered, 1) != crc:
            break
        at += 8 + length
    return content[at:]


def new_file(files: CrashingFiles, path: str, content: bytes) -> None:
    handle = files.create(path)
    files.write(handle, 0, [content])
    files.sync_data(handle)
    files.close(handle)


TAILS = {
    "nothing": lambda count: b"",
    "zeros": bytes,
    "garbage": lambda count: Random(count).randbytes(count),
    "zeros beyond its old size": lambda count: bytes(count + 4096),
}


@pytest.mark.parametrize("tail", TAILS)
def test_a_tail_torn_at_any_byte_costs_only_what_lay_behind(tail: str) -> None:
    written, stages = written_step_by_step()
    path = segment_path(DIRECTORY, 1)
    header_bytes, size = stages[0][0], stages[-1][0]
    for cut in range(header_bytes, size + 1):
        files = copy.deepcopy(written)
        file = files.names[path]
        whole = bytes(file.content)
        file.content[cut:] = TAILS[tail](size - cut)
        file.synced = bytes(file.content)
        # A tail of zeros that was one before is no change.
        both = zip(whole, file.synced, strict=False)
        common = min(size, len(file.synced))
        same = next((at for at, (old, new) in enumerate(both) if old != new), common)
        torn = any(written_behind(file.synced))
        found, report = started_twice(files)
        assert found == held_at(stages, same), f"cut at byte {cut}"
        # Between two records nothing tells that there ever was more, and zeros are always there.
        assert events(report) == ["truncated"] * torn


def test_a_flipped_bit_anywhere_in_the_last_segment_costs_only_what_lay_behind() -> None:
    written, stages = written_step_by_step()
    path = segment_path(DIRECTORY, 1)
    header_bytes = stages[0][0]
    for offset in range(stages[-1][0]):
        files = copy.deepcopy(written)
        files.flip(path, offset, 1 << offset % 8)
        found, report = started_twice(files)
        if offset < header_bytes:
            # The header says twice where the records begin, so they are read.
            assert found == stages[-1][1], f"byte {offset}"
            assert events(report) == ["damaged"]
        else:
            assert found == held_at(stages, offset), f"byte {offset}"
            assert events(report) == ["truncated"]


def test_a_flipped_bit_in_an_earlier_segment_costs_its_record_and_is_reported() -> None:
    written, stages = written_step_by_step()
    opened(written)
    written.kill()
    path = segment_path(DIRECTORY, 1)
    content = bytes(written.names[path].content)
    everything, unsettled = stages[-1][1], stages[-2][1]
    # Per record: where it begins and ends. Each batch has a body and two entries records.
    starts = [stages[0][0]]
    while starts[-1] < len(content):
        starts.append(starts[-1] + 8 + int.from_bytes(content[starts[-1] :][:4], "little"))
    for offset in range(len(content)):
        files = copy.deepcopy(written)
        files.flip(path, offset, 1 << offset % 8)
        found, report = started_twice(files)
        assert events(report)[0] == "damaged", f"byte {offset}"
        assert set(events(report)) <= {"damaged", "lost"}
        # Nothing is made up; what was settled comes back if it is the settle that is lost.
        assert found.items() <= unsettled.items(), f"byte {offset}"
        record = bisect_right(starts, offset) - 1
        lost = {entry_id for _, entry_id in everything.keys() - found.keys()}
        if record < 0:
            assert lost == set(), f"byte {offset}"
        elif offset - starts[record] >= 4:
            assert lost <= {entry_id for entry_id in range(12) if entry_id // 3 == record // 3 + 1}
        else:
            # A length that leads nowhere costs the rest of the segment, but nothing before.
            assert lost <= set(range(record // 3 * 3 + 3, 12)), f"byte {offset}"


def test_damage_is_reported_with_place_and_cost() -> None:
    files, stages = written_step_by_step()
    opened(files)
    files.kill()
    path = segment_path(DIRECTORY, 1)
    first_entries_end = stages[1][0]
    second_entries_end = stages[2][0]
    files.flip(path, second_entries_end - 1)
    found, report = started_twice(files)
    assert report == [
        ReportLine(
            "damaged",
            f"segment 1, bytes {first_entries_end} to {second_entries_end} of {stages[-1][0]}, "
            "that claim to be: 3 entries of queue 2",
        )
    ]
    assert found == {
        key: wire for key, wire in stages[-1][1].items() if key not in [(2, 3), (2, 4), (2, 5)]
    }


def test_entries_whose_body_is_damaged_are_reported_and_let_go() -> None:
    files, stages = written_step_by_step()
    opened(files)
    files.kill()
    files.flip(segment_path(DIRECTORY, 1), stages[0][0] + 40)
    found, report = started_twice(files)
    assert report[0].event == "damaged"
    assert report[0].text.endswith("that claim to be: 3 messages of batch 1")
    # Queue 1's were settled since.
    assert report[1:] == [
        ReportLine("lost", "3 entries of queue 2: no body of batch 1 that verifies holds them")
    ]
    assert found.keys() == {(1, 8), *((q, i) for q in (1, 2) for i in range(6, 12))} - {
        (1, 6),
        (1, 7),
    }


def test_a_damaged_segment_that_nothing_needs_is_kept_under_another_name() -> None:
    files, stages = written_step_by_step()
    opened(files)
    files.kill()
    files.flip(segment_path(DIRECTORY, 1), stages[1][0] + 20)
    journal, _ = opened(files)
    journal.settle(1, [(1, 99)])
    journal.settle(2, [(1, 99)])
    journal.commit()
    journal.reclaim()
    assert segment_numbers(files, DIRECTORY) == [3]
    assert segment_path(DIRECTORY, 1) + ".damaged" in files.names
    assert segment_path(DIRECTORY, 2) + ".damaged" not in files.names


def in_three_segments() -> tuple[CrashingFiles, Contents]:
    """Queue 1 with one batch in each of the segments 1 to 3."""
    files = CrashingFiles()
    held: Contents = {}
    for number in (1, 2, 3):
        journal, _ = opened(files)
        batch = batch_of([b"%d" % number * 20], number)
        journal.append(1, batch, range(1), range(number, number + 1))
        journal.commit()
        held[1, number] = message(batch, 0)
        journal.close()
    return files, held


def test_a_segment_missing_in_the_middle_is_reported() -> None:
    files, held = in_three_segments()
    files.remove(segment_path(DIRECTORY, 2))
    found, report = started_twice(files)
    assert report == [
        ReportLine("missing", "segment 2 is missing, with all that was in it"),
    ]
    assert found == {key: wire for key, wire in held.items() if key != (1, 2)}


def test_a_segment_that_was_removed_is_not_missing() -> None:
    files, held = in_three_segments()
    journal, _ = opened(files)
    journal.settle(1, [(2, 2)])
    journal.commit()
    assert journal.reclaim() == 1
    del held[1, 2]
    assert segment_numbers(files, DIRECTORY) == [1, 3, 4]
    assert started_twice(files) == (held, [])


def test_a_removed_segment_that_a_crash_brings_back_stays_removed() -> None:
    files, held = in_three_segments()
    path = segment_path(DIRECTORY, 2)
    old = files.names[path]
    journal, _ = opened(files)
    journal.settle(1, [(2, 2)])
    journal.commit()
    journal.reclaim()
    files.names[path] = old
    del held[1, 2]
    assert started_twice(files) == (held, [])
    assert path not in files.names


def test_the_settles_of_a_segment_outlive_their_own_segment_s_entries() -> None:
    """A settle is live until the entry that it speaks of is gone."""
    files, held = in_three_segments()
    journal, _ = opened(files, segment_bytes_max=300)
    # Entry 2 shares its segment with nothing, entry 1's is kept by another queue.
    batch = batch_of([b"x" * 200], 9)
    journal.append(2, batch, range(1), range(1, 2))
    journal.settle(1, [(3, 3)])
    journal.append(2, batch_of([b"y" * 200], 10), range(1), range(2, 3))
    journal.commit()
    journal.settle(2, [(1, 2)])
    journal.commit()
    journal.reclaim()
    found, report = started_twice(files)
    assert (found, report) == ({key: held[key] for key in ((1, 1), (1, 2))}, [])


def test_an_empty_last_segment_is_put_aside() -> None:
    for size in (0, 1, 19, 20, 30):
        files, held = in_three_segments()
        path = segment_path(DIRECTORY, 4)
        new_file(files, path, encode_header(4, 4, [(1, 4)])[:size])
        assert started_twice(files) == (held, []), f"{size} bytes"
        assert path not in files.names


def test_a_last_segment_of_zeros_is_put_aside() -> None:
    files, held = in_three_segments()
    new_file(files, segment_path(DIRECTORY, 4), bytes(1 << 16))
    assert started_twice(files) == (held, [])


def test_zeros_written_ahead_are_no_torn_tail() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    journal.append(1, batch_of([b"a"], 1), range(1), range(1, 2))
    written = journal.commit().bytes
    assert files.size(segment_path(DIRECTORY, 1)) > written + 100_000
    found, report = started_twice(files)
    assert (found.keys(), report) == ({(1, 1)}, [])
    assert files.size(segment_path(DIRECTORY, 1)) < written + 100


def test_a_segment_of_a_newer_format_stops_the_start() -> None:
    files, _ = in_three_segments()
    prefix = pack("<8sII", MAGIC, 2, 500)
    files.names[segment_path(DIRECTORY, 2)].content[:20] = prefix + pack("<I", crc32(prefix))
    with pytest.raises(JournalVersionError) as caught:
        opened(files)
    assert str(caught.value) == (
        "journal segment 2 has format version 2; this broker reads version 1"
    )


def test_recovery_syncs_what_it_accepts_before_it_returns() -> None:
    """What a killed broker wrote and did not sync may be in the page cache only."""
    files = CrashingFiles()
    journal, _ = opened(files)
    journal.append(1, batch_of([b"a", b"b"], 1), range(2), range(1, 3))
    journal.commit()
    journal.settle(1, [(1, 1)])
    journal.commit()
    files.kill()
    _, recovered = opened(files)
    assert contents(recovered).keys() == {(1, 2)}
    files.cut_power(Random(1))
    _, recovered = opened(files)
    assert contents(recovered).keys() == {(1, 2)}


def test_nothing_is_appended_to_a_segment_that_was_recovered() -> None:
    files = CrashingFiles()
    opened(files)
    files.kill()
    before = {name: bytes(file.content) for name, file in files.names.items()}
    journal, _ = opened(files)
    journal.append(1, batch_of([b"a"], 1), range(1), range(1, 2))
    journal.commit()
    for name, content in before.items():
        assert name not in files.names or bytes(files.names[name].content) == content


def test_a_crash_between_starts_without_traffic_leaves_one_segment() -> None:
    files = CrashingFiles()
    for _ in range(5):
        opened(files)
        assert len(segment_numbers(files, DIRECTORY)) == 1
        files.kill()


def test_space_of_dropped_queues_is_reclaimed_at_the_start() -> None:
    files, _ = in_three_segments()
    journal, recovered = opened(files, known={2})
    assert recovered.queues == {}
    assert recovered.report == [ReportLine("dropped", "queue 1 is not in the catalog: 3 entries")]
    assert segment_numbers(files, DIRECTORY) == [4]
    assert journal.commit().records == 0


def test_other_files_in_the_directory_are_left_alone() -> None:
    files, held = in_three_segments()
    for name in ("notes.txt", "1.journal", segment_path("", 2) + ".damaged"):
        files.close(files.create(f"{DIRECTORY}/{name}"))
    assert started_twice(files) == (held, [])
    assert f"{DIRECTORY}/notes.txt" in files.names


def test_batch_numbers_outlive_the_segments_that_they_were_used_in() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    journal.append(1, batch_of([b"a"], 41), range(1), range(1, 2))
    journal.settle(1, [(1, 1)])
    journal.commit()
    for _ in range(3):
        files.kill()
        _, recovered = opened(files)
        assert recovered.next_batch_number == 42


def test_entry_ids_go_on_above_all_that_records_speak_of() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    journal.append(1, batch_of([b"a"], 1), range(1), range(1, 2))
    # The ids up to 9 were transient messages'.
    journal.settle(1, [(1, 9)])
    journal.append(2, batch_of([b"keeps the segment"], 2), range(1), range(1, 2))
    journal.commit()
    files.kill()
    assert opened(files)[1].next_entry_ids == {1: 10, 2: 2}
