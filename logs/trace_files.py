"""The trace on the disk: JSON lines in files that rotate, written by a thread of their own.

The thread takes what has gathered, renders it and writes it in one go. A full disk or a stalled one
costs events, which are counted and told of in the trace itself, and never holds the broker.
"""

from __future__ import annotations

import gzip
import os
import shutil
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from .trace import Trace
from .trace_lines import TraceLines

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_GATHER_SECONDS = 0.05
# So many events are rendered and written in one go.
_BLOCK_EVENTS = 5_000
_SUFFIX = ".jsonl"
# So long `stop` waits for a disk that stalls.
_STOP_SECONDS_MAX = 5.0


def create_file(path: Path) -> BinaryIO:
    """A new file, to be written without a buffer."""
    # Whoever reads the trace sees who talks to whom.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0)


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
        self._file: BinaryIO | None = None
        self._path = directory
        self._written_bytes = 0
        self._opened_at = 0.0
        self._number = 0
        self._told_dropped = 0
        self._has_failed = False

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
            while self._trace.entries or self._told_dropped < self._trace.dropped:
                self._write_block()
            if is_ending or not is_on:
                self._close()
            if not is_ending:
                # While it is off, until it is on again.
                (self._ending if is_on else self._wake).wait(_GATHER_SECONDS if is_on else None)
                self._wake.clear()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write_block(self) -> None:
        entries = self._trace.entries
        block = [entries.popleft() for _ in range(min(len(entries), _BLOCK_EVENTS))]
        dropped = self._trace.dropped - self._told_dropped
        if dropped:
            self._told_dropped += dropped
            lost: dict[str, object] = {"dropped": dropped}
            block.append((self._trace.now_ns(), "trace.lost", "trace", lost))
        data = self._lines.rendered(block, time.time_ns() - self._trace.now_ns())
        try:
            self._open_file().write(data)
            self._written_bytes += len(data)
        except OSError as error:
            self._trace.dropped += len(block)
            self._told_dropped += len(block) if len(block) == dropped else 0
            if not self._has_failed:
                self._log.error("trace.failed", error=str(error), directory=str(self._directory))
            self._has_failed = True
            # Not at once again: a disk that is full stays so for a while.
            self._ending.wait(1.0)

    def _open_file(self) -> BinaryIO:
        is_old = time.monotonic() - self._opened_at > self._file_age_seconds_max
        if self._file is not None and (self._written_bytes >= self._file_bytes_max or is_old):
            self._file.close()
            self._file = None
            self._compress(self._path)
        if self._file is None:
            self._drop_oldest()
            self._number += 1
            when = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
            name = f"trace-{when}-{self._trace.boot_id}-{self._number:06d}{_SUFFIX}"
            self._path = self._directory / name
            self._file = create_file(self._path)
            self._written_bytes = 0
            self._opened_at = time.monotonic()
        return self._file

    def _compress(self, path: Path) -> None:
        packed = path.with_name(path.name + ".gz")
        with path.open("rb") as plain, gzip.open(packed, "wb", compresslevel=1) as into:
            shutil.copyfileobj(plain, into)
        packed.chmod(0o600)
        path.unlink()

    def _drop_oldest(self) -> None:
        # Their names are in the order of their begins.
        ended = sorted(self._directory.glob(f"trace-*{_SUFFIX}*"))
        for oldest in ended[: max(len(ended) - self._files_max, 0)]:
            oldest.unlink()
