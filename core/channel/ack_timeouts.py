"""Deliveries that wait too long for their ack: x-consumer-timeout, which closes their channel.

Only deliveries of queues that were declared with the argument are noted here, those of basic.get
too. As in RabbitMQ up to 4.2 the broker closes the channel with 406, and its messages in flight
return to their queues. Times are seconds of the caller's clock.
"""

from __future__ import annotations

import heapq
from typing import Final

from ...amqp_frames.constants import PRECONDITION_FAILED
from ...amqp_frames.errors import SoftError
from .unacked import Unacked

# When its time is over, the first and the last tag, and how long it was in ms.
_Note = tuple[float, int, int, int]
# Past so many noted deliveries, the acked ones among them are forgotten.
NOTED_MIN: Final = 64


class AckTimeouts:
    """Notes delivery tags and by when they must be acked.

    The caller calls `check` at each time that `wake_at` returns.
    """

    def __init__(self, channel_number: int, unacked: Unacked) -> None:
        self._channel_number = channel_number
        self._unacked = unacked
        # By time.
        self._noted: list[_Note] = []
        self._noted_max = NOTED_MIN
        # In tx mode: notes of tags that are not held any more, which a rollback may give back.
        self.is_transactional = False
        self._lapsed: list[_Note] = []
        self._wakes_at = float("inf")

    def note(self, first_tag: int, last_tag: int, timeout_ms: int, now: float) -> None:
        """The client must ack these tags, which are sent now, within this time."""
        over = now + timeout_ms / 1000
        heapq.heappush(self._noted, (over, first_tag, last_tag, timeout_ms))
        if len(self._noted) > self._noted_max:
            if self.is_transactional:
                self._lapsed += [note for note in self._noted if not self._is_held(note)]
            self._noted = list(filter(self._is_held, self._noted))
            heapq.heapify(self._noted)
            self._noted_max = max(NOTED_MIN, 2 * len(self._noted))

    def check(self, now: float) -> None:
        """Raise 406 if a tag is still held past its time; the caller calls this when it wakes."""
        self._wakes_at = float("inf")
        while self._noted and self._noted[0][0] <= now:
            note = heapq.heappop(self._noted)
            if self._is_held(note):
                raise SoftError(
                    PRECONDITION_FAILED,
                    f"delivery acknowledgement on channel {self._channel_number} timed out. "
                    f"Timeout value used: {note[3]} ms. This timeout value can be configured, "
                    "see consumers doc guide to learn more",
                )
            if self.is_transactional:
                self._lapsed.append(note)

    def transaction_ended(self, is_rolled_back: bool) -> None:
        """A commit has made acks final; a rollback holds their tags again, with their deadlines."""
        if is_rolled_back:
            self._noted += filter(self._is_held, self._lapsed)
            heapq.heapify(self._noted)
        self._lapsed.clear()

    def forget_returning(self) -> None:
        """All held tags are about to return to their queues.

        Tags that were acked in an open transaction stay noted, because a rollback holds them again.
        """
        noted = []
        for over, first_tag, last_tag, timeout_ms in self._noted:
            tags = self._unacked.not_held(first_tag, last_tag)
            if tags is not None:
                noted.append((over, *tags, timeout_ms))
        heapq.heapify(noted)
        self._noted = noted

    def _is_held(self, note: _Note) -> bool:
        return self._unacked.holds(note[1], note[2])

    def wake_at(self) -> float | None:
        """When to `check` next; None if the caller was told of a time as early, or none is due."""
        if not self._noted or self._noted[0][0] >= self._wakes_at:
            return None
        self._wakes_at = self._noted[0][0]
        return self._wakes_at
