"""How much memory the messages of all queues may hold together, and which queues page when.

Each queue says what it holds, when it has changed. When all hold more than the budget, the fullest
page, so that they hold three quarters of it or less. What cannot be paged yet, because the disk
does not have it, stays: then the next try is made when so much more has come that it is worth it.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

# What a queue keeps at its head at most, so that consumers need not wait for the disk.
KEPT_BYTES_MAX: Final = 256 * 1024
# Between two tries so much must come: one part of the budget in so many.
RETRY_PART: Final = 16

Holder = TypeVar("Holder")


class MemoryBudget(Generic[Holder]):
    """`budget_bytes` for all holders; `used_bytes` are held by them."""

    __slots__ = ("_held", "budget_bytes", "relief_bytes", "used_bytes")

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        # Above this it is time for `relieve`.
        self.relief_bytes = budget_bytes
        self._held: dict[Holder, int] = {}

    def change(self, holder: Holder, held_bytes: int) -> None:
        """The holder has so much now; 0: it holds nothing, or is no more."""
        self.used_bytes += held_bytes - self._held.get(holder, 0)
        if held_bytes:
            self._held[holder] = held_bytes
        else:
            self._held.pop(holder, None)
        # It goes down with the held bytes: behind a peak the next try would never come while an
        # alarm stops publishers.
        retry_bytes = self.used_bytes + self.budget_bytes // RETRY_PART
        if retry_bytes < self.relief_bytes:
            self.relief_bytes = max(self.budget_bytes, retry_bytes)

    def relieve(self) -> list[tuple[Holder, int]]:
        """Whom to have page, the fullest first, and how many bytes each may keep.

        All that hold more than they would if three quarters of the budget were shared out.
        """
        self.relief_bytes = self.used_bytes + self.budget_bytes // RETRY_PART
        kept_bytes = min(KEPT_BYTES_MAX, self.budget_bytes // (4 * max(1, len(self._held))))
        level = self._level(self.budget_bytes * 3 // 4)
        above = [item for item in self._held.items() if item[1] > max(level, kept_bytes)]
        above.sort(key=lambda item: item[1], reverse=True)
        return [(holder, kept_bytes) for holder, _ in above]

    def _level(self, wanted_bytes: int) -> int:
        """How much each may hold at most for all to hold so many.

        Queues that are about as full page together: they share reads, whose bytes become free only
        when the last of them has paged its part.
        """
        rest, count = wanted_bytes, len(self._held)
        for held in sorted(self._held.values()):
            if held * count > rest:
                return rest // count
            rest -= held
            count -= 1
        return wanted_bytes
