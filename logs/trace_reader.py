"""Reads trace files, plain or gzipped, in the order in which they were written."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import orjson

Line = dict[str, Any]


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
    files: Iterable[Path],
    wants: Callable[[bytes], bool] | None = None,
    on_bad_line: Callable[[Path, int], None] | None = None,
) -> Iterator[Line]:
    """All events; `wants` looks at the bytes of a line before it is parsed.

    A last line that is torn, as a killed broker leaves it, is left out without a word; any other
    that is no event is told to `on_bad_line` with its number and left out.
    """
    for path in files:
        with _opened(path) as file:
            for number, data in enumerate(file, 1):
                if wants is not None and not wants(data):
                    continue
                try:
                    line = _parsed(data)
                    line["event"], line["t_ns"], line["boot"]
                except (ValueError, KeyError, TypeError):
                    if data.endswith(b"\n") and on_bad_line is not None:
                        on_bad_line(path, number)
                    continue
                yield line


def _parsed(data: bytes) -> Line:
    """The line's object; ValueError if it is none."""
    try:
        return cast("Line", orjson.loads(data))
    except ValueError:
        # A name that is not UTF-8 has surrogate escapes, which orjson refuses.
        return cast("Line", json.loads(data))


def holds(spans: Iterable[list[int]], number: int) -> bool:
    """Is the number in one of these [first, last] pairs?"""
    return any(first <= number <= last for first, last in spans)


def ends_within_a_line(path: Path) -> bool:
    """Is its last line torn?"""
    last = b"\n"
    with _opened(path) as file:
        if path.suffix != ".gz" and path.stat().st_size:
            file.seek(-1, 2)
        while data := file.read(1 << 20):
            last = data
    return not last.endswith(b"\n")


def _opened(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")
