"""What the runtime needs of an event loop: asyncio's have it, a simulation can pass its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Scheduler(Protocol):
    """Callbacks and a clock."""

    def call_soon(self, callback: Callable[[], object]) -> object:
        """Call back in the loop's next round."""

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> object:
        """Call back in the loop's next round; from any thread."""

    def call_at(self, when: float, callback: Callable[[], object]) -> object:
        """Call back when `time()` has reached `when`."""

    def time(self) -> float:
        """Seconds on a monotonic clock."""
