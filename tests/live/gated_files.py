"""The machine's disk, behind a gate: `hold` keeps every sync from returning until `release`.

So "before the sync" is a place in a test, not a race: the gate is closed, the broker is given a
message, `wait_until_syncing` says that the journal has written it and waits for the disk, and what
the broker sends now it sends before the sync.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from leveret.storage.files import Buffer, OperatingSystemFiles

TIMEOUT_SECONDS = 15.0


class GatedFiles(OperatingSystemFiles):
    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self._waiting = threading.Semaphore(0)
        # The error that the next operation of this name raises.
        self.failing: dict[str, OSError] = {}
        self.syncs = 0

    def hold(self) -> None:
        """Close the gate."""
        self._open.clear()

    def release(self) -> None:
        """Open it."""
        self._open.set()

    def wait_until_syncing(self) -> None:
        """Return when a sync waits at the closed gate."""
        assert self._waiting.acquire(timeout=TIMEOUT_SECONDS), "no sync was begun"

    def write(self, handle: int, buffers: Sequence[Buffer]) -> int:
        self._fail("write")
        return super().write(handle, buffers)

    def sync_data(self, handle: int) -> None:
        if not self._open.is_set():
            self._waiting.release()
            assert self._open.wait(TIMEOUT_SECONDS), "nobody opened the gate"
        self._fail("sync_data")
        super().sync_data(handle)
        self.syncs += 1

    def _fail(self, name: str) -> None:
        error = self.failing.pop(name, None)
        if error is not None:
            raise error
