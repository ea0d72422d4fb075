"""The messages that must, may and must not be in one queue after a crash, by its clients.

Threads of the load add to the sets while they run; each addition is one operation of a set. What
a client sends (publishes, acks, purges) is noted before it is sent, what it learns afterwards, so
that whenever the broker dies the ledger claims no more than clients could know.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from numbered_messages import publisher_of


class Findings(NamedTuple):
    """One queue after a restart, in numbers; everything that must not be was asserted."""

    confirmed: int
    found: int
    settled: int
    # Acked in the last moments, and how many of these came back.
    acked_late: int
    repeated: int
    redelivered: int


class QueueLedger:
    """The clients' knowledge of the queue `name`; `is_consumed` if the load consumes from it."""

    def __init__(self, name: str, is_consumed: bool) -> None:
        self.name = name
        self.is_consumed = is_consumed
        # In the queue for certain when the round began.
        self.present: set[int] = set()
        self.sent: set[int] = set()
        self.confirmed: set[int] = set()
        # Acks sent for these; and of them, those known to be settled.
        self.acked: set[int] = set()
        self.settled: set[int] = set()
        # Purged, or maybe so; and is a purge under way?
        self.purged: set[int] = set()
        self.maybe_purged: set[int] = set()
        self.is_purging = False
        # Known to have been delivered, and the journal to know it; how often, at the least.
        self.delivered: dict[int, int] = {}

    def begin_purge(self) -> set[int]:
        """A purge is about to be sent; what it will have removed once it is answered."""
        self.is_purging = True
        return self.present | self.confirmed

    def end_purge(self, removed: set[int]) -> None:
        """It was answered: what was sent while it ran may be gone or not."""
        self.purged |= removed
        self.maybe_purged |= self.sent
        self.is_purging = False

    def note_delivered(self, keys: Iterable[int]) -> None:
        """The journal knows of a delivery of each of these."""
        for key in keys:
            self.delivered[key] = self.delivered.get(key, 0) + 1

    def check(self, found: list[tuple[int, bool]]) -> Findings:
        """Compare with what a restart brought back, in order: key and redelivered flag.

        From then on exactly that is known to be in the queue.
        """
        name = self.name
        keys = {key for key, _ in found}
        gone = self.settled | self.purged
        if self.is_purging:
            self.maybe_purged |= self.present | self.sent
        must = (self.present | self.confirmed) - gone - self.acked - self.maybe_purged
        lost = sorted(must - keys)
        assert not lost, f"{name} lost {len(lost)} confirmed messages: {lost[:20]}"
        assert len(keys) == len(found), f"{name} holds messages twice"
        back = sorted(keys & gone)
        assert not back, f"{name}: {len(back)} settled or purged messages are back: {back[:20]}"
        unknown = sorted(keys - self.present - self.sent)
        assert not unknown, f"{name} holds messages that nobody sent to it: {unknown[:20]}"
        self._check_order([key for key, _ in found])
        self._check_flags(found)
        findings = Findings(
            len(self.confirmed),
            len(found),
            len(self.settled),
            len(self.acked - self.settled),
            len(keys & self.acked),
            sum(redelivered for _, redelivered in found),
        )
        self._begin(keys)
        return findings

    def _check_order(self, keys: list[int]) -> None:
        latest: dict[int, int] = {}
        for key in keys:
            publisher = publisher_of(key)
            before = latest.get(publisher, 0)
            assert before < key, f"{self.name}: {key} stands behind {before}"
            latest[publisher] = key

    def _check_flags(self, found: list[tuple[int, bool]]) -> None:
        delivered = self.delivered
        unmarked = [key for key, redelivered in found if key in delivered and not redelivered]
        assert not unmarked, f"{self.name}: delivered before, yet not redelivered: {unmarked[:20]}"
        if not self.is_consumed:
            marked = [key for key, redelivered in found if redelivered and key not in delivered]
            assert not marked, f"{self.name}: redelivered, yet never delivered: {marked[:20]}"

    def check_attempts(self, attempts: dict[int, int]) -> int:
        """Compare with the attempts that the journal has kept; the sum of those expected.

        Where nobody but the checks consumes, they must be exact.
        """
        expected = 0
        for key, known in self.delivered.items():
            kept = attempts.get(key)
            if kept is not None:
                assert kept >= known, f"{self.name}: {key} had {known} attempts, kept {kept}"
                assert kept == known or self.is_consumed, f"{self.name}: {key}: {kept} attempts"
                expected += known
        return expected

    def _begin(self, keys: set[int]) -> None:
        self.present = keys
        self.sent = set()
        self.confirmed = set()
        self.acked = set()
        self.settled = set()
        self.purged = set()
        self.maybe_purged = set()
        self.is_purging = False
        self.delivered = {key: count for key, count in self.delivered.items() if key in keys}

    def keep(self, keys: set[int]) -> None:
        """All but these were acked, and that is known to be settled."""
        self._begin(keys)
