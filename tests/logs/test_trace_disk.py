"""A trace whose disk is low, full or stalled burdens nobody, and tells of what that cost."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
from pathlib import Path

import pytest
from insides import wait_until
from leveret.logs.configure import service_log
from leveret.logs.trace.files import TraceFiles
from leveret.logs.trace.parsing import Line
from leveret.logs.trace.salvage import remaining_lines
from leveret.logs.trace.trace import TraceFilter
from trace_by_hand import Disk, begun, trace_to, traced, write_waiting


class FillingFile(io.FileIO):
    """A file on a disk that has room for so many bytes, and takes a part of what is too much."""

    room = 0

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        if not FillingFile.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        part = data[: FillingFile.room]
        FillingFile.room -= len(part)
        return super().write(part)


def filling(path: Path) -> FillingFile:
    return FillingFile(path, "a")


def disk_with(room: int) -> None:
    FillingFile.room = room


def test_a_full_disk_tears_no_line_and_costs_nothing_while_the_ring_has_room(
    tmp_path: Path,
) -> None:
    log = io.StringIO()
    service = service_log(form="json", stream=log)
    trace, _ = begun(tmp_path, ring_bytes=2_000, log=service, create=filling)
    for number in range(10):
        trace.write("test.event", "queue", batch=number)
    disk_with(150)
    assert not write_waiting(trace)
    assert trace.error == "[Errno 28] No space left on device"
    assert trace.loss.count == 0
    while not trace.loss.count:
        number += 1
        trace.write("test.event", "queue", batch=number)
    trace.write("test.event", "queue", batch=number)
    assert not write_waiting(trace)
    disk_with(1 << 20)
    assert write_waiting(trace)
    assert trace.error == ""
    lines = traced(tmp_path)
    assert [line["batch"] for line in lines[:-1]] == list(range(number))
    assert (lines[-1]["event"], lines[-1]["dropped"]) == ("trace.lost", 2)
    assert len(list(tmp_path.glob("trace-*"))) == 1
    said = [
        line.partition('"event": "')[2].partition('"')[0] for line in log.getvalue().split("\n")
    ]
    assert said == ["trace.failed", "trace.lost", "trace.resumed", ""]
    trace.close()


def test_a_trace_leaves_the_disk_to_messages_before_it_is_low_and_goes_on_behind_that(
    tmp_path: Path,
) -> None:
    disk = Disk()
    trace, files = begun(tmp_path, file_bytes_max=400, require_room=disk.require_room)
    trace.write("test.event", "queue", batch=1)
    assert write_waiting(trace)
    disk.free_bytes = 0
    trace.write("test.event", "queue", batch=2, reason="x" * 400)
    assert not write_waiting(trace)
    assert trace.error == "[Errno 28] low"
    disk.free_bytes = 1 << 40
    assert write_waiting(trace)
    disk.free_bytes = 0
    # To compress it takes room, too, before it gives some back.
    assert files.end_if_over()
    assert [path.suffix for path in tmp_path.glob("trace-*")] == [".jsonl"]
    disk.free_bytes = 1 << 40
    trace.write("test.event", "queue", batch=3)
    assert write_waiting(trace)
    assert sorted(path.suffix for path in tmp_path.glob("trace-*")) == [".gz", ".jsonl"]
    assert [line["batch"] for line in traced(tmp_path) if "batch" in line] == [1, 2, 3]
    assert trace.loss.count == 0
    trace.close()


def test_no_ring_is_made_where_it_would_leave_no_room_to_messages(tmp_path: Path) -> None:
    disk = Disk()
    disk.free_bytes = (1 << 20) - 1
    trace = trace_to(tmp_path, require_room=disk.require_room)
    with pytest.raises(OSError, match="low"):
        trace.start(TraceFilter(), "test")
    assert not trace.is_on
    assert list(tmp_path.iterdir()) == []
    disk.free_bytes += 1
    trace.start(TraceFilter(), "test")
    assert trace.is_on
    trace.close()


def test_events_that_a_full_disk_refused_at_the_end_are_written_at_the_next_start(
    tmp_path: Path,
) -> None:
    disk_with(0)
    trace = trace_to(tmp_path, create=filling)
    trace.start(TraceFilter(), "test")
    trace.write("test.event", "queue")
    trace.close()
    assert trace.loss.count == 0
    begin = [path.stat().st_size for path in tmp_path.glob("trace-*")]
    assert begin == [0]
    disk_with(1 << 20)
    again = trace_to(tmp_path, create=filling)
    assert isinstance(again.sink, TraceFiles)
    again.sink.salvage()
    events = [line["event"] for line in traced(tmp_path)]
    assert events == ["trace.started", "test.event", "trace.stopped"]


def test_a_ring_whose_file_is_removed_is_made_anew_with_the_events_that_wait(
    tmp_path: Path,
) -> None:
    log = io.StringIO()
    traces, killed = tmp_path / "traces", tmp_path / "killed"
    trace, files = begun(traces, log=service_log(form="json", stream=log))
    trace.write("test.event", "queue", batch=1)
    # Also with the directory that it is in.
    shutil.rmtree(traces)
    files.replace_removed_ring()
    files.replace_removed_ring()
    assert (traces / "ring").exists()
    trace.write("test.event", "queue", batch=2)
    shutil.copytree(traces, killed)
    assert b"".join(remaining_lines(killed)).count(b"test.event") == 2
    assert write_waiting(trace)
    assert [line["batch"] for line in traced(traces)] == [1, 2]
    assert [json.loads(line)["event"] for line in log.getvalue().splitlines()] == [
        "trace.ring_replaced"
    ]
    trace.is_on = False
    trace.close()
    assert not (traces / "ring").exists()


def test_a_ring_that_was_removed_is_made_anew_when_there_is_room_and_loses_nothing_meanwhile(
    tmp_path: Path,
) -> None:
    disk, now = Disk(), [0.0]
    trace, files = begun(tmp_path, require_room=disk.require_room, clock=lambda: now[0])
    (tmp_path / "ring").unlink()
    disk.free_bytes = 0
    files.replace_removed_ring()
    trace.write("test.event", "queue", batch=1)
    disk.free_bytes = 1 << 40
    # Not at once: each try is a line in the log.
    files.replace_removed_ring()
    assert not (tmp_path / "ring").exists()
    now[0] = 1.0
    files.replace_removed_ring()
    assert (tmp_path / "ring").exists()
    assert write_waiting(trace)
    assert [line["batch"] for line in traced(tmp_path)] == [1]
    assert trace.loss.count == 0
    trace.close()


def test_a_running_broker_s_trace_has_its_ring_again(tmp_path: Path) -> None:
    trace = trace_to(tmp_path)
    trace.start(TraceFilter(), "test")
    (tmp_path / "ring").unlink()
    wait_until((tmp_path / "ring").exists)
    trace.close()


def test_a_stalled_disk_holds_nobody_and_what_it_takes_later_says_what_is_missing(
    tmp_path: Path,
) -> None:
    reading, writing = os.pipe()
    trace = trace_to(tmp_path, ring_bytes=100_000, create=lambda _path: io.FileIO(writing, "w"))
    trace.start(TraceFilter(), "test")
    number = 0
    # A pipe takes 64 KiB; each of these is about 100 bytes.
    while trace.loss.count < 100:
        number += 1
        trace.write("test.event", "queue", batch=number)
    trace.is_on = False
    with open(reading, "rb") as file:
        # It is told of once, or twice if the thread had its turn in between.
        lines: list[Line] = []
        while sum(line.get("dropped", 0) for line in lines) < 100:
            lines.append(json.loads(file.readline()))
        assert sum("dropped" not in line for line in lines) == 1 + number - 100
        trace.close()
