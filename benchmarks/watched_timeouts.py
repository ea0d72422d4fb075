"""Leveret that notes how late in-flight time-outs return, and writes it to a file now and then.

    TIMEOUT_LATENESS_FILE=lateness.json python -m benchmarks.watched_timeouts serve --data-dir D

Only here, inside, is it known when the queue has a message back. The note costs about a
microsecond for each delivery that is returned. The file is written anew each second, because a
broker with very much in flight may be ended by its own stop_timeout_ms.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from leveret.commands.command_line import main
from leveret.core.queue.rules import Effects, MessageQueue

LATENESS_FILE: Final = "TIMEOUT_LATENESS_FILE"
SAVE_MS: Final = 1_000


class Watched:
    """Messages by how many milliseconds late they returned, and the most that was in flight."""

    def __init__(self, path: Path | None = None) -> None:
        """`path` is where to write it; None for nowhere."""
        self.late: Counter[int] = Counter()
        self.in_flight_max = 0
        self._path = path
        self._saves_at_ms = 0

    def save_if_due(self, uptime_ms: int) -> None:
        """Write it down if that was a second ago."""
        if self._path is not None and uptime_ms >= self._saves_at_ms:
            self._saves_at_ms = uptime_ms + SAVE_MS
            self.save(self._path)

    def save(self, path: Path) -> None:
        """Write it down."""
        noted = {"in_flight_max": self.in_flight_max, "late": sorted(self.late.items())}
        begun = path.with_suffix(".begun")
        begun.write_text(json.dumps(noted))
        begun.replace(path)


def watch(path: Path | None = None) -> Watched:
    """Note what queues return from now on."""
    watched = Watched(path)
    expire = MessageQueue.expire

    def expire_watched(queue: MessageQueue, effects: Effects) -> None:
        watched.in_flight_max = max(watched.in_flight_max, queue.in_flight.message_count)
        expire(queue, effects)
        for _, delivery, low, high in effects.timed_out or ():
            deadline = delivery.deadline
            assert deadline is not None
            due_ms = deadline.delivered_ms + deadline.timeout_ms
            watched.late[queue.uptime_ms - due_ms] += high - low
        watched.save_if_due(queue.uptime_ms)

    MessageQueue.expire = expire_watched  # type: ignore[method-assign,assignment]
    return watched


if __name__ == "__main__":
    watch(Path(os.environ[LATENESS_FILE]))
    sys.exit(main())
