"""What recovery makes of torn tails and damaged records. Every start is done twice."""

from __future__ import annotations

import copy
from bisect import bisect_right
from random import Random
from struct import unpack_from
from zlib import crc32

import pytest
from journals import DIRECTORY, events, held_at, opened, started_twice, written_step_by_step
from leveret.storage.recovery import ReportLine
from leveret.storage.segment_files import segment_numbers, segment_path


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
