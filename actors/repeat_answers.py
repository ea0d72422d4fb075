"""The answers of a queue with a dedup window: repeats, too, wait for the disk."""

from __future__ import annotations

from collections.abc import Sequence

from ..amqp_frames.batch import Batch, Indexes
from ..core.definitions import QueueDefinition
from .messages import Append, Ref
from .queue_answers import QueueAnswers
from .queue_tracing import QueueTracing

_Repeats = list[tuple[Ref, Batch, Indexes]]


class RepeatAnswers(QueueAnswers):
    """QueueAnswers that know of messages which stand for others."""

    def __init__(self, queue: QueueDefinition, tracing: QueueTracing) -> None:
        super().__init__(queue, tracing)
        # By the append that was the last when they came: the journal answers in order.
        self._behind: dict[int, _Repeats] = {}

    def repeat(self, channel: Ref, batch: Batch, indexes: Indexes, is_stored: bool) -> None:
        """Confirm these once what they repeat is on disk.

        Which append that is, nobody knows any more: so once all are that the journal has not
        answered. Fsync before confirm.
        """
        if is_stored and self._owed:
            last = next(reversed(self._owed))
            self._behind.setdefault(last, []).append((channel, batch, indexes))
        else:
            self.confirm(channel, batch, indexes)

    def persisted(self, appends: Sequence[Append]) -> None:
        """The journal has these, and with them what their repeats stand for."""
        super().persisted(appends)
        for append in appends:
            for channel, batch, indexes in self._behind.pop(id(append), ()):
                self.confirm(channel, batch, indexes)

    def reject_all(self, reason: str) -> None:
        """The queue goes: what it has not confirmed is nacked, repeats with the rest."""
        super().reject_all(reason)
        for repeats in self._behind.values():
            for channel, batch, indexes in repeats:
                self.reject(channel, batch, indexes)
        self._behind.clear()
