"""Segments that are gone, misnamed or empty, and how that is noticed. Every start is done twice."""

from __future__ import annotations

import pytest
from crashing_files import CrashingFiles
from journals import (
    DIRECTORY,
    contents,
    events,
    in_three_segments,
    new_file,
    opened,
    records_of,
    started_twice,
)
from leveret.storage.journal.report import ReportLine
from leveret.storage.journal.segment_files import segment_numbers, segment_path
from leveret.storage.journal.segment_header import SegmentHeader, encode_header
from publishes import batch_of, kept


def test_a_segment_that_was_being_created_held_nothing() -> None:
    """It has a number that `synced` does not know yet; what bytes it has are kept."""
    header, _ = encode_header(SegmentHeader(4, 4, [(1, 4)], bytes(16), 4))
    for content in (b"", header[:1], header[:20], header[:60], bytes(1 << 16)):
        files, held = in_three_segments()
        path = segment_path(DIRECTORY, 4)
        new_file(files, path, content)
        assert started_twice(files) == (held, []), f"{len(content)} bytes"
        assert path not in files.names
        kept = files.names.get(path + ".damaged")
        assert (bytes(kept.content) if kept else b"") == content


@pytest.mark.parametrize("content", [None, b"", bytes(300), bytes(1 << 16)])
def test_a_newest_segment_that_is_gone_is_reported_with_what_was_in_it(
    content: bytes | None,
) -> None:
    files, held = in_three_segments()
    path = segment_path(DIRECTORY, 3)
    if content is None:
        files.remove(path)
    else:
        files.names[path].content[:] = content
    found, report = started_twice(files)
    del held[1, 3]
    assert found == held
    if content is None:
        words = "segment 3, the newest, is missing, with all that was written since it was created"
        assert report == [ReportLine("missing", words, 1)]
    else:
        assert events(report)[0] == "damaged"
        assert events(report)[-1] == "lost"
        assert sum(line.entries or 0 for line in report) == 1
        assert bytes(files.names[path + ".damaged"].content) == content


def test_a_newest_segment_that_goes_while_nobody_stopped_the_broker_is_reported() -> None:
    """How many entries it had nobody knows; that it was there its file `synced` says."""
    files, held = in_three_segments()
    journal, _ = opened(files)
    journal.append(1, batch_of([b"4"], 4), range(1), range(4, 5))
    journal.commit()
    files.kill()
    files.remove(segment_path(DIRECTORY, 4))
    found, report = started_twice(files)
    assert found == held
    assert [(line.event, line.entries) for line in report] == [("missing", None)]
    # Its number is not used again.
    assert segment_numbers(files, DIRECTORY)[-1] == 6


def test_all_segments_up_to_the_newest_that_is_missing_are_reported() -> None:
    """How many entries were in the last is known, and so how many in all between it and the end."""
    for is_whole in (True, False):
        files, held = in_three_segments()
        if not is_whole:
            files.flip(segment_path(DIRECTORY, 1), records_of(files, 1)[-2].start + 30)
            held.pop((1, 1))
        for number in (2, 3):
            files.remove(segment_path(DIRECTORY, number))
            del held[1, number]
        found, report = started_twice(files)
        assert found == held
        missing = [(line.text, line.entries) for line in report if line.event == "missing"]
        words = "segment 2 is missing, too, with all that was written there, unless nothing needed"
        assert missing[0][0].startswith(words)
        assert missing[0][1] == 1
        assert missing[1][0].startswith("segment 3, the newest, is missing")
        assert missing[1][1] == 1
        assert len(missing) == 2
        assert sum(line.entries or 0 for line in report) == 3 - is_whole


def test_missing_segments_whose_entries_cannot_be_counted_are_reported() -> None:
    files, _ = in_three_segments()
    for number in (1, 2, 3):
        files.remove(segment_path(DIRECTORY, number))
    found, report = started_twice(files)
    assert found == {}
    assert [line.event for line in report] == ["missing", "missing"]
    assert report[0].text.startswith("segments 1 to 2 are missing, too")
    assert "not known" in report[0].text
    assert report[0].entries is None


def test_what_is_gone_at_the_end_before_a_missing_segment_is_counted() -> None:
    """The file `synced` says how many entries there were when the missing segment was created."""
    for damage in ("flipped", "cut off"):
        files, held = in_three_segments()
        path = segment_path(DIRECTORY, 2)
        commit, entries, body = reversed(records_of(files, 2)[-3:])
        assert (commit.what, entries.what) == ("CommitRecord", "entries 1 of 2")
        if damage == "flipped":
            files.flip(path, entries.start + 30)
            files.flip(path, commit.start + 30)
        else:
            del files.names[path].content[body.start :]
        files.remove(segment_path(DIRECTORY, 3))
        found, report = started_twice(files)
        assert found == {(1, 1): held[1, 1]}
        assert set(events(report)) == {"damaged", "lost", "missing"}, damage
        assert sum(line.entries or 0 for line in report) == 2, damage


