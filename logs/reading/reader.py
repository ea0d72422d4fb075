"""Reads trace files, plain or gzipped, in the order in which they were written.

Behind a directory's files comes the ring of a killed broker, until the next start has written its
events into a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, cast

from isal import igzip, igzip_lib

from ..trace.parsing import NO_EVENT, Line, defect, parsed_line
from ..trace.ring import NAME as RING
from ..trace.salvage import remaining_lines, remains_of
from .coverage import Coverage

PACKED = ".gz"
# Called for each skipped line, with its file, its number, and its defect.
OnBadLine = Callable[[Path, int, str], None]
# The stub of the second has it for an instance.
_UNREADABLE = cast("tuple[type[Exception], ...]", (OSError, igzip_lib.IsalError))
_LINES_BETWEEN_PROGRESS = 10_000


class TraceFilesError(Exception):
    """There is nothing to read there; one line for people."""


def trace_files(paths: Iterable[Path]) -> list[Path]:
    """The files themselves, and those of directories, oldest first; TraceFilesError if none."""
    found: list[Path] = []
    for path in paths:
        with _file_errors(path):
            if path.is_dir():
                # What may not be looked into would seem to be empty.
                names = {name for name in os.listdir(path) if name.startswith("trace-")}
                plain = {name for name in names if name.endswith(".jsonl")}
                # A broker that was killed while it compressed a file leaves it in both forms.
                packed = {n for n in names if n.endswith(".jsonl.gz") and n[:-3] not in plain}
                found += [path / name for name in sorted(plain | packed)]
                if remains_of(path) is not None:
                    found.append(path / RING)
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
    on_bad_line: OnBadLine | None = None,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Line]:
    """All events; `wants` looks at the bytes of a line before it is parsed.

    A last line that is torn, as a killed broker leaves it, is left out without a word; any other
    that is no event, or lacks a required field, is skipped after a call of `on_bad_line` with its
    number and its defect. `progress` is called now and then with the share that is read.
    """
    total = max(sum(map(_bytes, still_there(files))), 1)
    done = 0
    for listed in files:
        for path in still_there([listed]):
            size = _bytes(path)
            yield from _read(path, wants, on_bad_line, progress, done, total)
            done += size


@contextmanager
def plain_files(files: Sequence[Path]) -> Iterator[list[Path]]:
    """The files for readers that know no ring: what a killed broker left in one is copied out."""
    with TemporaryDirectory(prefix="leveret-trace-") as directory:
        found: list[Path] = []
        for path in files:
            if path.name == RING:
                with _file_errors(path), _opened(path) as ring:
                    # Behind all others, as the events are.
                    path = Path(directory) / f"trace-9{len(found):09}-ring.jsonl"
                    path.write_bytes(ring.read())
            found.append(path)
        yield found


def coverage_of(files: Iterable[Path], running: Collection[str] = ()) -> Coverage:
    """The stretches that the files cover and lack, found without reading each of their events.

    The first and last events of each run, and what the trace says of itself, are parsed.
    """
    coverage = Coverage()
    for listed in files:
        for path in still_there([listed]):
            with suppress(EOFError), _file_errors(path), _opened(path) as stored:
                of_boot, last = b"\n", b""
                for data in _lines_of(path, stored):
                    if of_boot not in data or b'"trace.' in data:
                        _feed(coverage, last)
                        _feed(coverage, data)
                        line = parsed_line(data)
                        of_boot = b"\n" if line is None else f'"{line["boot"]}"'.encode()
                    last = data
                _feed(coverage, last)
    return coverage.finish(running)


def _feed(coverage: Coverage, data: bytes) -> None:
    line = parsed_line(data)
    if line is not None and not defect(line) and coverage.last_of(line["boot"]) != line:
        coverage.feed(line)


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
    on_bad_line: OnBadLine | None,
    progress: Callable[[float], None] | None,
    done: int,
    total: int,
) -> Iterator[Line]:
    try:
        with _file_errors(path), _opened(path) as stored:
            for number, data in enumerate(_lines_of(path, stored), 1):
                if progress is not None and number % _LINES_BETWEEN_PROGRESS == 0:
                    progress((done + stored.tell()) / total)
                if wants is not None and not wants(data):
                    continue
                line = parsed_line(data)
                wrong = NO_EVENT if line is None else defect(line)
                if line is not None and not wrong:
                    yield line
                elif data.endswith(b"\n") and on_bad_line is not None:
                    on_bad_line(path, number, wrong)
    except EOFError:
        # Copied before it was complete: the complete part is read.
        return


def _opened(path: Path) -> IO[bytes]:
    """The file; of a ring the lines that a reader adds."""
    return BytesIO(b"".join(remaining_lines(path.parent))) if path.name == RING else path.open("rb")


@contextmanager
def _file_errors(path: Path) -> Iterator[None]:
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


def holds(spans: Iterable[list[int]], number: int) -> bool:
    """Is the number in one of these [first, last] pairs?"""
    return any(first <= number <= last for first, last in spans)


def ends_within_a_line(path: Path) -> bool:
    """Is its last line torn?"""
    last = b"\n"
    with _file_errors(path), path.open("rb") as stored:
        if path.suffix != PACKED and path.stat().st_size:
            stored.seek(-1, 2)
        file = _lines_of(path, stored)
        while data := file.read(1 << 20):
            last = data
    return not last.endswith(b"\n")


def _lines_of(path: Path, stored: IO[bytes]) -> IO[bytes]:
    """The content of the file, unpacked."""
    if path.suffix != PACKED:
        return stored
    unpacked = igzip.IGzipFile(fileobj=stored, mode="rb")  # type: ignore[no-untyped-call]
    return cast("IO[bytes]", unpacked)
