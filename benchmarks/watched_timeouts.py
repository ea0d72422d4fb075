"""Leveret that notes how late in-flight time-outs return, and writes it to a file when it stops.

    TIMEOUT_LATENESS_FILE=lateness.json python -m benchmarks.watched_timeouts serve --data-dir D

Only here, inside, is it known when the queue has a message back. The note costs about a
microsecond for each delivery that is returned.
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


class Watched:
    """Messages by how many milliseconds late they returned, and the most that was in flight."""

    def __init__(self) -> None:
        self.late: Counter[int] = Counter()
        self.in_flight_max = 0

    def save(self, path: Path) -> None:
        """Write it down."""
        noted = {"in_flight_max": self.in_flight_max, "late": sorted(self.late.items())}
        path.write_text(json.dumps(noted))


def watch() -> Watched:
    """Note what queues return from now on."""
    watched = Watched()
    expire = MessageQueue.expire

    def expire_watched(queue: MessageQueue, effects: Effects) -> None:
        watched.in_flight_max = max(watched.in_flight_max, queue.in_flight.message_count)
        expire(queue, effects)
        for _, delivery, low, high in effects.timed_out or ():
            deadline = delivery.deadline
            assert deadline is not None
            due_ms = deadline.delivered_ms + deadline.timeout_ms
            watched.late[queue.uptime_ms - due_ms] += high - low

    MessageQueue.expire = expire_watched  # type: ignore[method-assign,assignment]
    return watched


if __name__ == "__main__":
    noted = watch()
    status = main()
    noted.save(Path(os.environ[LATENESS_FILE]))
    sys.exit(status)
