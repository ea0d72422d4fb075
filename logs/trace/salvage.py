"""Finds what a killed broker left in its ring, and writes it where the rest of its trace is.

The ring's oldest lines may be in the boot's newest trace file already, the last of them in part:
the process can be killed between a write and the note that it was done. So the bytes that the file
ends with and the ring begins with are counted once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import struct
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from .parsing import Line, parsed_line
from .ring import BOOT_AT, BOOT_BYTES_MAX, CAPACITY, HEAD, HEADER_BYTES, IS_ON, MAGIC, NAME, TAIL

# More than the thread moves into a file in one go, which BLOCK_BYTES_MAX bounds there.
_OVERLAP_BYTES_MAX: Final = 1 << 20


class Remains(NamedTuple):
    """The events in a ring whose process has ended."""

    boot: str
    # Was the trace on when the process ended?
    is_on: bool
    # Each an event of the boot, as it is written in a trace file.
    lines: list[bytes]
    # Bytes that should have been such lines.
    damaged_bytes: int


def remains_of(directory: Path) -> Remains | None:
    """The waiting events in the ring of a directory of traces; None if there is none, or a broker
    runs.

    OSError if there is one that may not be read.
    """
    try:
        file = os.open(directory / NAME, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return _read(file)
    except BlockingIOError:
        return None
    finally:
        os.close(file)


def running_boots(paths: Iterable[Path]) -> list[str]:
    """The boots of the brokers that trace into one of these folders now."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError), (path / NAME).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(_boot_of(file.read(HEADER_BYTES)))
    return found


def remaining_lines(directory: Path) -> list[bytes]:
    """The lines that a reader adds to those of the directory's files; none while a broker runs."""
    remains = remains_of(directory)
    return [] if remains is None else _unwritten(remains, _end_of(_newest(directory, remains.boot)))


def salvage(directory: Path) -> Remains | None:
    """Append what the ring holds to the boot's trace file, and remove the ring.

    Returns what there was, None if there was no ring. OSError if it cannot be written: then the
    ring stays as it is.
    """
    remains = remains_of(directory)
    if remains is None:
        return None
    newest = _newest(directory, remains.boot)
    end = _end_of(newest)
    lines = _unwritten(remains, end)
    if lines:
        if newest is None:
            moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
            newest = directory / f"trace-{moment}-{remains.boot}-000000.jsonl"
        _append(newest, _continued(end, lines))
    (directory / NAME).unlink()
    return remains


def _newest(directory: Path, boot: str) -> Path | None:
    """The file that the boot was writing: those before it are compressed."""
    return max(directory.glob(f"trace-*-{boot}-*.jsonl"), default=None)


def _end_of(path: Path | None) -> bytes:
    if path is None:
        return b""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - _OVERLAP_BYTES_MAX, 0))
        return file.read()


def _read(file: int) -> Remains | None:
    header = os.pread(file, BOOT_AT + BOOT_BYTES_MAX, 0)
    if len(header) < BOOT_AT + BOOT_BYTES_MAX or not header.startswith(MAGIC):
        return None
    words = struct.unpack_from("=8Q", header)
    capacity, tail, waiting = words[CAPACITY], words[TAIL], words[HEAD] - words[TAIL]
    boot, is_on = _boot_of(header), bool(words[IS_ON])
    file_bytes = os.fstat(file).st_size
    if not capacity or file_bytes != HEADER_BYTES + capacity or not 0 <= waiting <= capacity:
        return Remains(boot, is_on, [], file_bytes)
    at = tail % capacity
    before_end = min(waiting, capacity - at)
    data = os.pread(file, before_end, HEADER_BYTES + at)
    data += os.pread(file, waiting - before_end, HEADER_BYTES)
    lines = [line for line in data.splitlines(keepends=True) if _is_event_of(boot, line)]
    return Remains(boot, is_on, lines, waiting - sum(map(len, lines)))


def _boot_of(header: bytes) -> str:
    boot = header[BOOT_AT : BOOT_AT + BOOT_BYTES_MAX]
    return boot.rstrip(b"\0").decode("ascii", "replace")


def _is_event_of(boot: str, data: bytes) -> bool:
    line = parsed_line(data) if data.endswith(b"\n") else None
    return line is not None and line["boot"] == boot


def _unwritten(remains: Remains, end: bytes) -> list[bytes]:
    """The events that the file with this end lacks, then `trace.cut` if the trace was on."""
    # The last one is empty, or torn, or lacks nothing but its end.
    written = end.split(b"\n")
    known = frozenset(written)
    lines = [line for line in remains.lines if line[:-1] not in known]
    if remains.is_on:
        last = next(filter(None, map(parsed_line, reversed([*written, *lines]))), None)
        if last is not None:
            lines.append(_cut_line(remains, len(lines), last))
    return lines


def _cut_line(remains: Remains, salvaged: int, last: Line) -> bytes:
    """As of the boot's last event, so that the trace covers no time in which nobody traced."""
    fields = {"t_ns": last["t_ns"], "time": last.get("time", ""), "boot": remains.boot}
    told = {"event": "trace.cut", "actor": "trace", "salvaged": salvaged}
    line = fields | told | {"damaged_bytes": remains.damaged_bytes}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _continued(end: bytes, lines: list[bytes]) -> bytes:
    """The bytes to append to the file with this end: first the rest of a torn line."""
    torn = end[end.rfind(b"\n") + 1 :]
    if lines[0].startswith(torn):
        return b"".join(lines)[len(torn) :]
    return b"\n" + b"".join(lines)


def _append(path: Path, data: bytes) -> None:
    """All of it or nothing; OSError."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        before = os.fstat(file).st_size
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(file, rest) :]
        except OSError:
            os.ftruncate(file, before)
            raise
    finally:
        os.close(file)