def test_segments_whose_names_were_changed_are_read_as_what_they_are() -> None:
    files, held = in_three_segments()
    names = files.names
    first, third = segment_path(DIRECTORY, 1), segment_path(DIRECTORY, 3)
    names[first], names[third] = names[third], names[first]
    found, report = started_twice(files)
    assert found == held
    assert {line.event for line in report} == {"damaged"}
    assert len(report) == 2
    # And go as what they are.
    journal, _ = opened(files)
    journal.settle(1, [(1, 1)])
    journal.commit()
    assert journal.reclaim() == 1
    assert third not in names
    del held[1, 1]
    assert started_twice(files)[0] == held


def test_a_segment_that_lies_over_another_one_costs_that_one() -> None:
    files, held = in_three_segments()
    names = files.names
    names[segment_path(DIRECTORY, 2)].content[:] = names[segment_path(DIRECTORY, 1)].content
    found, report = started_twice(files)
    del held[1, 2]
    assert found == held
    assert [(line.event, line.entries) for line in report] == [("damaged", None), ("missing", 1)]
    assert segment_path(DIRECTORY, 2) + ".damaged" in names


def test_a_swapped_segment_with_a_damaged_header_is_found_by_its_records() -> None:
    files, held = in_three_segments()
    names = files.names
    first, third = segment_path(DIRECTORY, 1), segment_path(DIRECTORY, 3)
    names[first], names[third] = names[third], names[first]
    files.flip(first, 60)
    found, report = started_twice(files)
    assert found == held
    assert set(events(report)) == {"damaged"}


def test_a_file_synced_that_is_gone_or_damaged_is_reported_once() -> None:
    for content in (None, b"", bytes(5000), b"x" * 5000):
        files, held = in_three_segments()
        if content is None:
            files.remove(f"{DIRECTORY}/synced")
        else:
            files.names[f"{DIRECTORY}/synced"].content[:] = content
        found, report = started_twice(files)
        assert (found, events(report)) == (held, ["damaged"])
        assert "`synced`" in report[0].text
        assert started_twice(files) == (held, [])


@pytest.mark.parametrize("is_missing", [False, True])
def test_half_of_synced_that_does_not_verify_leaves_a_missing_segment_in_doubt(
    is_missing: bool,
) -> None:
    files, held = in_three_segments()
    journal, _ = opened(files)
    batch = batch_of([b"in segment 4"], 4)
    journal.append(1, batch, range(1), range(4, 5))
    journal.commit()
    files.kill()
    # The slot that names segment 4.
    files.names[f"{DIRECTORY}/synced"].content[4096 + 30] ^= 1
    if is_missing:
        files.remove(segment_path(DIRECTORY, 4))
    found, report = started_twice(files)
    assert held.items() <= found.items()
    assert len(found) == 3 + (not is_missing)
    words = (
        "half of the file `synced` does not verify: nobody can tell whether a segment above 3 "
        "is missing"
    )
    assert report == [ReportLine("torn", words)] * is_missing
    assert started_twice(files) == (found, [])


def test_entries_before_a_segment_whose_beginning_is_not_known_are_not_counted_as_lost() -> None:
    """Neither its header nor its commit record says how many entries there were."""
    files, held = in_three_segments()
    journal, _ = opened(files)
    batch = batch_of([b"in segment 4"], 4)
    journal.append(1, batch, range(1), range(4, 5))
    journal.commit()
    files.kill()
    files.remove(f"{DIRECTORY}/synced")
    commit = records_of(files, 4)[-1]
    assert commit.what == "CommitRecord"
    for at in (60, commit.start + 30):
        files.names[segment_path(DIRECTORY, 4)].content[at] ^= 1
    for _ in range(3):
        _, recovered = opened(files)
        assert contents(recovered) == held | {(1, 4): kept(batch, 0)}
        assert not any(line.entries for line in recovered.report)
        files.kill()


def test_an_old_record_that_the_disk_still_has_at_its_place_is_not_read() -> None:
    """Of a segment of the same number, that a crash undid before its name was on the disk."""
    files = CrashingFiles()
    journal, _ = opened(files)
    for number in (1, 2):
        journal.append(1, batch_of([b"old"], number), range(1), range(number, number + 1))
        journal.commit()
    files.kill()
    old = bytes(files.names[segment_path(DIRECTORY, 1)].content)
    new = CrashingFiles()
    journal, _ = opened(new, epoch=2)
    journal.append(1, batch_of([b"new"], 1), range(1), range(1, 2))
    journal.commit()
    new.kill()
    end = records_of(new)[-1].end
    new.names[segment_path(DIRECTORY, 1)].content[end : len(old)] = old[end:]
    found, report = started_twice(new)
    assert found.keys() == {(1, 1)}
    assert b"new\xce" in found[1, 1]
    assert events(report) == ["truncated"]


def test_a_number_that_is_too_large_is_that_of_no_segment() -> None:
    """Of a file with a header the name does not matter."""
    files, held = in_three_segments()
    stranger = segment_path(DIRECTORY, 10**18 + 1)
    new_file(files, stranger, b"not ours")
    files.rename(segment_path(DIRECTORY, 2), segment_path(DIRECTORY, 10**20 - 1))
    # Another one's header is damaged, so it is tried as what it may be.
    files.flip(segment_path(DIRECTORY, 3), 60)
    found, report = started_twice(files)
    assert found == held
    assert events(report) == ["ignored", "damaged", "damaged"]
    assert stranger in files.names
    assert segment_numbers(files, DIRECTORY)[-3] == 5
