"""Torn tails and damage in segments of earlier formats. Every start is done twice."""

from __future__ import annotations

import copy
from bisect import bisect_right
from random import Random

import pytest
from crashing_files import CrashingFiles
from earlier_segments import written_step_by_step
from journals import DIRECTORY, Contents, events, held_at, opened, started_twice
from leveret.storage.journal.report import ReportLine
from leveret.storage.journal.segment_files import segment_numbers, segment_path
from leveret.storage.journal.segment_header import FORMAT_VERSION, decode_prefix

PATH = segment_path(DIRECTORY, 1)


def no_longer_newest() -> tuple[CrashingFiles, list[tuple[int, Contents]]]:
    """The same when a broker of this version has begun a segment behind it."""
    files, stages = written_step_by_step(3)
    opened(files)
    files.kill()
    return files, stages


def record_starts(files: CrashingFiles) -> list[int]:
    """Where the records begin, and the end. Each batch has a body and two entries records."""
    content = bytes(files.names[PATH].content)
    starts = [20 + 8 + int.from_bytes(content[20:24], "little")]
    while starts[-1] < len(content):
        starts.append(starts[-1] + 8 + int.from_bytes(content[starts[-1] :][:4], "little"))
    return starts


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_segment_of_an_earlier_version_is_read_and_none_of_it_is_written(version: int) -> None:
    files, stages = written_step_by_step(version)
    assert started_twice(files) == (stages[-1][1], [])
    versions = {
        number: decode_prefix(files.read(segment_path(DIRECTORY, number), 0, 20), "").version  # type: ignore[union-attr]
        for number in segment_numbers(files, DIRECTORY)
    }
    assert versions == {1: version, 3: FORMAT_VERSION}


def test_a_tail_torn_at_any_byte_costs_only_what_lay_behind_and_is_no_damage() -> None:
    written, stages = written_step_by_step(3)
    for cut in range(stages[0][0], stages[-1][0] + 1, 7):
        files = copy.deepcopy(written)
        file = files.names[PATH]
        file.content[cut:] = Random(cut).randbytes(stages[-1][0] - cut)
        file.synced = bytes(file.content)
        found, report = started_twice(files)
        assert found == held_at(stages, cut), f"cut at byte {cut}"
        assert set(events(report)) <= {"truncated", "torn"}


def test_a_flipped_bit_in_the_newest_costs_its_record_or_is_kept_with_what_is_behind() -> None:
    written, stages = written_step_by_step(3)
    header_bytes = stages[0][0]
    starts = record_starts(written)
    everything, unsettled = stages[-1][1], stages[-2][1]
    for offset in range(0, stages[-1][0], 7):
        files = copy.deepcopy(written)
        files.flip(PATH, offset, 1 << offset % 8)
        found, report = started_twice(files)
        if offset < header_bytes:
            # The header says twice where the records begin, so they are read.
            assert found == stages[-1][1], f"byte {offset}"
            assert events(report) == ["damaged"]
            continue
        assert set(events(report)) <= {"truncated", "torn"}
        assert report, f"byte {offset}"
        position = bisect_right(starts, offset) - 1
        if offset - starts[position] >= 4:
            # Nothing is made up; what was settled comes back if it is the settle that is lost.
            assert found.items() <= unsettled.items(), f"byte {offset}"
            lost = {entry_id // 3 - 1 for _, entry_id in everything.keys() - found.keys()}
            assert lost <= {position // 3}, f"byte {offset}"
        else:
            # Nobody can tell where the next record begins: the bytes stay for a person to look at.
            assert found.items() >= held_at(stages, offset).items() & everything.items()
            [kept] = {PATH, PATH + ".damaged"} & files.names.keys()
            assert len(files.names[kept].content) == stages[-1][0], f"byte {offset}"


def test_a_flipped_bit_in_an_earlier_segment_costs_its_record_and_is_reported() -> None:
    written, stages = no_longer_newest()
    content = bytes(written.names[PATH].content)
    everything, unsettled = stages[-1][1], stages[-2][1]
    starts = record_starts(written)
    for offset in range(0, len(content), 7):
        files = copy.deepcopy(written)
        files.flip(PATH, offset, 1 << offset % 8)
        found, report = started_twice(files)
        assert events(report)[0] == "damaged", f"byte {offset}"
        assert set(events(report)) <= {"damaged", "lost"}
        # Nothing is made up; what was settled comes back if it is the settle that is lost.
        assert found.items() <= unsettled.items(), f"byte {offset}"
        position = bisect_right(starts, offset) - 1
        lost = {entry_id for _, entry_id in everything.keys() - found.keys()}
        if position < 0:
            assert lost == set(), f"byte {offset}"
        elif offset - starts[position] >= 4:
            batch_number = position // 3 + 1
            assert lost <= {entry_id for entry_id in range(12) if entry_id // 3 == batch_number}
        else:
            # A length that leads nowhere costs the rest of the segment, but nothing before.
            assert lost <= set(range(position // 3 * 3 + 3, 12)), f"byte {offset}"


def test_damage_is_reported_with_place_and_what_it_claims_to_be() -> None:
    files, stages = no_longer_newest()
    first_entries_end, second_entries_end = stages[1][0], stages[2][0]
    files.flip(PATH, second_entries_end - 8)
    found, report = started_twice(files)
    assert report == [
        ReportLine(
            "damaged",
            f"segment 1 of {stages[-1][0]} bytes: bytes {first_entries_end} to "
            f"{second_entries_end}, that claim to be: 3 entries of queue 2, 2 to 4",
        )
    ]
    lost = [(2, 3), (2, 4), (2, 5)]
    assert found == {key: wire for key, wire in stages[-1][1].items() if key not in lost}


def test_a_newest_segment_of_zeros_is_damage_if_it_is_longer_than_a_header() -> None:
    """Its header was synced before any record followed."""
    for size, expected in ((100, []), (700_000, ["damaged"])):
        files, stages = written_step_by_step(3)
        path = segment_path(DIRECTORY, 2)
        files.close(files.create(path))
        files.names[path].content[:] = bytes(size)
        found, report = started_twice(files)
        assert found == stages[-1][1]
        assert events(report) == expected
        assert path not in files.names
        assert bytes(files.names[path + ".damaged"].content) == bytes(size)
