"""The trace's files: bounded, rotated, and found again."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from leveret.logs.reading.reader import TraceFilesError, read_trace, trace_files
from leveret.logs.reading.tail import TraceTail
from leveret.logs.trace.trace import TraceFilter
from trace_by_hand import begun, trace_to, traced, write_waiting


def test_files_end_at_their_size_are_compressed_and_the_oldest_go(tmp_path: Path) -> None:
    trace, files = begun(tmp_path, file_bytes_max=4_096, files_max=3)
    for number in range(10):
        for place in range(100):
            trace.write("test.event", "queue", batch=number, messages=[[place, place]])
        assert write_waiting(trace)
    files.start()
    trace.close()
    (plain,) = tmp_path.glob("*.jsonl")
    packed = list(tmp_path.glob("*.gz"))
    assert len(packed) == 3
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in (plain, *packed))
    batches = [line["batch"] for line in read_trace(trace_files([tmp_path])) if "batch" in line]
    assert sorted(set(batches)) == [7, 8, 9]
    assert batches == sorted(batches)


def test_a_file_ends_at_its_age_though_nothing_is_added_to_it(tmp_path: Path) -> None:
    now = 0.0
    trace, files = begun(tmp_path, file_age_seconds_max=60, clock=lambda: now)
    trace.write("test.event", "queue")
    assert write_waiting(trace)
    now = 59.0
    assert not files.end_if_over()
    now = 60.0
    assert files.end_if_over()
    assert [path.suffix for path in tmp_path.glob("trace-*")] == [".gz"]
    trace.write("test.event", "queue")
    assert write_waiting(trace)
    trace.close()
    assert sorted(path.suffix for path in tmp_path.glob("trace-*")) == [".gz", ".jsonl"]


def test_what_a_killed_broker_left_is_compressed_and_half_compressed_files_go(
    tmp_path: Path,
) -> None:
    left = tmp_path / "trace-20260101T000000000000-before-000001.jsonl"
    left.write_text('{"t_ns":1,"event":"x","boot":"before"}\n{"torn')
    (tmp_path / "trace-20250101T000000000000-before-000001.jsonl.packing").write_bytes(b"\x1f")
    trace = trace_to(tmp_path)
    trace.start(TraceFilter(), "test")
    trace.close()
    [gone, new] = sorted(tmp_path.iterdir())
    assert gone.name == left.name + ".gz"
    assert new.suffix == ".jsonl"
    boots = [line["boot"] for line in read_trace(trace_files([tmp_path]))]
    assert boots == ["before", "boot", "boot"]


def test_a_clock_that_was_set_back_puts_no_file_before_older_ones(tmp_path: Path) -> None:
    before = tmp_path / "trace-29990101T000000999999-before-000001.jsonl"
    before.write_text('{"t_ns":1,"event":"x","boot":"before"}\n')
    tail = TraceTail(tmp_path)
    trace = trace_to(tmp_path)
    trace.start(TraceFilter(), "test")
    trace.close()
    assert [path.name[:27] for path in trace_files([tmp_path])][1] == "trace-29990101T000001000000"
    assert [b'"boot":"boot"' in line for line in tail.lines()] == [True, True]
    tail.close()


def test_a_file_that_somebody_removes_is_begun_anew(tmp_path: Path) -> None:
    directory = tmp_path / "traces"
    trace, _ = begun(directory)
    for number in range(3):
        trace.write("test.event", "queue", batch=number)
        assert write_waiting(trace)
        if number < 2:
            for path in directory.glob("trace-*"):
                path.unlink()
        if number == 1:
            (directory / "ring").unlink()
            directory.rmdir()
    assert [line["batch"] for line in traced(directory)] == [2]
    trace.close()


def test_switching_off_and_on_leaves_no_more_files_than_are_kept(tmp_path: Path) -> None:
    trace = trace_to(tmp_path, files_max=3)
    for _ in range(10):
        trace.start(TraceFilter(), "test")
        trace.close()
    assert len(list(tmp_path.iterdir())) == 4


def test_events_that_find_the_ring_full_are_dropped_and_reported_at_their_place(
    tmp_path: Path,
) -> None:
    trace, files = begun(tmp_path, ring_bytes=1_000)
    for number in range(20):
        trace.write("test.event", "queue", batch=number)
    dropped = trace.loss.count
    assert 0 < dropped < 20
    assert write_waiting(trace)
    for number in range(20, 23):
        trace.write("test.event", "queue", batch=number)
    files.start()
    trace.close()
    batches = [line.get("batch", "lost") for line in traced(tmp_path)]
    kept = 20 - dropped
    assert batches == [*range(kept), "lost", *range(20, 23), "lost"][: len(batches)]
    assert [line["dropped"] for line in traced(tmp_path) if "dropped" in line] == [dropped]


def test_a_loss_is_told_of_though_nothing_comes_behind_it(tmp_path: Path) -> None:
    trace, _ = begun(tmp_path, ring_bytes=1_000)
    for number in range(20):
        trace.write("test.event", "queue", batch=number)
    trace.is_on = False
    assert write_waiting(trace)
    assert traced(tmp_path)[-1]["dropped"] == trace.loss.count
    trace.close()


def test_a_file_behind_the_first_says_what_is_traced_and_what_was_lost_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, files = begun(tmp_path, ring_bytes=4_096, file_bytes_max=2_000, files_max=1)
    monkeypatch.setattr(files, "start", lambda: None)
    trace.start(TraceFilter(7, frozenset(["orders"]), frozenset(["ann"])), "test")
    for number in range(100):
        trace.write("test.event", "queue", batch=number)
        if number > 80:
            assert write_waiting(trace)
    trace.close()
    heads = [next(read_trace([path])) for path in sorted(tmp_path.glob("trace-*"))]
    assert len(heads) == 2
    for head in heads:
        assert head["event"] == "trace.continued"
        assert (head["one_of"], head["queues"], head["users"]) == (7, ["orders"], ["ann"])
    # Told of behind the first event of the former, so before those of the latter.
    assert [head["dropped"] for head in heads] == [0, trace.loss.count]
    assert trace.loss.count > 0


def test_commands_on_a_directory_without_a_trace_say_how_to_start_one(
    tmp_path: Path,
) -> None:
    with pytest.raises(TraceFilesError) as missing:
        trace_files([tmp_path / "traces"])
    said = f"there is no trace {tmp_path / 'traces'}; `leveret trace on` begins one"
    assert str(missing.value) == said
