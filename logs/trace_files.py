"""The trace on the disk: JSON lines in files that rotate, written by a thread of their own.

The thread takes what has gathered, renders it and writes it in one go. A full disk or a stalled one
costs events, which are counted and told of in the trace itself, and never holds the broker.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from isal import isal_zlib

from .events import TRACE_FAILED, TRACE_RESUMED
from .trace import Trace
from .trace_lines import TraceLines

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_GATHER_SECONDS = 0.05
# So many events are rendered and written in one go; a file may end so many behind its size.
_BLOCK_EVENTS = 1_000
_SUFFIX = ".jsonl"
# Of names that are in the order of their files' begins.
_MOMENT = "%Y%m%dT%H%M%S%f"
_COPY_BYTES = 1 << 18
_GZIP_WINDOW_BITS = 31
# A file that is being compressed; one that is there at the start was left by a killed broker.
_PACKING_SUFFIX = ".packing"
# So long `stop` waits for a disk that stalls.
_STOP_SECONDS_MAX = 5.0
# A disk that has failed is tried again so often: one that is full stays so for a while.
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
        file_bytes_max: int,
        file_age_seconds_max: float,
        files_max: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._trace = trace
        self._directory = directory
        self._log = log
        self._file_bytes_max = file_bytes_max
        self._file_age_seconds_max = file_age_seconds_max
        self._files_max = files_max
        self._lines = TraceLines(trace.boot_id)
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._file: io.FileIO | None = None
        self._path = directory
        self._written_bytes = 0
        self._opened_at = 0.0
        self._number = 0
        # How much of the loss is in the trace itself.
        self._told_dropped = 0
        self._clock = clock
        trace.loss.log = log

    def start(self) -> None:
        """Write from now on, while the trace is on; OSError if the directory cannot be made."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._ending.clear()
        self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="trace", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """The node ends: write what is there; return when it is in the file."""
        if self._thread is not None:
            self._ending.set()
            self._wake.set()
            self._thread.join(_STOP_SECONDS_MAX)
            self._thread = None

    def _run(self) -> None:
        is_ending = False
        while not is_ending:
            # Before a look at what there is: what was written before it came to an end is seen.
            is_ending, is_on = self._ending.is_set(), self._trace.is_on
            is_written = self._write_waiting()
            if is_ending and not is_written:
                entries = self._trace.entries
                self._trace.loss.add(len(entries) - entries.count(None))
                entries.clear()
            self._trace.loss.tell(is_over=is_ending or (is_written and not is_on))
            if is_ending or not is_on:
                self._close()
            elif self._is_over():
                self._end_file()
                # Now, for the next may be long in coming.
                with contextlib.suppress(OSError):
                    self._tidy()
            if not is_ending:
                # While it is off, until it is on again.
                is_idle = is_written and not is_on
                (self._wake if is_idle else self._ending).wait(self._rest_seconds(is_idle))
                self._wake.clear()

    def _rest_seconds(self, is_idle: bool) -> float | None:
        if self._trace.error:
            return _RETRY_SECONDS
        return None if is_idle else _GATHER_SECONDS

    def _write_waiting(self) -> bool:
        """Write all that waits; false if it cannot be."""
        while self._trace.entries or self._told_dropped < self._trace.loss.count:
            if not self._write_block():
                return False
        return True

    def _write_block(self) -> bool:
        trace = self._trace
        popped = (trace.entries.popleft() for _ in range(min(len(trace.entries), _BLOCK_EVENTS)))
        block = [entry for entry in popped if entry is not None]
        count = len(block)
        dropped = trace.loss.count - self._told_dropped
        if dropped:
            block.append((trace.now_ns(), "trace.lost", "trace", {"dropped": dropped}))
        if not block:
            return True
        data = self._lines.rendered(block, time.time_ns() - trace.now_ns())
        try:
            self._write(data)
        except OSError as error:
            # Nothing is lost by that while the buffer has room.
            trace.entries.extendleft(reversed(block[:count]))
            if not trace.error:
                self._log.error(TRACE_FAILED, error=str(error), directory=str(self._directory))
            trace.error = str(error)
            return False
        self._told_dropped += dropped
        if trace.error:
            self._log.warning(TRACE_RESUMED, directory=str(self._directory))
            trace.error = ""
        return True

    def _write(self, data: bytes) -> None:
        """All of it or nothing: no line is torn by a disk that is full."""
        file = self._open_file()
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            try:
                os.ftruncate(file.fileno(), self._written_bytes)
            except OSError:
                # What comes next is not to continue a torn line.
                self._close()
            raise
        self._written_bytes += len(data)

    def _is_over(self) -> bool:
        is_old = self._clock() - self._opened_at >= self._file_age_seconds_max
        return self._file is not None and (self._written_bytes >= self._file_bytes_max or is_old)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _end_file(self) -> None:
        """The file is done. That it cannot be compressed does not keep the next from its begin."""
        self._close()
        with contextlib.suppress(OSError):
            _compress(self._path)

    def _open_file(self) -> io.FileIO:
        if self._is_over():
            self._end_file()
        if self._file is not None and not os.fstat(self._file.fileno()).st_nlink:
            # Somebody has removed it: what is written there nobody finds.
            self._close()
        if self._file is None:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            self._tidy()
            self._number += 1
            when = self._moment()
            name = f"trace-{when}-{self._trace.boot_id}-{self._number:06d}{_SUFFIX}"
            self._path = self._directory / name
            self._file = create_file(self._path)
            self._written_bytes = 0
            self._opened_at = self._clock()
        return self._file

    def _moment(self) -> str:
        """When the file begins: behind all that are there, also if the clock was set back."""
        moment = datetime.now(UTC).strftime(_MOMENT)
        latest = max((path.name for path in self._directory.glob("trace-*")), default="")
        with contextlib.suppress(ValueError, IndexError):
            before = datetime.strptime(latest.split("-")[1], _MOMENT)
            moment = max(moment, (before + timedelta(microseconds=1)).strftime(_MOMENT))
        return moment

    def _tidy(self) -> None:
        """Compress what earlier runs have left, and drop the oldest above what is kept."""
        for left in self._directory.glob(f"trace-*{_PACKING_SUFFIX}"):
            left.unlink()
        # Their names are in the order of their begins.
        ended = sorted(self._directory.glob(f"trace-*{_SUFFIX}*"))
        drop_count = max(len(ended) - self._files_max, 0)
        for oldest in ended[:drop_count]:
            oldest.unlink()
        for kept in ended[drop_count:]:
            if kept.name.endswith(_SUFFIX):
                with contextlib.suppress(OSError):
                    _compress(kept)


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
