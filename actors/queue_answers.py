"""What a queue has yet to answer to its publishers, gathered until its mailbox is empty."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from ..amqp_frames.batch import Batch, Indexes
from ..amqp_frames.errors import SoftError
from ..core.definitions import QueueDefinition
from .messages import (
    AddConsumer,
    Append,
    Confirm,
    ConsumerRemoved,
    Get,
    PrepareDelete,
    Publish,
    Purge,
    Ref,
    Refused,
    Reject,
    RemoveConsumer,
    ReportStatus,
)
from .queue_tracing import QueueTracing
from .runtime import LoopInbox, TurnOver, tell

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
        # Appends that the journal has not answered, in order.
        self._owed: dict[int, Append] = {}

    def owe(self, append: Append) -> None:
        """Confirm these when the journal has them."""
        self._owed[id(append)] = append

    def persisted(self, appends: Sequence[Append]) -> None:
        """The journal has these."""
        for append in appends:
            self._owed.pop(id(append), None)
            self._tracing.step("message.persisted", append.batch, append.indexes)
            self.confirm(append.channel, append.batch, append.indexes)

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
                tell(channel, Reject(self._queue, items, self._reason))
            self._rejects.clear()

    def reject_all(self, reason: str) -> None:
        """The queue goes: what is on disk but not yet said to be is not kept, so not confirmed.

        `reason` is why, of these and of all that is rejected from now on.
        """
        self._reason = reason
        confirms, self._confirms = self._confirms, {}
        for channel, items in confirms.items():
            for batch, indexes in items:
                self.reject(channel, batch, indexes)
        for append in self._owed.values():
            self.reject(append.channel, append.batch, append.indexes)
        self._owed.clear()


def refuse(message: object, answers: QueueAnswers, error: SoftError) -> None:
    """Answer what a queue that goes will not handle any more; `error` says that it is gone."""
    if isinstance(message, Publish):
        answers.reject(message.channel, message.batch, message.indexes)
    elif isinstance(message, RemoveConsumer):
        tell(message.channel, ConsumerRemoved(message.consumer_tag))
    elif isinstance(message, (AddConsumer, Get)):
        tell(message.channel, Refused(error))
    elif isinstance(message, (ReportStatus, PrepareDelete, Purge)):
        tell(message.reply_to, Refused(error))


def drained(inbox: LoopInbox) -> Iterator[object]:
    """What was told to a queue that goes and not handled."""
    inbox.budget = len(inbox.envelopes)
    with contextlib.suppress(TurnOver):
        while not inbox.empty():
            yield inbox.get().message
