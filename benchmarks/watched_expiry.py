"""Leveret that notes how late its messages expire, and writes it to a file when it stops.

    EXPIRY_LATENESS_FILE=lateness.json python -m benchmarks.watched_expiry serve --data-dir D

Only here, inside, is it known when the broker let go of a message. The note costs half a
microsecond for each row of messages that expires together.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from leveret.commands.command_line import main
from leveret.core.queue.rules import Effects, MessageQueue
from leveret.core.queue.span import ExpiringSpan

LATENESS_FILE = "EXPIRY_LATENESS_FILE"


def watch() -> Counter[int]:
    """Note what queues drop from now on: messages by how many milliseconds late they went."""
    late: Counter[int] = Counter()
    drop = MessageQueue.drop

    def watched(queue: MessageQueue, count: int, reason: str, effects: Effects) -> None:
        head = queue.ready.head()
        if isinstance(head, ExpiringSpan):
            late[time.time_ns() // 1_000_000 - head.deadline_ms] += count
        drop(queue, count, reason, effects)

    MessageQueue.drop = watched  # type: ignore[method-assign, assignment]
    return late


if __name__ == "__main__":
    noted = watch()
    status = main()
    Path(os.environ[LATENESS_FILE]).write_text(json.dumps(sorted(noted.items())))
    sys.exit(status)
