"""How late the event loop of a live broker is, whatever the broker does.

A claim that something is done in time is about the broker, and not about a machine that gives it no
processor.
"""

from __future__ import annotations

import leveret
from insides import context_of, on_loop

BEAT_SECONDS = 0.01


class Metronome:
    """Beats on the broker's event loop from now until it is asked, and notes the longest pause."""

    def __init__(self, broker: leveret.Broker) -> None:
        self._broker = broker
        self._loop = context_of(broker).runtime.scheduler
        self._longest_seconds = 0.0
        self._is_running = True
        on_loop(broker, self._wait)

    def _wait(self) -> None:
        self._beaten_at = self._loop.time()
        self._loop.call_at(self._beaten_at + BEAT_SECONDS, self._beat)

    def _beat(self) -> None:
        late = self._loop.time() - self._beaten_at - BEAT_SECONDS
        self._longest_seconds = max(self._longest_seconds, late)
        if self._is_running:
            self._wait()

    def longest_stall_ms(self) -> float:
        """By how much the latest beat was late; it stops."""
        self._is_running = False
        return 1000 * self._longest_seconds
