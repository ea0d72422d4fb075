"""The trace on the disk: JSON lines in files that rotate, written by a thread of their own.

The thread moves waiting events from the ring into the file, block by block. A full or stalled disk
costs events once the ring is full, which are counted and reported in the trace itself, and never
holds the broker. The thread stops before the disk is low, because the trace is worth less than the
messages and acknowledgements of clients.

A boot's first file begins with `trace.started`. Because the oldest files are removed, each later
file begins with `trace.continued` (`TraceHead`), which repeats the filter of the trace and the
number of lost events as of the events that the file begins with.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from isal import isal_zlib

from ..events import (
    TRACE_DAMAGED,
    TRACE_FAILED,
    TRACE_RESUMED,
    TRACE_RING_REPLACED,
    TRACE_SALVAGED,
)
from .parsing import Line, parsed_line
from .ring import TraceRing
from .salvage import salvage
from .trace import Trace

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


_REPEATED = ("one_of", "queues", "users", "connections", "format")


class TraceHead:
    """Looks through the blocks of one boot as they are written."""

    def __init__(self) -> None:
        self._started: Line | None = None
        self._dropped = 0

    def line_before(self, block: bytes) -> bytes:
        """The first line of a new file before this block; empty if the block has one."""
        first = parsed_line(block[: block.index(b"\n")])
        if first is None or self._started is None or first["event"] == "trace.started":
            return b""
        fields = {"t_ns": first["t_ns"], "time": first["time"], "boot": first["boot"]}
        fields |= {"event": "trace.continued", "actor": "trace"}
        fields |= {name: self._started[name] for name in _REPEATED}
        fields["dropped"] = self._dropped
        return json.dumps(fields, separators=(",", ":")).encode() + b"\n"

    def note(self, block: bytes) -> None:
        """The block is written."""
        for line in _events(block, b'"event":"trace.lost"'):
            self._dropped += line["dropped"]
        for line in _events(block, b'"event":"trace.started"'):
            self._started = line


def _events(block: bytes, name: bytes) -> Iterator[Line]:
    """The few lines with this in them: no other line can have it, for quotes are escaped there."""
    at = block.find(name)
    while at >= 0:
        end = block.index(b"\n", at)
        line = parsed_line(block[block.rfind(b"\n", 0, at) + 1 : end])
        if line is not None:
            yield line
        at = block.find(name, end)


_GATHER_SECONDS = 0.05
# So much is moved in one go; a file may be so much longer than its limit.
BLOCK_BYTES_MAX = 1 << 18
_SUFFIX = ".jsonl"
# Of names that are in the order of their files' begins.
_MOMENT = "%Y%m%dT%H%M%S%f"
_COPY_BYTES = 1 << 18
_GZIP_WINDOW_BITS = 31
# A file that is being compressed; a killed broker left one that exists at the start.
_PACKING_SUFFIX = ".packing"
# So long `stop` waits for a disk that stalls.
_STOP_SECONDS_MAX = 5.0
# A disk that has failed is tried again so often: a full disk stays full for a while.
_RETRY_SECONDS = 1.0


def create_file(path: Path) -> io.FileIO:
    """A new file, to be written without a buffer."""
    # Whoever reads the trace sees who talks to whom.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return io.FileIO(os.open(path, flags, 0o600), "w")


class TraceFiles:
    """Writes one node's trace to `directory`: `trace-<when>-<boot>.jsonl`, older ones gzipped.

    A file ends at `file_bytes_max` or when it is `file_age_seconds_max` old; of those that ended,
    `files_max` are kept.
    """

    def __init__(
        self,
        trace: Trace,
        directory: Path,
        log: FilteringBoundLogger,
        ring_bytes: int,
        file_bytes_max: int,
        file_age_seconds_max: float,
        files_max: int,
        on_fatal: Callable[[str, BaseException], None],
        require_room: Callable[[int], None],
        clock: Callable[[], float] = time.monotonic,
        create: Callable[[Path], io.FileIO] | None = None,
    ) -> None:
        """`require_room` raises OSError if so many bytes more would leave too few to others.

        `create` makes each file of lines; None for `create_file`.
        """
        self._trace = trace
        self.directory = directory
        self._log = log
        self._file_bytes_max = file_bytes_max
        self._file_age_seconds_max = file_age_seconds_max
        self._files_max = files_max
        self._ring_bytes = ring_bytes
        self._head = TraceHead()
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._file: io.FileIO | None = None
        self._path = directory
        self._written_bytes = 0
        self._opened_at = 0.0
        # Not before is a removed ring made anew.
        self._ring_retry_at = 0.0
        self._number = 0
        self._clock = clock
        self._create = create or create_file
        self._on_fatal = on_fatal
        self._require_room = require_room
        trace.loss.log = log

    def open(self) -> None:
        """Give the trace its ring; OSError without room for it, or for the events of an old one."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._trace.ring is None:
            self.salvage()
            self._require_room(self._ring_bytes)
            self._trace.ring = TraceRing(self.directory, self._trace.boot_id, self._ring_bytes)

    def start(self) -> None:
        """Write from now on, while the trace is on. Behind `open`."""
        self._ending.clear()
        self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="trace", daemon=True)
            self._thread.start()

    def salvage(self) -> None:
        """Write what a killed broker left in its ring; OSError if it cannot be written."""
        remains = salvage(self.directory)
        if remains is None:
            return
        about = {"boot": remains.boot, "directory": str(self.directory)}
        if remains.is_on or remains.lines:
            self._log.info(TRACE_SALVAGED, events=len(remains.lines), **about)
        if remains.damaged_bytes:
            self._log.warning(TRACE_DAMAGED, damaged_bytes=remains.damaged_bytes, **about)

    def stop(self) -> None:
        """The node ends: write the waiting events; return when they are in the file.

        Events that the disk does not accept in time stay in the ring, for the next start.
        """
        if self._thread is not None:
            self._ending.set()
            self._wake.set()
            self._thread.join(_STOP_SECONDS_MAX)
            self._thread = None
        if self._trace.ring is not None:
            self._trace.ring.close()
            self._trace.ring = None

    def _run(self) -> None:
        try:
            self._write_until_it_ends()
        except MemoryError as error:
            self._on_fatal("trace", error)

    def _write_until_it_ends(self) -> None:
        is_ending = False
        while not is_ending:
            # Before a look at what there is: so that the last events before the end are seen.
            is_ending, is_on = self._ending.is_set(), self._trace.is_on
            if is_on:
                self.replace_removed_ring()
            ring = self._trace.ring
            assert ring is not None
            is_written = self.write_waiting(ring)
            self._trace.loss.tell(is_over=is_ending or (is_written and not is_on))
            if is_ending or not is_on:
                self._close()
            else:
                self.end_if_over()
            if not is_ending:
                # While it is off, until it is on again.
                is_idle = is_written and not is_on
                (self._wake if is_idle else self._ending).wait(self._rest_seconds(is_idle))
                self._wake.clear()

    def replace_removed_ring(self) -> None:
        """Make another ring if somebody has removed the file of this one; on one thread.

        Without room for it the trace goes on with the old one, whose events a kill of the process
        would lose.
        """
        before = self._trace.ring
        if before is None or before.is_in_place() or self._clock() < self._ring_retry_at:
            return
        try:
            self.directory.mkdir(mode=0o700, exist_ok=True)
            self._require_room(before.capacity_bytes)
            made = TraceRing(self.directory, self._trace.boot_id, before.capacity_bytes)
        except OSError as error:
            self._ring_retry_at = self._clock() + _RETRY_SECONDS
            self._log.error(TRACE_FAILED, error=str(error), directory=str(self.directory))
            return
        self._trace.replace_ring(made)
        self._log.warning(TRACE_RING_REPLACED, directory=str(self.directory))

    def _rest_seconds(self, is_idle: bool) -> float | None:
        if self._trace.error:
            return _RETRY_SECONDS
        return None if is_idle else _GATHER_SECONDS

    def write_waiting(self, ring: TraceRing) -> bool:
        """Write all waiting events of the ring; false if the disk does not accept them. On one
        thread."""
        while True:
            self._trace.tell_loss()
            data = ring.read(BLOCK_BYTES_MAX)
            if not data:
                return True
            if not self._write_block(data):
                return False
            ring.release(len(data))

    def _write_block(self, data: bytes) -> bool:
        trace = self._trace
        try:
            self._require_room(len(data))
            self._write(data)
        except OSError as error:
            # Nothing is lost by that while the ring has room.
            if not trace.error:
                self._log.error(TRACE_FAILED, error=str(error), directory=str(self.directory))
            trace.error = str(error)
            return False
        if trace.error:
            self._log.warning(TRACE_RESUMED, directory=str(self.directory))
            trace.error = ""
        return True

    def _write(self, data: bytes) -> None:
        """All of it or nothing: no line is torn by a disk that is full."""
        file = self._open_file()
        whole = data if self._written_bytes else self._head.line_before(data) + data
        rest = memoryview(whole)
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            try:
                os.ftruncate(file.fileno(), self._written_bytes)
            except OSError:
                # Later lines must not continue a torn one.
                self._close()
            raise
        self._written_bytes += len(whole)
        self._head.note(data)

    def _is_over(self) -> bool:
        is_old = self._clock() - self._opened_at >= self._file_age_seconds_max
        return self._file is not None and (self._written_bytes >= self._file_bytes_max or is_old)

    def end_if_over(self) -> bool:
        """End and compress a file that has reached its size or age; false if it has not."""
        if not self._is_over():
            return False
        self._end_file()
        # Now, because the next file may be long in coming.
        with contextlib.suppress(OSError):
            self._tidy()
        return True

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _end_file(self) -> None:
        """The file is done. That it cannot be compressed does not keep the next from its begin."""
        self._close()
        self._compress(self._path)

    def _open_file(self) -> io.FileIO:
        if self._is_over():
            self._end_file()
        if self._file is not None and not os.fstat(self._file.fileno()).st_nlink:
            # Somebody has removed it, so nobody would find later lines.
            self._close()
        if self._file is None:
            self.directory.mkdir(mode=0o700, exist_ok=True)
            self._tidy()
            self._number += 1
            when = self._moment()
            name = f"trace-{when}-{self._trace.boot_id}-{self._number:06d}{_SUFFIX}"
            self._path = self.directory / name
            self._file = self._create(self._path)
            self._written_bytes = 0
            self._opened_at = self._clock()
        return self._file

    def _moment(self) -> str:
        """When the file begins: behind all present files, also if the clock was set back."""
        moment = datetime.now(UTC).strftime(_MOMENT)
        latest = max((path.name for path in self.directory.glob("trace-*")), default="")
        with contextlib.suppress(ValueError, IndexError):
            before = datetime.strptime(latest.split("-")[1], _MOMENT)
            moment = max(moment, (before + timedelta(microseconds=1)).strftime(_MOMENT))
        return moment

    def _tidy(self) -> None:
        """Compress the files of earlier runs, and delete the oldest above the limit."""
        for left in self.directory.glob(f"trace-*{_PACKING_SUFFIX}"):
            left.unlink()
        # Their names are in the order of their begins.
        ended = sorted(self.directory.glob(f"trace-*{_SUFFIX}*"))
        drop_count = max(len(ended) - self._files_max, 0)
        for oldest in ended[:drop_count]:
            oldest.unlink()
        for kept in ended[drop_count:]:
            if kept.name.endswith(_SUFFIX):
                self._compress(kept)

    def _compress(self, path: Path) -> None:
        """Compress it, or leave that to the next time if the disk has no room."""
        with contextlib.suppress(OSError):
            self._require_room(path.stat().st_size)
            _compress(path)


def _compress(path: Path) -> None:
    """Put the compressed file in its place, whole or not at all."""
    packing = path.with_name(path.name + _PACKING_SUFFIX)
    # Many times as fast as the standard library's.
    packer = isal_zlib.compressobj(level=1, wbits=_GZIP_WINDOW_BITS)
    try:
        with path.open("rb") as plain, io.BufferedWriter(create_file(packing)) as into:
            while data := plain.read(_COPY_BYTES):
                into.write(packer.compress(data))
            into.write(packer.flush())
        packing.rename(path.with_name(path.name + ".gz"))
    except OSError:
        packing.unlink(missing_ok=True)
        raise
    path.unlink()
