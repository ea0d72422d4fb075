"""A queue that may hold so much: x-max-length and x-max-length-bytes, with their overflows.

What counts is what is ready, as in RabbitMQ: messages that are out with consumers do not, nor do
those that a consumer takes at once, and of a message only its body. Over the limit
- with drop-head, which is the default, the oldest messages go. They are confirmed all the same. A
  requeue can be too much, too, and what was requeued is then the oldest;
- with reject-publish the new message does not come in: its publisher gets a nack. Nothing that is
  in the queue is ever dropped, so what is requeued may exceed the limit;
- with reject-publish-dlx the same, and the message goes to the queue's dead-letter exchange.

A queue without such arguments is a plain MessageQueue.
"""

from __future__ import annotations

from array import array
from typing import Final

from ..amqp_frames.batch import Batch, Indexes
from .death_headers import MAXLEN
from .effects import Effects, EntryRange
from .in_flight import Delivery
from .limits import Limits
from .message_queue import MessageQueue
from .span import RefusedSpan, Span

# Above every count and size: no limit.
_UNLIMITED: Final = 1 << 62


class LimitedQueue(MessageQueue):
    """A MessageQueue within limits."""

    __slots__ = (
        "_counts_bytes",
        "_dead_letters_rejected",
        "_ready_bytes",
        "_ready_bytes_max",
        "_ready_max",
        "_rejects",
    )

    def __init__(
        self, identity: object, durable: bool, delivery_window_bytes_max: int, limits: Limits
    ) -> None:
        super().__init__(identity, durable, delivery_window_bytes_max)
        ready_max, ready_bytes_max = limits.ready_max, limits.ready_bytes_max
        self._rejects = limits.rejects
        self._dead_letters_rejected = limits.dead_letters_rejected
        self._ready_max = _UNLIMITED if ready_max is None else ready_max
        self._ready_bytes_max = _UNLIMITED if ready_bytes_max is None else ready_bytes_max
        # Bodies are looked at only if they are limited.
        self._counts_bytes = ready_bytes_max is not None
        self._ready_bytes = 0

    # --- Counting what is ready

    def restore(self, span: Span) -> None:
        """As any queue; what is too much goes with the first dispatch."""
        super().restore(span)
        if not self._is_spent(span.attempts):
            self._count(span.batch, span.indexes)

    def purge(self) -> tuple[int, list[EntryRange]]:
        """As any queue."""
        self._ready_bytes = 0
        return super().purge()

    def _take(self, count: int) -> Span:
        span = super()._take(count)
        self._uncount(span)
        return span

    def _put_back(self, delivery: Delivery, low: int, high: int) -> None:
        super()._put_back(delivery, low, high)
        self._count(delivery.span.batch, delivery.span.indexes[low:high])

    def _count(self, batch: Batch, indexes: Indexes) -> None:
        if self._counts_bytes:
            self._ready_bytes += sum(map(batch.body_bytes, indexes))

    def _uncount(self, span: Span) -> None:
        if self._counts_bytes:
            self._ready_bytes -= sum(map(span.batch.body_bytes, span.indexes))

    # --- What comes in

    def publish(self, batch: Batch, indexes: Indexes, effects: Effects) -> None:
        """Enqueue what may come in; what consumers with room take at once is not counted."""
        if self._rejects:
            self._publish_or_reject(batch, indexes, effects)
            return
        first = self.next_entry_id
        stored = self._take_in(batch, indexes, effects)
        self._append(batch, indexes, first, stored)
        self._deliver_new(effects)
        self._trim(effects)

    def _append(self, batch: Batch, indexes: Indexes, first_entry_id: int, stored: bool) -> None:
        self.ready.append(Span(batch, indexes, first_entry_id, 0, stored))
        self._count(batch, indexes)

    def _deliver_new(self, effects: Effects) -> None:
        """Give consumers with room what has just been appended, before anything is too much."""
        super()._dispatch(effects)

    def _publish_or_reject(self, batch: Batch, indexes: Indexes, effects: Effects) -> None:
        """Message by message in effect: each that is delivered at once makes room for another.

        In rows in fact: as many as fit, then as many as consumers have made room for, and so on.
        """
        first = self.next_entry_id
        # The journal will not know those that are transient; to settle them writes nothing.
        stored = self.durable and (batch.durable is None or len(batch.durable) > 0)
        accepted, rejected = array("I"), array("I")
        position = 0
        while position < len(indexes):
            fitting = self._fitting(batch, indexes, position)
            if fitting:
                row = indexes[position : position + fitting]
                self._append(batch, row, first + len(accepted), stored)
                accepted.extend(row)
                self._deliver_new(effects)
                self._trim(effects)
            elif self.ready.message_count >= self._ready_max:
                rejected.extend(indexes[position:])
                break
            else:
                # Too many bytes for this one; a smaller one behind it may fit.
                rejected.append(indexes[position])
                fitting = 1
            position += fitting
        if accepted:
            self._take_in(batch, accepted if rejected else indexes, effects)
        if rejected:
            effects.rejected = rejected
            if self._dead_letters_rejected and self.dead_letters:
                # It never had an entry, so there is nothing to settle.
                effects.dead.append((RefusedSpan(batch, rejected), MAXLEN))

    def _fitting(self, batch: Batch, indexes: Indexes, position: int) -> int:
        """How many of the messages from this position on may come in now."""
        fitting = min(len(indexes) - position, self._ready_max - self.ready.message_count)
        if self._counts_bytes:
            ready_bytes = self._ready_bytes
            for count in range(fitting):
                ready_bytes += batch.body_bytes(indexes[position + count])
                if ready_bytes > self._ready_bytes_max:
                    return count
        return max(fitting, 0)

    # --- What must go

    def _dispatch(self, effects: Effects) -> None:
        # Something may have been requeued: what is too much by that is not delivered again.
        self._trim(effects)
        super()._dispatch(effects)

    def _trim(self, effects: Effects) -> None:
        """With drop-head: drop the oldest until no limit is exceeded."""
        ready = self.ready
        if self._rejects:
            return
        while ready.message_count > self._ready_max:
            self._drop(ready.message_count - self._ready_max, MAXLEN, effects)
        while self._ready_bytes > self._ready_bytes_max:
            head = ready.head()
            assert head is not None
            self._drop(self._excess_of(head), MAXLEN, effects)

    def _excess_of(self, head: Span) -> int:
        """How many of the row must go, at most, until the bytes are within the limit."""
        ready_bytes = self._ready_bytes
        for count, index in enumerate(head.indexes, 1):
            ready_bytes -= head.batch.body_bytes(index)
            if ready_bytes <= self._ready_bytes_max:
                return count
        return len(head)

    def _drop(self, count: int, reason: str, effects: Effects) -> None:
        span = self.ready.take(count)
        self._uncount(span)
        self._leave(span, reason, effects)
