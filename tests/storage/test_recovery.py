"""Recovery of segments that come, go and are missing. Every start is done twice."""

from __future__ import annotations

from random import Random
from struct import pack
from zlib import crc32

import pytest
from crashing_files import CrashingFiles
from journals import (
    DIRECTORY,
    contents,
    in_three_segments,
    opened,
    started_twice,
)
from leveret.storage.journal.report import ReportLine
from leveret.storage.journal.segment_files import segment_numbers, segment_path
from leveret.storage.journal.segment_header import MAGIC, JournalVersionError
from publishes import batch_of


def test_a_segment_missing_in_the_middle_is_reported() -> None:
    files, held = in_three_segments()
    files.remove(segment_path(DIRECTORY, 2))
    found, report = started_twice(files)
    assert report == [
        ReportLine("missing", "segment 2 is missing, with all that was in it", 1),
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


def test_zeros_written_ahead_are_no_torn_tail() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    journal.append(1, batch_of([b"a"], 1), range(1), range(1, 2))
    written = journal.commit().bytes
    assert files.size(segment_path(DIRECTORY, 1)) > written + 100_000
    found, report = started_twice(files)
    assert (found.keys(), report) == ({(1, 1)}, [])
    assert files.size(segment_path(DIRECTORY, 1)) < written + 200


def test_a_segment_of_a_newer_format_stops_the_start() -> None:
    files, _ = in_three_segments()
    prefix = pack("<8sII", MAGIC, 8, 500)
    path = segment_path(DIRECTORY, 2)
    files.names[path].content[:20] = prefix + pack("<I", crc32(prefix))
    with pytest.raises(JournalVersionError) as caught:
        opened(files)
    assert str(caught.value) == (
        f"journal segment {path} has format version 8; this broker reads versions 1 to 7"
    )


def test_recovery_syncs_what_it_accepts_before_it_returns() -> None:
    """Unsynced bytes of a killed broker may be in the page cache only."""
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
    del before[f"{DIRECTORY}/synced"]
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
    text = "queue 1 is not in the catalog: 3 entries"
    assert recovered.report == [ReportLine("dropped", text, 3)]
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
