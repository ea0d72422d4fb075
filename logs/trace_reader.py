"""Reads trace files, plain or gzipped, in the order in which they were written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import orjson
from isal import igzip, igzip_lib

Line = dict[str, Any]
PACKED = ".gz"
# The stub of the second has it for an instance.
_UNREADABLE = cast("tuple[type[Exception], ...]", (OSError, igzip_lib.IsalError))
_LINES_BETWEEN_PROGRESS = 10_000


class TraceFilesError(Exception):
    """There is nothing to read there; one line for people."""


def trace_files(paths: Iterable[Path]) -> list[Path]:
    """The files themselves, and those of directories, oldest first; TraceFilesError if none."""
    found: list[Path] = []
    for path in paths:
        with _told(path):
            if path.is_dir():
                # What may not be looked into would seem to be empty.
                names = {name for name in os.listdir(path) if name.startswith("trace-")}
                plain = {name for name in names if name.endswith(".jsonl")}
                # A broker that was killed while it compressed a file leaves it in both forms.
                packed = {n for n in names if n.endswith(".jsonl.gz") and n[:-3] not in plain}
                found += [path / name for name in sorted(plain | packed)]
            elif path.exists():
                found.append(path)
            else:
                raise TraceFilesError(f"there is no trace {path}; `leveret trace on` begins one")
    if not found:
        raise TraceFilesError(f"no trace files in {', '.join(map(str, paths))}")
    return found


def read_trace(
    files: Sequence[Path],
    wants: Callable[[bytes], bool] | None = None,
    on_bad_line: Callable[[Path, int], None] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Line]:
    """All events; `wants` looks at the bytes of a line before it is parsed.

    A last line that is torn, as a killed broker leaves it, is left out without a word; any other
    that is no event is told to `on_bad_line` with its number and left out. `progress` is told the
    share that is read, now and then.
    """
    total = max(sum(map(_bytes, still_there(files))), 1)
    done = 0
    for listed in files:
        for path in still_there([listed]):
            size = _bytes(path)
            yield from _read(path, wants, on_bad_line, progress, done, total)
            done += size


def still_there(files: Iterable[Path]) -> list[Path]:
    """The files under the names that they have now: a broker packs them, and drops the oldest."""
    found = []
    for path in files:
        packed = path.with_name(path.name + PACKED)
        found += [each for each in (path, packed) if each.exists()][:1]
    return found


def _read(
    path: Path,
    wants: Callable[[bytes], bool] | None,
    on_bad_line: Callable[[Path, int], None] | None,
    progress: Callable[[float], None] | None,
    done: int,
    total: int,
) -> Iterator[Line]:
    try:
        with _told(path), path.open("rb") as stored:
            for number, data in enumerate(_lines_of(path, stored), 1):
                if progress is not None and number % _LINES_BETWEEN_PROGRESS == 0:
                    progress((done + stored.tell()) / total)
                if wants is not None and not wants(data):
                    continue
                line = parsed_line(data)
                if line is not None:
                    yield line
                elif data.endswith(b"\n") and on_bad_line is not None:
                    on_bad_line(path, number)
    except EOFError:
        # Copied before it was whole: what is there is read.
        return


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """TraceFilesError if it may not be read, or is damaged within."""
    try:
        yield
    except _UNREADABLE as fault:
        why = getattr(fault, "strerror", None) or fault
        raise TraceFilesError(f"{path} cannot be read: {why}") from None


def _bytes(path: Path) -> int:
    """Its size; 0 if a broker that runs has just packed or dropped it."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def parsed_line(data: bytes) -> Line | None:
    """The event of a line, None if it is none."""
    try:
        line = orjson.loads(data)
    except ValueError:
        # A name that is not UTF-8 has surrogate escapes, which orjson refuses.
        try:
            line = json.loads(data)
        except ValueError:
            return None
    is_event = isinstance(line, dict) and "event" in line and "t_ns" in line and "boot" in line
    return cast("Line", line) if is_event else None


def holds(spans: Iterable[list[int]], number: int) -> bool:
    """Is the number in one of these [first, last] pairs?"""
    return any(first <= number <= last for first, last in spans)


def ends_within_a_line(path: Path) -> bool:
    """Is its last line torn?"""
    last = b"\n"
    with _told(path), path.open("rb") as stored:
        if path.suffix != PACKED and path.stat().st_size:
            stored.seek(-1, 2)
        file = _lines_of(path, stored)
        while data := file.read(1 << 20):
            last = data
    return not last.endswith(b"\n")


def _lines_of(path: Path, stored: IO[bytes]) -> IO[bytes]:
    """What the file holds, unpacked."""
    if path.suffix != PACKED:
        return stored
    unpacked = igzip.IGzipFile(fileobj=stored, mode="rb")  # type: ignore[no-untyped-call]
    return cast("IO[bytes]", unpacked)
