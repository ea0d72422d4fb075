"""The machine's disk, behind a gate: `hold` keeps every sync from returning until `release`.

So "before the sync" is a place in a test, not a race: the gate is closed, the broker is given a
message, `wait_until_syncing` says that the journal has written it and waits for the disk, and what
the broker sends now it sends before the sync.
"""

from __future__ import annotations

import threading
from typing import Any

from leveret.storage.files import OperatingSystemFiles
from timeouts import TIMEOUT_SECONDS


class GatedFiles(OperatingSystemFiles):
    def __init__(self) -> None:
        super().__init__()
        self._open = threading.Event()
        self._open.set()
        self._waiting = threading.Semaphore(0)
        # The error that the next operation of this name raises.
        self.failing: dict[str, OSError] = {}
        # What the disk says is free; None: what really is.
        self.free: int | None = None
        # Syncs since the gate was last closed.
        self.syncs_begun = 0

    def hold(self) -> None:
        """Close the gate."""
        self.syncs_begun = 0
        self._open.clear()

    def release(self) -> None:
        """Open it."""
        self._open.set()

    def wait_until_syncing(self) -> None:
        """Return when a sync waits at the closed gate."""
        assert self._waiting.acquire(timeout=TIMEOUT_SECONDS), "no sync was begun"

    def free_bytes(self, directory: str) -> int:
        self._fail("free_bytes")
        return super().free_bytes(directory) if self.free is None else self.free

    def write(self, *where_and_what: Any) -> int:
        self._fail("write")
        return super().write(*where_and_what)

    def sync_data(self, handle: int) -> None:
        self.syncs_begun += 1
        if not self._open.is_set():
            self._waiting.release()
            assert self._open.wait(TIMEOUT_SECONDS), "nobody opened the gate"
        self._fail("sync_data")
        super().sync_data(handle)

    def _fail(self, name: str) -> None:
        error = self.failing.pop(name, None)
        if error is not None:
            raise error
