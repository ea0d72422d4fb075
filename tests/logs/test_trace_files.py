"""The trace's files: bounded, rotated, and no burden when the disk fails."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
from leveret.logs import trace_files as module
from leveret.logs.configure import service_log
from leveret.logs.trace import PLACE_RANGES_MAX, Trace, TraceError, TraceFilter
from leveret.logs.trace_files import TraceFiles
from leveret.logs.trace_loss import LOSS_LOG_SECONDS_MIN, TraceLoss
from leveret.logs.trace_reader import TraceFilesError, read_trace, trace_files
from leveret.logs.trace_tail import TraceTail


def trace_to(directory: Path, buffer_events_max: int = 100_000, **limits: int) -> Trace:
    trace = Trace("boot", buffer_events_max)
    chosen = {"file_bytes_max": 1 << 20, "file_age_seconds_max": 1_000, "files_max": 3} | limits
    log = structlog.get_logger("test")
    trace.sink = TraceFiles(trace, directory, log, **chosen)
    return trace


def test_files_end_at_their_size_are_compressed_and_the_oldest_go(tmp_path: Path) -> None:
    trace = trace_to(tmp_path, file_bytes_max=4_096, files_max=3)
    assert isinstance(trace.sink, TraceFiles)
    trace.is_on = True
    for number in range(10):
        for place in range(100):
            trace.write("message.persisted", "queue", batch=number, messages=[[place, place]])
        trace.sink._write_block()
    trace.sink.start()
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
    trace = Trace("boot", 100)
    log = structlog.get_logger("test")
    files = TraceFiles(trace, tmp_path, log, 1 << 20, 60, 3, clock=lambda: now)
    trace.is_on = True
    trace.write("message.persisted", "queue")
    files._write_block()
    now = 59.0
    assert not files._is_over()
    now = 60.0
    assert files._is_over()
    files._end_file()
    assert [path.suffix for path in tmp_path.iterdir()] == [".gz"]
    trace.write("message.persisted", "queue")
    files._write_block()
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".gz", ".jsonl"]


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
    trace = trace_to(directory)
    assert isinstance(trace.sink, TraceFiles)
    directory.mkdir()
    trace.is_on = True
    for number in range(3):
        trace.write("message.persisted", "queue", batch=number)
        assert trace.sink._write_waiting()
        if number < 2:
            [path] = directory.iterdir()
            path.unlink()
        if number == 1:
            directory.rmdir()
    assert [line["batch"] for line in read_trace(trace_files([directory]))] == [2]
    trace.sink._close()


def test_switching_off_and_on_leaves_no_more_files_than_are_kept(tmp_path: Path) -> None:
    trace = trace_to(tmp_path, files_max=3)
    for _ in range(10):
        trace.start(TraceFilter(), "test")
        trace.close()
    assert len(list(tmp_path.iterdir())) == 4


def test_what_finds_the_buffer_full_is_dropped_and_told_of(tmp_path: Path) -> None:
    trace = trace_to(tmp_path, buffer_events_max=5)
    trace.is_on = True
    for _ in range(12):
        trace.write("message.persisted", "queue")
    assert (len(trace.entries), trace.loss.count) == (5, 7)
    assert trace.sink is not None
    trace.sink.start()
    trace.close()
    lines = list(read_trace(trace_files([tmp_path])))
    assert sum(line.get("dropped", 0) for line in lines) == trace.loss.count
    assert [line["event"] for line in lines].count("message.persisted") == 5


class FillingFile(io.FileIO):
    """A file on a disk that has room for so many bytes, and takes a part of what is too much."""

    room = 0

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        if not FillingFile.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        part = data[: FillingFile.room]
        FillingFile.room -= len(part)
        return super().write(part)


@pytest.fixture
def disk_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    monkeypatch.setattr(module, "create_file", lambda path: FillingFile(path, "a"))

    def has_room(room: int) -> None:
        FillingFile.room = room

    return has_room


def test_a_full_disk_tears_no_line_and_costs_nothing_while_the_buffer_has_room(
    tmp_path: Path, disk_with: Callable[[int], None]
) -> None:
    trace = trace_to(tmp_path, buffer_events_max=20)
    files = trace.sink
    assert isinstance(files, TraceFiles)
    log = io.StringIO()
    files._log = service_log(form="json", stream=log)
    trace.is_on = True
    for number in range(10):
        trace.write("message.persisted", "queue", batch=number)
    disk_with(150)
    assert not files._write_waiting()
    assert trace.error == "[Errno 28] No space left on device"
    assert (len(trace.entries), trace.loss.count) == (10, 0)
    for number in range(10, 25):
        trace.write("message.persisted", "queue", batch=number)
    assert (len(trace.entries), trace.loss.count) == (20, 5)
    assert not files._write_waiting()
    disk_with(1 << 20)
    assert files._write_waiting()
    assert trace.error == ""
    files._close()
    lines = list(read_trace(trace_files([tmp_path]), on_bad_line=lambda *_at: pytest.fail("torn")))
    assert [line["batch"] for line in lines[:-1]] == list(range(20))
    assert (lines[-1]["event"], lines[-1]["dropped"]) == ("trace.lost", 5)
    assert len(list(tmp_path.iterdir())) == 1
    said = [
        line.partition('"event": "')[2].partition('"')[0] for line in log.getvalue().split("\n")
    ]
    assert said == ["trace.failed", "trace.resumed", ""]


def test_a_node_that_ends_on_a_full_disk_counts_what_it_could_not_write(
    tmp_path: Path, disk_with: Callable[[int], None]
) -> None:
    disk_with(0)
    trace = trace_to(tmp_path)
    trace.start(TraceFilter(), "test")
    trace.write("message.persisted", "queue")
    trace.close()
    # It began, one message went on, it ended.
    assert (len(trace.entries), trace.loss.count) == (0, 3)


def test_a_stalled_disk_holds_nobody_and_what_it_takes_later_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(module, "create_file", lambda _path: io.FileIO(writing, "w"))
    trace = trace_to(tmp_path, buffer_events_max=1_000)
    trace.start(TraceFilter(), "test")
    number = 0
    # A pipe takes 64 KiB; each of these is about 100 bytes.
    while trace.loss.count < 100:
        number += 1
        trace.write("message.persisted", "queue", batch=number)
    assert len(trace.entries) <= 1_000
    trace.is_on = False
    with open(reading, "rb") as file:
        # It is told of once, or twice if the thread had its turn in between.
        lines: list[dict[str, int]] = []
        while sum(line.get("dropped", 0) for line in lines) < 100:
            lines.append(json.loads(file.readline()))
        assert sum("dropped" not in line for line in lines) == 1 + number - 100
        trace.close()


def test_a_loss_is_logged_at_once_then_rarely_and_its_rest_when_it_is_over() -> None:
    now = 0.0
    log = io.StringIO()
    loss = TraceLoss(clock=lambda: now)
    loss.log = service_log(form="json", stream=log)
    for _ in range(10):
        loss.add(1)
    now = LOSS_LOG_SECONDS_MIN
    loss.add(1)
    loss.add(5)
    loss.tell(is_over=True)
    loss.tell(is_over=True)
    said = [line.partition('"dropped": ')[2] for line in log.getvalue().splitlines()]
    assert said == ['1, "dropped_total": 1}', '10, "dropped_total": 11}', '5, "dropped_total": 16}']


@pytest.mark.parametrize("field", ["messages", "seq_no", "waits_for_sync", "singles"])
def test_an_event_with_many_ranges_takes_up_several_places_of_the_buffer(
    field: str, tmp_path: Path
) -> None:
    trace = trace_to(tmp_path, buffer_events_max=50)
    assert trace.sink is not None
    trace.is_on = True
    places = [[2 * place, 2 * place] for place in range(10 * PLACE_RANGES_MAX)]
    for number in range(8):
        trace.write("message.persisted", "queue", batch=number, **{field: places})
    # 11 places each: the fifth still found one.
    assert (len(trace.entries), trace.loss.count) == (55, 3)
    trace.sink.start()
    trace.close()
    lines = list(read_trace(trace_files([tmp_path])))
    assert [line["batch"] for line in lines if "batch" in line] == [0, 1, 2, 3, 4]
    assert all(line[field] == places for line in lines if "batch" in line)


@pytest.mark.parametrize("rate", [0, -1, 1.5, 1e-320])
def test_a_bad_rate_is_refused(rate: float) -> None:
    with pytest.raises(TraceError, match="it must be above 0 and at most 1"):
        TraceFilter.with_rate(rate)


def test_who_looks_for_a_trace_that_was_never_begun_is_told_how_to_begin_one(
    tmp_path: Path,
) -> None:
    with pytest.raises(TraceFilesError) as missing:
        trace_files([tmp_path / "traces"])
    said = f"there is no trace {tmp_path / 'traces'}; `leveret trace on` begins one"
    assert str(missing.value) == said
