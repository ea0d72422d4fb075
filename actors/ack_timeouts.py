"""Deliveries that wait too long for their ack: x-consumer-timeout, which closes their channel.

Runs inside the channel's actor. Only deliveries of queues that were declared with the argument come
here, those of basic.get too; without it nobody is hurried. As in RabbitMQ up to 4.2 the channel
is closed, 406, and all that it holds goes back to its queues.
"""

from __future__ import annotations

import heapq
from typing import Final

from ..amqp_frames.constants import PRECONDITION_FAILED
from ..amqp_frames.errors import SoftError
from ..core.unacked import Unacked
from .messages import Ref, WakeAt
from .node_context import NodeContext
from .runtime import tell

_ACKS_DUE: Final = "acks due"
# When its time is over, the first and the last tag, and how long it was in ms.
_Note = tuple[float, int, int, int]
# With so many deliveries noted, those that were acked are forgotten.
NOTED_MIN: Final = 64


class AckTimeouts:
    """Notes delivery tags and by when they must be acked."""

    def __init__(
        self, context: NodeContext, channel: Ref, channel_number: int, unacked: Unacked
    ) -> None:
        self._context = context
        self._channel = channel
        self._channel_number = channel_number
        self._unacked = unacked
        # By time.
        self._noted: list[_Note] = []
        self._noted_max = NOTED_MIN
        # In tx mode: notes of tags that are not held any more, which a rollback may give back.
        self.is_transactional = False
        self._lapsed: list[_Note] = []
        self._wakes_at = float("inf")

    def delivered(self, first_tag: int, last_tag: int, timeout_ms: int) -> None:
        """These tags have gone out, and must be acked within so long."""
        over = self._context.runtime.scheduler.time() + timeout_ms / 1000
        heapq.heappush(self._noted, (over, first_tag, last_tag, timeout_ms))
        if len(self._noted) > self._noted_max:
            if self.is_transactional:
                self._lapsed += [note for note in self._noted if not self._is_held(note)]
            self._noted = list(filter(self._is_held, self._noted))
            heapq.heapify(self._noted)
            self._noted_max = max(NOTED_MIN, 2 * len(self._noted))
        self._wait()

    def woken(self) -> None:
        """A time is over: 406 if one of its tags is still held."""
        self._wakes_at = float("inf")
        now = self._context.runtime.scheduler.time()
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
        self._wait()

    def transaction_ended(self, is_rolled_back: bool) -> None:
        """What was acked in it is acked; or is held again, and for as long as before."""
        if is_rolled_back:
            self._noted += filter(self._is_held, self._lapsed)
            heapq.heapify(self._noted)
        self._lapsed.clear()
        self._wait()

    def recovered(self) -> None:
        """What is held is about to go back to its queues, whatever becomes of a transaction.

        What was acked in one, a rollback may still give back.
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

    def _wait(self) -> None:
        if self._noted and self._noted[0][0] < self._wakes_at:
            self._wakes_at = self._noted[0][0]
            tell(self._context.ticker, WakeAt(self._wakes_at, self._channel, _ACKS_DUE))
