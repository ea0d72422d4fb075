"""How much memory the messages of all queues may hold together, and which queues page when.

Each queue says what it holds, when it has changed. When all hold more than the budget, the fullest
page, until they hold three quarters of it. What cannot be paged yet, because the disk does not have
it, stays: then the next try is made when so much more has come that it is worth it.
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
        if self.used_bytes <= self.budget_bytes:
            self.relief_bytes = self.budget_bytes

    def relieve(self) -> list[tuple[Holder, int]]:
        """Those that are to page, the fullest first, and how many bytes each may keep."""
        self.relief_bytes = self.used_bytes + self.budget_bytes // RETRY_PART
        kept_bytes = min(KEPT_BYTES_MAX, self.budget_bytes // (4 * max(1, len(self._held))))
        excess = self.used_bytes - self.budget_bytes * 3 // 4
        paging: list[tuple[Holder, int]] = []
        for holder, held in sorted(self._held.items(), key=lambda item: item[1], reverse=True):
            if excess <= 0 or held <= kept_bytes:
                break
            paging.append((holder, kept_bytes))
            excess -= held - kept_bytes
        return paging
