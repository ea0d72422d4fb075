"""The trace's ring: whole lines in order, and what a killed process leaves in it."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from leveret.logs.reading.reader import read_trace, trace_files
from leveret.logs.trace import ring as module
from leveret.logs.trace import salvage as trace_salvage
from leveret.logs.trace.lines import TraceLines
from leveret.logs.trace.ring import HEADER_BYTES, NAME, TraceRing
from leveret.logs.trace.salvage import remaining_lines, remains_of, salvage

BOOT = "abcd1234"
LINES = TraceLines(BOOT)


def line(number: int) -> bytes:
    return LINES.line(number, "test.event", "queue", {"batch": number})


@pytest.mark.parametrize("seed", range(5))
def test_the_ring_returns_appended_events_in_whole_lines_also_across_its_end(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    ring = TraceRing(tmp_path, BOOT, 300)
    waiting = b""
    for number in range(500):
        data = b"%d %s\n" % (number, b"x" * chance.randrange(100))
        assert ring.append(data) == (len(waiting) + len(data) <= 300)
        if len(waiting) + len(data) <= 300:
            waiting += data
        assert ring.waiting_bytes == len(waiting)
        if chance.random() < 0.4:
            block = ring.read(chance.randrange(1, 200))
            assert waiting.startswith(block)
            assert block.endswith(b"\n") or not waiting
            ring.release(len(block))
            waiting = waiting[len(block) :]
    ring.close()


def test_a_ring_that_is_empty_goes_with_its_broker(tmp_path: Path) -> None:
    ring = TraceRing(tmp_path, BOOT, 1_000)
    ring.append(b"x\n")
    ring.release(2)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    ring.close()
    assert list(tmp_path.iterdir()) == []
    assert not ring.append(b"x\n")
    assert ring.read(10) == b""
    ring.close()


@pytest.mark.parametrize("fault", [errno.EOPNOTSUPP, None])
def test_its_blocks_are_written_where_they_cannot_be_allocated(
    fault: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault is None:
        monkeypatch.delattr(os, "posix_fallocate")
    else:

        def refuse(*_arguments: object) -> None:
            raise OSError(fault, "")

        monkeypatch.setattr(os, "posix_fallocate", refuse)
    ring = TraceRing(tmp_path, BOOT, 100_000)
    status = (tmp_path / NAME).stat()
    assert status.st_size == HEADER_BYTES + 100_000
    assert status.st_blocks * 512 >= status.st_size
    ring.close()


def test_a_ring_that_has_no_room_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(OSError, match="No space left on device"):
        TraceRing(tmp_path, BOOT, 1_000)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def killed(tmp_path: Path) -> Callable[..., Path]:
    """Makes a directory of traces as a killed process leaves it: its ring, held by nobody."""

    def leave(*lines: bytes, released: int = 0, is_on: bool = True, ring_bytes: int = 700) -> Path:
        lived, left = tmp_path / "lived", tmp_path / "left"
        lived.mkdir()
        left.mkdir()
        ring = TraceRing(lived, BOOT, ring_bytes)
        ring.note_state(is_on)
        for number, data in enumerate(lines):
            assert ring.append(data)
            if number < released:
                ring.release(len(data))
        shutil.copy(lived / NAME, left / NAME)
        ring.close()
        return left

    return leave


def events(directory: Path) -> list[object]:
    """The events that readers find: batch numbers, or names if they have none."""

    def bad(*at: object) -> None:
        pytest.fail(f"{at} is no event")

    lines = read_trace(trace_files([directory]), on_bad_line=bad)
    return [line.get("batch", line["event"]) for line in lines]


def test_readers_find_what_is_left_as_long_as_the_broker_does_not_run(
    killed: Callable[..., Path], tmp_path: Path
) -> None:
    directory = killed(*map(line, range(1, 20)), released=15)
    assert events(directory) == [16, 17, 18, 19, "trace.cut"]
    running = TraceRing(tmp_path, BOOT, 1_000)
    running.append(line(1))
    assert remains_of(tmp_path) is None
    assert remaining_lines(tmp_path) == []
    running.close()


def test_what_a_file_has_already_is_not_written_twice_wherever_the_write_ended(
    killed: Callable[..., Path],
) -> None:
    lines = [line(number) for number in range(1, 7)]
    directory = killed(*lines, released=2)
    written = directory / f"trace-20260101T000000000000-{BOOT}-000001.jsonl"
    whole = b"".join(lines)
    ring = (directory / NAME).read_bytes()
    # What was released was written.
    for end in range(len(lines[0]) + len(lines[1]), len(whole) + 1):
        written.write_bytes(whole[:end])
        (directory / NAME).write_bytes(ring)
        assert events(directory) == [1, 2, 3, 4, 5, 6, "trace.cut"]
        remains = salvage(directory)
        assert remains is not None
        assert events(directory) == [1, 2, 3, 4, 5, 6, "trace.cut"]
        assert not (directory / NAME).exists()
    assert salvage(directory) is None


def test_a_trace_that_was_off_is_not_called_cut(killed: Callable[..., Path]) -> None:
    directory = killed(line(1), is_on=False)
    salvage(directory)
    assert events(directory) == [1]


def test_a_torn_line_that_the_ring_does_not_have_is_left_torn(
    killed: Callable[..., Path],
) -> None:
    directory = killed(line(7))
    written = directory / f"trace-20260101T000000000000-{BOOT}-000001.jsonl"
    written.write_bytes(line(1) + b'{"t_ns":5,"ti')
    salvage(directory)
    bad: list[int] = []
    lines = read_trace([written], on_bad_line=lambda _path, number, _wrong: bad.append(number))
    assert [each.get("batch") for each in lines] == [1, 7, None]
    assert bad == [2]


def damaged_ring(directory: Path, at: int, data: bytes) -> None:
    with (directory / NAME).open("r+b") as ring:
        ring.seek(at)
        ring.write(data)


def test_salvage_keeps_the_whole_events_of_a_damaged_ring_and_counts_the_rest(
    killed: Callable[..., Path],
) -> None:
    lines = [line(number) for number in range(1, 6)]
    directory = killed(*lines)
    # As a loss of power leaves it: a page that was never written.
    damaged_ring(directory, HEADER_BYTES + len(lines[0]) + 5, bytes(len(lines[1])))
    remains = salvage(directory)
    assert remains is not None
    assert remains.damaged_bytes == len(lines[1]) + len(lines[2])
    assert events(directory) == [1, 4, 5, "trace.cut"]
    *_, cut = read_trace(trace_files([directory]))
    assert (cut["salvaged"], cut["damaged_bytes"]) == (3, remains.damaged_bytes)


@pytest.mark.parametrize(
    ("at", "data"),
    [(8, b"\xff" * 8), (8, bytes(8)), (16, b"\xff" * 8), (24, b"\xff" * 8), (0, b"nonsense")],
)
def test_a_ring_whose_header_is_nonsense_keeps_nobody_from_starting(
    at: int, data: bytes, killed: Callable[..., Path]
) -> None:
    directory = killed(line(1))
    damaged_ring(directory, at, data)
    remains = salvage(directory)
    assert remains is None or (remains.lines, remains.damaged_bytes > 0) == ([], True)
    assert list(directory.glob("trace-*")) == []
    TraceRing(directory, BOOT, 1_000).close()


def test_a_ring_that_cannot_be_written_out_stays(
    killed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = killed(line(1), line(2))
    write = os.write
    room = [50]

    def write_a_part(file: int, data: bytes) -> int:
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[: room.pop()])

    monkeypatch.setattr(trace_salvage.os, "write", write_a_part)
    with pytest.raises(OSError, match="No space left"):
        salvage(directory)
    monkeypatch.undo()
    salvage(directory)
    assert events(directory) == [1, 2, "trace.cut"]


def test_the_header_has_room_for_all_that_stands_in_it() -> None:
    assert module.BOOT_AT >= 8 * (module.IS_ON + 1)
    assert module.BOOT_AT + module.BOOT_BYTES_MAX <= HEADER_BYTES
