"""When deferred messages may come, and must have: none is early, none lost, none is late by much.

Clocks are this machine's: a message is due no earlier than its delay after it was sent, and no
later than its delay after the broker has said that it has it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from timeouts import TIMEOUT_SECONDS

# The broker's clocks count whole milliseconds.
CLOCK_SECONDS = 0.002


class Came(NamedTuple):
    """A deferred message, how often it was delivered before, and when it came."""

    key: int
    attempts: int
    at: float
    # Where the client sees it.
    entry_id: int = 0


class DueReceiver(threading.Thread):
    """Reads deferred messages until there are `count`: `receive` adds to the list `received`."""

    def __init__(self, receive: Callable[[list[Came], int], None], count: int) -> None:
        super().__init__(name="receiver of deferred messages", daemon=True)
        self.received: list[Came] = []
        self.failure: BaseException | None = None
        self._receive = receive
        self._count = count

    def run(self) -> None:
        try:
            self._receive(self.received, self._count)
        except BaseException as error:
            self.failure = error


class Due:
    """When one message may come, at the earliest, and when it must have, by the wall clock."""

    def __init__(self, earliest: float, attempts: int) -> None:
        self.earliest = earliest
        self.latest = 0.0
        self.attempts = attempts


class Dues:
    """The deferred messages of a queue, by key."""

    def __init__(self) -> None:
        self._dues: dict[int, Due] = {}
        self.late_max = 0.0

    def note_ready(self, keys: list[int]) -> None:
        """These are published without a delay."""
        now = time.time()
        self._dues.update((key, Due(now, 0)) for key in keys)

    def defer(
        self, delays_ms: dict[int, int], send: Callable[[], None], more_attempts: int = 0
    ) -> None:
        """Messages are deferred by `send`, which returns when the broker has them."""
        now = time.time()
        deferred = {}
        for key, delay_ms in delays_ms.items():
            before = self._dues.get(key)
            attempts = more_attempts + (0 if before is None else before.attempts)
            deferred[key] = Due(now + delay_ms / 1000, attempts)
        self._dues.update(deferred)
        send()
        now = time.time()
        for key, delay_ms in delays_ms.items():
            self._dues[key].latest = now + delay_ms / 1000

    def check(self, came: Came) -> Due:
        """It is not early, and has the right attempts."""
        key, attempts, now, _ = came
        due = self._dues[key]
        early = due.earliest - CLOCK_SECONDS - now
        assert early <= 0, f"{key} came {early:.3f} s before it was due"
        assert attempts == due.attempts, f"{key} had {attempts} attempts, not {due.attempts}"
        return due

    def start_receiving(
        self, ready_count: int, receive: Callable[[list[Came], int], None]
    ) -> DueReceiver:
        """Behind a start: read all as they come. `ready_count` are ready just now."""
        now = time.time()
        due = sum(each.earliest - CLOCK_SECONDS <= now for each in self._dues.values())
        assert ready_count <= due, f"{ready_count} are ready, and only {due} may be due"
        receiver = DueReceiver(receive, len(self._dues))
        receiver.start()
        return receiver

    def check_all(self, receiver: DueReceiver, started: float, delay_seconds_max: float) -> str:
        """Wait for all, and compare; `started` is when the broker listened. Returns figures."""
        receiver.join(TIMEOUT_SECONDS + delay_seconds_max)
        assert receiver.failure is None, receiver.failure
        assert not receiver.is_alive(), f"{len(receiver.received)} of {len(self._dues)} came"
        late, over_before = 0.0, 0
        for came in receiver.received:
            due = self.check(came)
            del self._dues[came.key]
            over_before += due.latest < started
            late = max(late, came.at - max(due.latest, started))
        assert not self._dues, f"lost: {sorted(self._dues)[:10]}"
        self.late_max = max(self.late_max, late)
        return (
            f"{len(receiver.received)} deferred, {over_before} of them due before the start, "
            f"none early, lost=0, attempts right, late by at most {late:.3f} s"
        )
