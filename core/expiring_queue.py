"""A queue whose messages may expire: `x-message-ttl`, and `expiration` of single messages.

A message gets its deadline when it enters the queue: the smaller of the two times from now. It
keeps it when it is requeued, and over a restart. As in RabbitMQ's classic queues
- a message expires at the head of the queue only, so one with a short time to live waits behind
  one with a longer, and is dropped when it comes to the head;
- what is out with a consumer does not expire;
- with a time to live of 0 a message goes to a consumer that has room at once, or nowhere.

What has expired is settled, and confirmed like any message, or dead-lettered. A queue becomes one
of these with its first message that has an `expiration`, if its arguments have not made it one.
"""

from __future__ import annotations

from array import array
from typing import Final

from ..amqp_frames.batch import TTL_NONE, Batch, Indexes
from .death_headers import EXPIRED
from .effects import Effects
from .in_flight import Delivery
from .limited_queue import LimitedQueue
from .limits import Limits
from .message_queue import MessageQueue
from .span import ExpiringSpan, Span

# Rows that may expire before others get their turn; each is some microseconds.
EXPIRED_ROWS_MAX: Final = 2_000


class ExpiringQueue(LimitedQueue):
    """A LimitedQueue, perhaps without limits, with deadlines.

    `now_ms` is the time, in milliseconds since the epoch; who calls sets it before each call.
    """

    __slots__ = ("_deadlines", "_is_behind", "_is_empty", "_is_new", "_ttl_ms", "now_ms")

    def __init__(
        self, identity: object, durable: bool, delivery_window_bytes_max: int, limits: Limits
    ) -> None:
        super().__init__(identity, durable, delivery_window_bytes_max, limits)
        self._ttl_ms = TTL_NONE if limits.ttl_ms is None else limits.ttl_ms
        self.now_ms = 0
        # Of the messages that are coming in: deadlines in runs, and how long these are.
        self._deadlines: list[tuple[int, int]] = []
        self._is_new = False
        # Was nothing ready before these?
        self._is_empty = False
        # Has more expired than this call has dropped?
        self._is_behind = False

    @classmethod
    def continuing(cls, queue: MessageQueue) -> ExpiringQueue:
        """A queue that goes on where `queue`, which is not to be used any more, has got to."""
        made = cls(queue.identity, queue.durable, 0, Limits())
        for kind in type(queue).__mro__:
            for name in getattr(kind, "__slots__", ()):
                setattr(made, name, getattr(queue, name))
        return made

    # --- Deadlines

    def head_deadline_ms(self) -> int | None:
        """When the next message to be delivered expires; None if it does not or there is none."""
        head = self.ready.head()
        return head.deadline_ms if isinstance(head, ExpiringSpan) else None

    def _deadline(self, ttl_ms: int) -> int:
        return 0 if ttl_ms == TTL_NONE else self.now_ms + ttl_ms

    def _runs(self, batch: Batch, indexes: Indexes) -> list[tuple[int, int]]:
        """The deadlines of new messages in order, 0 for none, each with how many it is for."""
        own = self._ttl_ms
        ttls_ms = batch.ttls_ms
        if ttls_ms is None:
            return [(self._deadline(own), len(indexes))]
        runs: list[tuple[int, int]] = []
        for index in indexes:
            deadline = self._deadline(min(own, ttls_ms[index]))
            if runs and runs[-1][0] == deadline:
                runs[-1] = (deadline, runs[-1][1] + 1)
            else:
                runs.append((deadline, 1))
        return runs

    # --- What comes in

    def publish(self, batch: Batch, indexes: Indexes, effects: Effects) -> None:
        """As any queue. What expires at once has had its chance to be delivered."""
        self._expire_head(effects)
        self._is_empty = not self.ready.message_count
        first = self.next_entry_id
        self._deadlines.clear()
        super().publish(batch, indexes, effects)
        if effects.appended is not None:
            effects.deadlines = self._deadlines_of(effects.appended[1], first)

    def _deadlines_of(self, entry_ids: range | array[int], first: int) -> int | array[int]:
        """Those of new entries, of which `first` is the first, aligned if they differ."""
        runs = self._deadlines
        if all(deadline == runs[0][0] for deadline, _ in runs):
            return runs[0][0]
        each = array("Q")
        for deadline, count in runs:
            each.extend([deadline] * count)
        return array("Q", [each[entry_id - first] for entry_id in entry_ids])

    def _append(self, batch: Batch, indexes: Indexes, first_entry_id: int, stored: bool) -> None:
        start = 0
        for deadline, count in self._runs(batch, indexes):
            row = indexes[start : start + count]
            first = first_entry_id + start
            if deadline:
                self.ready.append(ExpiringSpan(batch, row, first, 0, stored, deadline))
            else:
                self.ready.append(Span(batch, row, first, 0, stored))
            self._deadlines.append((deadline, count))
            start += count
        self._count(batch, indexes)

    def _deliver_new(self, effects: Effects) -> None:
        # What is old may have expired behind the head. As a rule consumers have no room then; but
        # there may be room that is not known here yet: a channel's credit, a connection's way out.
        self._is_new = self._is_empty
        super()._deliver_new(effects)
        self._is_new = False

    # --- What must go

    def expire(self, effects: Effects) -> None:
        """Time has passed. Nobody has more room by that, so nobody is asked for it."""
        self._dispatch(effects)

    def _has_next(self, effects: Effects) -> bool:
        if not self._is_new and (self._is_behind or not self._expire_head(effects)):
            return False
        return super()._has_next(effects)

    def _trim(self, effects: Effects) -> None:
        # What has expired does not count.
        if self._expire_head(effects):
            super()._trim(effects)
            self._expire_head(effects)

    def get(self, channel: object, no_ack: bool, effects: Effects) -> Delivery | None:
        """As any queue: the first message that has not expired."""
        while not self._expire_head(effects):
            pass
        delivery = super().get(channel, no_ack, effects)
        # What comes to the head by that may have expired, and does not count as left.
        self._expire_head(effects)
        return delivery

    def _expire_head(self, effects: Effects) -> bool:
        """Drop what has expired at the head; False if the bound was met before its end."""
        ready, now_ms = self.ready, self.now_ms
        for _ in range(EXPIRED_ROWS_MAX):
            head = ready.head()
            if not isinstance(head, ExpiringSpan) or head.deadline_ms > now_ms:
                self._is_behind = False
                return True
            self._drop(len(head), EXPIRED, effects)
        self._is_behind = True
        return False


def spans_of(
    batch: Batch,
    indexes: Indexes,
    first_entry_id: int,
    attempts: int,
    deadlines: int | array[int],
) -> list[Span]:
    """Rows of messages as the journal kept them; deadlines as in its records."""
    if deadlines == 0:
        return [Span(batch, indexes, first_entry_id, attempts, stored=True)]
    each = [deadlines] * len(indexes) if isinstance(deadlines, int) else deadlines
    spans: list[Span] = []
    start = 0
    for position in range(1, len(each) + 1):
        if position < len(each) and each[position] == each[start]:
            continue
        row, first, deadline = indexes[start:position], first_entry_id + start, each[start]
        if deadline:
            spans.append(ExpiringSpan(batch, row, first, attempts, True, deadline))
        else:
            spans.append(Span(batch, row, first, attempts, stored=True))
        start = position
    return spans
