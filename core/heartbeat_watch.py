"""Whether a client is still there: two heartbeat intervals without a read mean that it is not."""

from __future__ import annotations

# The watch looks twice an interval, so this many silent looks are two intervals (rabbit_heartbeat).
SILENT_LOOKS_MAX = 4


class HeartbeatWatch:
    """Counts looks without a read in between. Has no clock: `look` is called twice an interval."""

    __slots__ = ("_reads_before", "_silent_looks", "reads")

    def __init__(self) -> None:
        self.reads = 0
        self._reads_before = 0
        self._silent_looks = 0

    def look(self, is_listening: bool) -> bool:
        """Is the client still there? A client that is not listened to cannot be blamed."""
        if self.reads == self._reads_before and is_listening:
            self._silent_looks += 1
        else:
            self._silent_looks = 0
        self._reads_before = self.reads
        return self._silent_looks < SILENT_LOOKS_MAX
