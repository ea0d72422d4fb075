"""Whether a client is still there: two heartbeat intervals without a sign mean that it is not."""

from __future__ import annotations

# The watch looks twice an interval, so this many silent looks are two intervals (rabbit_heartbeat).
SILENT_LOOKS_MAX = 4


class HeartbeatWatch:
    """Counts looks without a sign in between. Has no clock: `look` is called twice an interval.

    `signs` is whatever changes while the client lives: reads of it, bytes that it has taken.
    """

    __slots__ = ("_signs_before", "_silent_looks", "signs")

    def __init__(self) -> None:
        self.signs = 0
        self._signs_before = 0
        self._silent_looks = 0

    def look(self, is_listening: bool) -> bool:
        """Is the client still there? Who cannot give one is not blamed."""
        if self.signs == self._signs_before and is_listening:
            self._silent_looks += 1
        else:
            self._silent_looks = 0
        self._signs_before = self.signs
        return self._silent_looks < SILENT_LOOKS_MAX
