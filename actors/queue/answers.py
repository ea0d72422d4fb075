"""The answers that one queue owes publishers, and sends once a turn: confirms and rejects.

A persistent message is confirmed when the journal says that it is on disk, and a repeat of one
behind it: fsync before confirm. A queue that ends nacks everything that it owes, and answers each
question with its 404.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...amqp_frames.errors import SoftError
from ...amqp_frames.messages.batch import Batch, Indexes
from ...core.definitions import QueueDefinition
from ...core.queue.dedup import Deduplicated
from ..messages import (
    AddConsumer,
    Append,
    Confirm,
    ConsumerRemoved,
    Empty,
    Get,
    Publish,
    Purge,
    Ref,
    Refused,
    Reject,
    RemoveConsumer,
    ReportStatus,
    TopicAnswer,
)
from ..runtime.runtime import tell
from ..tracing.queue import QueueTracing

Items = dict[Ref, list[tuple[Batch, Indexes]]]

# For a trace, and for the answer to tx.commit.
NO_ROOM: Final = "no space left on the disk"


class QueueAnswers:
    """Confirms and rejects, by channel."""

    def __init__(self, queue: QueueDefinition, tracing: QueueTracing) -> None:
        self._queue = queue
        self._tracing = tracing
        # Why it rejects, for the trace: AMQP cannot say.
        self._reason = "the queue is full"
        self._confirms: Items = {}
        self._rejects: Items = {}
        # What it would take if the disk had room.
        self._rejects_for_now: Items = {}
        # Appends that the journal has not answered, in order.
        self._owed: dict[int, Append] = {}
        # Repeats of stored messages, by the append that was the last when they came: the journal
        # answers in order.
        self._behind: dict[int, Items] = {}

    def owe(self, append: Append) -> None:
        """Confirm these when the journal has them."""
        self._owed[id(append)] = append

    def synced_below(self, next_entry_id: int) -> int:
        """The journal has all stored entries with ids below this."""
        for append in self._owed.values():
            return append.entry_ids[0]
        return next_entry_id

    def persisted(self, appends: Sequence[Append]) -> None:
        """The journal has these."""
        for append in appends:
            if append.batch.traced is not None:
                self._tracing.step("message.persisted", append.batch, append.indexes)
            for channel, batch, indexes in append.publishes:
                self.confirm(channel, batch, indexes)
            # Last: should one of these fail, the append is still owed, and nacked with the rest.
            self._owed.pop(id(append), None)
        if self._behind:
            for append in appends:
                for channel, items in self._behind.pop(id(append), {}).items():
                    for batch, indexes in items:
                        self.confirm(channel, batch, indexes)

    def repeat(self, publish: Publish, found: Deduplicated) -> None:
        """Confirm the repeats in a publish, and those of stored messages once these are on disk.

        Which append that is, nobody knows any more: so once all are that the journal has not
        answered. Fsync before confirm.
        """
        channel, batch = publish.channel, publish.batch
        stored, transient = found.repeats_stored, found.repeats_transient
        for indexes in (stored, transient):
            if indexes:
                self._tracing.step("message.duplicate", batch, indexes)
        if stored:
            if self._owed:
                last = next(reversed(self._owed))
                behind = self._behind.setdefault(last, {})
                behind.setdefault(channel, []).append((batch, stored))
            else:
                self.confirm(channel, batch, stored)
        if transient:
            self.confirm(channel, batch, transient)

    def unstored(self, appends: Sequence[Append]) -> None:
        """The disk has no room for these: they are nacked, once, whatever became of them here.

        A message that repeats one of them is nacked, too. Which repeats these are, nobody knows
        any more: so all are that wait.
        """
        for append in appends:
            if self._owed.pop(id(append), None) is not None:
                for published in append.publishes:
                    self._reject_for_now(*published)
        for channel, batch, indexes in self._forget_repeats():
            self._reject_for_now(channel, batch, indexes)

    def _forget_repeats(self) -> Iterator[tuple[Ref, Batch, Indexes]]:
        """The repeats that wait for the disk; they wait no more."""
        behind, self._behind = self._behind, {}
        for repeats in behind.values():
            for channel, items in repeats.items():
                for batch, indexes in items:
                    yield channel, batch, indexes

    def _reject_for_now(self, channel: Ref, batch: Batch, indexes: Indexes) -> None:
        self._tracing.wrong("confirm.rejected", batch, indexes, reason=NO_ROOM)
        self._rejects_for_now.setdefault(channel, []).append((batch, indexes))

    def confirm(self, channel: Ref, batch: Batch, indexes: Indexes) -> None:
        """The queue has these, on disk where that is promised."""
        if batch.traced is not None:
            self._tracing.step("confirm.queued", batch, indexes)
        items = self._confirms.get(channel)
        if items is None:
            self._confirms[channel] = [(batch, indexes)]
        else:
            items.append((batch, indexes))

    def reject(self, channel: Ref, batch: Batch, indexes: Indexes) -> None:
        """The queue will not have these."""
        self._tracing.wrong("confirm.rejected", batch, indexes, reason=self._reason)
        self._rejects.setdefault(channel, []).append((batch, indexes))

    def forget(self, channel: Ref) -> None:
        """The channel is gone."""
        self._confirms.pop(channel, None)
        self._rejects.pop(channel, None)
        self._rejects_for_now.pop(channel, None)

    def send(self) -> None:
        """Tell every channel its confirms and its rejects, once each."""
        if self._confirms:
            for channel, items in self._confirms.items():
                tell(channel, Confirm(self._queue, items))
            self._confirms.clear()
        if self._rejects:
            for channel, items in self._rejects.items():
                tell(channel, Reject(self._queue, items, self._reason))
            self._rejects.clear()
        if self._rejects_for_now:
            for channel, items in self._rejects_for_now.items():
                tell(channel, Reject(self._queue, items, NO_ROOM, is_for_now=True))
            self._rejects_for_now.clear()

    def reject_all(self, reason: str) -> None:
        """The queue goes: messages on disk that are not yet confirmed are not kept, so rejected.

        `reason` is why, of these and of all later rejects.
        """
        self._reason = reason
        confirms, self._confirms = self._confirms, {}
        for channel, items in confirms.items():
            for batch, indexes in items:
                self.reject(channel, batch, indexes)
        for append in self._owed.values():
            for published in append.publishes:
                self.reject(*published)
        self._owed.clear()
        for channel, batch, indexes in self._forget_repeats():
            self.reject(channel, batch, indexes)


def refuse(message: object, answers: QueueAnswers, error: SoftError) -> None:
    """Answer what a queue that goes will not handle any more; `error` says that it is gone."""
    if isinstance(message, Publish):
        answers.reject(message.channel, message.batch, message.indexes)
    elif isinstance(message, RemoveConsumer):
        tell(message.channel, ConsumerRemoved(message.consumer_tag))
    elif isinstance(message, (AddConsumer, Get)):
        tell(message.channel, Refused(error))
    elif isinstance(message, Empty):
        tell(message.reply_to, TopicAnswer(message.token, error))
    elif isinstance(message, (ReportStatus, Purge)):
        tell(message.reply_to, Refused(error))
