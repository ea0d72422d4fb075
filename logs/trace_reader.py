"""Reads trace files, plain or gzipped, in the order in which they were written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

import orjson
from isal import igzip

Line = dict[str, Any]
PACKED = ".gz"
_LINES_BETWEEN_PROGRESS = 10_000


class TraceFilesError(Exception):
    """There is nothing to read there; one line for people."""


def trace_files(paths: Iterable[Path]) -> list[Path]:
    """The files themselves, and those of directories, oldest first; TraceFilesError if none."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            plain = sorted(path.glob("trace-*.jsonl"))
            names = {each.name for each in plain}
            # A broker that was killed while it compressed a file leaves it in both forms.
            packed = [each for each in path.glob("trace-*.jsonl.gz") if each.stem not in names]
            found += sorted([*plain, *packed])
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
    total = max(sum(path.stat().st_size for path in still_there(files)), 1)
    done = 0
    for listed in files:
        for path in still_there([listed]):
            yield from _read(path, wants, on_bad_line, progress, done, total)
            done += path.stat().st_size


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
        with path.open("rb") as stored:
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
    except igzip.BadGzipFile as fault:
        raise TraceFilesError(f"{path} cannot be read: {fault}") from None


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
    with path.open("rb") as stored:
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
