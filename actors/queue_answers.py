"""What a queue has yet to answer to its publishers, gathered until its mailbox is empty."""

from __future__ import annotations

from ..amqp_frames.batch import Batch, Indexes
from ..core.definitions import QueueDefinition
from .messages import Confirm, Ref, Reject
from .queue_tracing import QueueTracing
from .runtime import tell

Items = dict[Ref, list[tuple[Batch, Indexes]]]


class QueueAnswers:
    """Confirms and rejects, by channel."""

    def __init__(self, queue: QueueDefinition, tracing: QueueTracing) -> None:
        self._queue = queue
        self._tracing = tracing
        # Why it rejects, for the trace: AMQP cannot say.
        self._reason = "the queue is full"
        self._confirms: Items = {}
        self._rejects: Items = {}

    def confirm(self, channel: Ref, batch: Batch, indexes: Indexes) -> None:
        """The queue has these, on disk where that is promised."""
        self._tracing.step("confirm.queued", batch, indexes)
        self._confirms.setdefault(channel, []).append((batch, indexes))

    def reject(self, channel: Ref, batch: Batch, indexes: Indexes) -> None:
        """The queue will not have these."""
        self._tracing.step("confirm.rejected", batch, indexes, reason=self._reason)
        self._rejects.setdefault(channel, []).append((batch, indexes))

    def forget(self, channel: Ref) -> None:
        """The channel is gone."""
        self._confirms.pop(channel, None)
        self._rejects.pop(channel, None)

    def send(self) -> None:
        """Tell every channel what is confirmed and what is rejected, once each."""
        if self._confirms:
            for channel, items in self._confirms.items():
                tell(channel, Confirm(self._queue, items))
            self._confirms.clear()
        if self._rejects:
            for channel, items in self._rejects.items():
                tell(channel, Reject(self._queue, items))
            self._rejects.clear()

    def reject_unsent(self, reason: str) -> None:
        """What is on disk but not yet said to be will not be kept: not confirmed after all.

        `reason` is why, of these and of all that is rejected from now on.
        """
        self._reason = reason
        confirms, self._confirms = self._confirms, {}
        for channel, items in confirms.items():
            for batch, indexes in items:
                self.reject(channel, batch, indexes)
