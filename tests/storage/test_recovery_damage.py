"""Recovery of torn tails and damaged records. Every start is done twice."""

from __future__ import annotations

import copy
from random import Random

import pytest
from crashing_files import CrashingFiles
from journals import (
    DIRECTORY,
    Contents,
    Placed,
    events,
    held_at,
    opened,
    records_of,
    started_twice,
    written_step_by_step,
)
from leveret.storage.journal.records import COMMIT_BYTES, Seal, encode_body, encode_entries
from leveret.storage.journal.report import ReportLine
from leveret.storage.journal.segment_files import segment_numbers, segment_path
from publishes import batch_of

PATH = segment_path(DIRECTORY, 1)
Stages = list[tuple[int, Contents]]


def without(held: Contents, what: str) -> Contents:
    """The entries that remain when the record is lost."""
    if what.startswith("body"):
        batch_number = int(what.split()[1])
        return {key: wire for key, wire in held.items() if key[1] // 3 != batch_number}
    if what.startswith("entries"):
        _, queue_id, _, batch_number = what.split()
        lost = (int(queue_id), int(batch_number))
        return {key: wire for key, wire in held.items() if (key[0], key[1] // 3) != lost}
    return held


def lost_entries(report: list[ReportLine]) -> int:
    return sum(line.entries or 0 for line in report if line.event == "lost")


TAILS = {
    "nothing": lambda count: b"",
    "zeros": bytes,
    "garbage": lambda count: Random(count).randbytes(count),
    "zeros beyond its old size": lambda count: bytes(count + 4096),
}


def cut_at(written: CrashingFiles, cut: int, tail: bytes) -> tuple[CrashingFiles, int]:
    """The segment with another tail from there on; and where it first differs from before."""
    files = copy.deepcopy(written)
    file = files.names[PATH]
    whole = bytes(file.content)
    file.content[cut:] = tail
    file.synced = bytes(file.content)
    both = zip(whole, file.synced, strict=False)
    shorter = min(len(whole), len(file.synced))
    return files, next((at for at, (old, new) in enumerate(both) if old != new), shorter)


@pytest.mark.parametrize("tail", TAILS)
def test_a_tail_torn_at_any_byte_costs_only_what_lay_behind(tail: str) -> None:
    written, stages = written_step_by_step()
    header_bytes, size = records_of(written)[0].start, written.size(PATH)
    ends = [header_bytes, *(placed.end for placed in records_of(written))]
    for cut in range(header_bytes, size + 1, 5):
        files, same = cut_at(written, cut, TAILS[tail](size - cut))
        last_end = max(end for end in ends if end <= same)
        torn = any(files.names[PATH].content[last_end:])
        found, report = started_twice(files)
        assert found == held_at(stages, same), f"cut at byte {cut}"
        # Between two records nothing tells that there ever was more, and zeros are always there.
        assert events(report) == ["truncated"] * torn, f"cut at byte {cut}"


def test_whatever_is_cut_off_after_a_clean_stop_is_damage_and_counted() -> None:
    """Its end was named as synced."""
    written, stages = written_step_by_step(is_closed=True)
    size = written.size(PATH)
    for cut in range(records_of(written)[0].start, size, 9):
        files, _ = cut_at(written, cut, b"")
        found, report = started_twice(files)
        assert found == held_at(stages, cut)
        assert events(report)[0] == "damaged"
        assert "missing" not in events(report)
        assert any(f"it had {size} bytes at least" in line.text for line in report)
        appended = {placed.what for placed in records_of(written) if placed.end > cut}
        lost = 3 * sum(what.startswith("entries") for what in appended)
        assert lost_entries(report) == lost, f"cut at byte {cut}"


def flipped_everywhere(
    written: CrashingFiles, step: int
) -> list[tuple[int, Placed | None, Contents, list[ReportLine]]]:
    """Per offset: the record it lies in, what two starts find, what the first one reports."""
    results = []
    placed = records_of(written)
    for offset in range(0, placed[-1].end, step):
        files = copy.deepcopy(written)
        files.flip(PATH, offset, 1 << offset % 8)
        hit = next((each for each in placed if each.start <= offset < each.end), None)
        results.append((offset, hit, *started_twice(files)))
    return results


def test_a_flipped_bit_below_what_was_synced_costs_its_record_and_is_reported() -> None:
    written, stages = written_step_by_step()
    everything, unsettled = stages[-1][1], stages[-2][1]
    # The commit of the settle says that the one before it was synced.
    synced_end = stages[-2][0] + COMMIT_BYTES
    for offset, hit, found, report in flipped_everywhere(written, 5):
        if hit is None:
            # The header says twice where the records begin, so they are read.
            assert (found, events(report)) == (everything, ["damaged"]), f"byte {offset}"
        elif hit.end <= synced_end:
            assert found == without(everything, hit.what), f"byte {offset}"
            is_lost = hit.what.startswith(("entries", "body"))
            assert set(events(report)) == ({"damaged", "lost"} if is_lost else {"damaged"}), (
                f"byte {offset}"
            )
            # Of batch 1, and half of 2, the entries of queue 1 were settled since.
            live = len(everything) - len(found)
            assert live <= lost_entries(report) <= live + 3 * is_lost
        else:
            # A settle that is lost lets its messages come back.
            assert found == (unsettled if hit.what == "settle" else everything)
            assert set(events(report)) <= {"torn", "truncated"}, f"byte {offset}"


def test_a_flipped_bit_in_an_earlier_segment_costs_its_record_and_is_reported() -> None:
    written, stages = written_step_by_step()
    opened(written)
    written.kill()
    everything, unsettled = stages[-1][1], stages[-2][1]
    for offset, hit, found, report in flipped_everywhere(written, 7):
        assert events(report)[0] == "damaged", f"byte {offset}"
        assert set(events(report)) <= {"damaged", "lost"}
        settled = unsettled if hit is not None and hit.what == "settle" else everything
        assert found == without(settled, hit.what if hit else ""), f"byte {offset}"


def test_damage_is_reported_with_place_claims_and_cost() -> None:
    files, stages = written_step_by_step()
    [entries] = [each for each in records_of(files) if each.what == "entries 2 of 1"]
    files.flip(PATH, entries.end - 1)
    found, report = started_twice(files)
    assert report == [
        ReportLine(
            "damaged",
            f"segment 1 of {files.size(PATH)} bytes: bytes {entries.start} to {entries.end}, that "
            f"claim to be: 3 entries of queue 2, {3 + (1 << 56)} to {5 + (1 << 56)}",
        ),
        ReportLine(
            "lost",
            "3 entries were in what does not verify of segment 1: those that were not settled are "
            "lost",
            3,
        ),
    ]
    assert found == without(stages[-1][1], "entries 2 of 1")


def test_entries_whose_body_is_damaged_are_reported_by_queue_and_id_and_let_go() -> None:
    files, stages = written_step_by_step()
    files.flip(PATH, records_of(files)[0].start + 50)
    found, report = started_twice(files)
    assert report[0].event == "damaged"
    assert report[0].text.endswith("that claim to be: 3 messages of batch 1")
    # Queue 1's were settled since.
    text = "3 entries of queue 2, ids 3 to 5: no body of batch 1 that verifies holds them"
    assert report[1:] == [ReportLine("lost", text, 3)]
    assert found == without(stages[-1][1], "body 1")


def test_records_that_were_cut_out_between_two_others_are_missed() -> None:
    """Every byte that is left verifies; the chain tells."""
    files, stages = written_step_by_step(is_closed=True)
    placed = records_of(files)
    [entries] = [each for each in placed if each.what == "entries 2 of 2"]
    content = files.names[PATH].content
    del content[entries.start : entries.end]
    # So that it has its old length: zeros are nothing that anybody would miss.
    content += bytes(entries.end - entries.start)
    found, report = started_twice(files)
    assert found == without(stages[-1][1], "entries 2 of 2")
    assert f"records are missing before byte {entries.start}" in report[0].text
    assert (events(report)[:2], lost_entries(report)) == (["damaged", "lost"], 3)


def test_a_damaged_segment_that_nothing_needs_is_kept_under_another_name() -> None:
    files, _ = written_step_by_step()
    files.flip(PATH, records_of(files)[0].start + 30)
    damaged = bytes(files.names[PATH].content)
    journal, _ = opened(files)
    journal.settle(1, [(1, 99)])
    journal.settle(2, [(1, 99)])
    journal.commit()
    journal.reclaim()
    assert segment_numbers(files, DIRECTORY) == [2]
    assert bytes(files.names[PATH + ".damaged"].content) == damaged
    assert started_twice(files) == ({}, [])


def test_only_the_newest_damaged_segments_are_kept() -> None:
    files = CrashingFiles()
    for number in range(1, 21):
        files.close(files.create(segment_path(DIRECTORY, 1000 + number) + ".damaged"))
    opened(files)
    kept = sorted(name for name in files.list_directory(DIRECTORY) if name.endswith(".damaged"))
    assert kept == [segment_path("", 1000 + number) + ".damaged" for number in range(5, 21)]


@pytest.mark.parametrize("knows_id", [False, True])
def test_a_record_that_a_client_plants_in_a_body_is_not_read_out_of_a_damaged_one(
    knows_id: bool,
) -> None:
    """Not without the directory's id, which no client sees; with it, it would be."""
    seal = Seal(bytes(16) if knows_id else bytes(15) + b"1", 1, 1, 0)
    fake = b"".join(encode_body(seal, batch_of([b"planted"], 7)))
    fake += encode_entries(seal, 1, 7, range(1), range(500, 501))
    files = CrashingFiles()
    journal, _ = opened(files)
    journal.append(1, batch_of([b"x" * 50 + fake + b"y" * 50], 1), range(1), range(1, 2))
    journal.append(2, batch_of([b"behind"], 2), range(1), range(1, 2))
    journal.commit()
    journal.close()
    # A bit of the body record's length, which then leads nowhere.
    files.flip(PATH, records_of(files)[0].start + 8)
    found, report = started_twice(files)
    assert found.keys() == ({(1, 500), (2, 1)} if knows_id else {(2, 1)})
    assert events(report)[0] == "damaged"
