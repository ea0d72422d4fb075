"""A channel's trace events about the answers of queues and its own answers to its publisher.

A queue's confirm reaches the channel; when no queue owes a publish any more its answer waits until
the channel's mailbox is empty, so that one frame answers many (RabbitMQ's record_confirms and
noreply_coalesce); then the frames are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...amqp_frames.messages.batch import Batch, Indexes
from ...core.publishing.unconfirmed import SeqRange, Unconfirmed, coalesce, merge, split_answered
from ...logs.trace.sampling import among, ranges
from ..messages import Confirm, Reject
from .channel import ChannelEvents
from .marks import mark_late


class CountsBefore(NamedTuple):
    """The channel's counts before it handled a queue's answers."""

    message: Confirm | Reject
    # How many ranges there were to be answered.
    confirmed: int
    rejected: int
    # Of each batch in the message its first number, and how many publishes were open.
    batches: list[tuple[int, int]]


class AnswerTracing:
    """The traced numbers of one channel that are not answered yet."""

    def __init__(self, events: ChannelEvents) -> None:
        self._events = events
        # Why queues rejected the publishes that are to be nacked, because AMQP cannot say it.
        self._reasons: dict[str, None] = {}
        # Traced seq_nos that await their answers, ascending; the channel asks if there are any.
        self.open: list[SeqRange] = []

    def expect(self, numbers: Sequence[Sequence[int]]) -> None:
        """These publishes, above all earlier ones, are traced and await their answers."""
        self.open += [(first, last) for first, last in numbers]

    def counts_before(self, message: Confirm | Reject, unconfirmed: Unconfirmed) -> CountsBefore:
        """The counts to pass to `received` when the channel has handled the queue's answers."""
        return CountsBefore(
            message,
            len(unconfirmed.confirmed),
            len(unconfirmed.rejected),
            [
                (unconfirmed.first_seq_no(batch), unconfirmed.open_count(batch))
                for batch, _indexes in message.items
            ],
        )

    def received(self, before: CountsBefore, unconfirmed: Unconfirmed) -> None:
        """Write what the queue's answers changed: the channel has handled them."""
        message = before.message
        rejected = merge(unconfirmed.rejected[before.rejected :])
        for (batch, indexes), (first_seq_no, open_count) in zip(
            message.items, before.batches, strict=True
        ):
            if isinstance(message, Reject):
                self._rejected(message, batch, indexes, first_seq_no, rejected)
            else:
                self._of_queue("confirm.received", message, batch, indexes)
            if open_count and not unconfirmed.open_count(batch):
                self._judge_slow(batch, first_seq_no)
        confirmed = merge(unconfirmed.confirmed[before.confirmed :])
        recorded, _left = split_answered(self.open, merge([*confirmed, *rejected]))
        if recorded:
            self._events.write("confirm.recorded", seq_no=[list(each) for each in recorded])

    def _of_queue(
        self,
        event: str,
        message: Confirm | Reject,
        batch: Batch,
        indexes: Indexes,
        **fields: object,
    ) -> None:
        """An event about those of the messages that are traced, and the queue."""
        if batch.traced is not None and (traced := among(batch.traced, indexes)):
            queue = {"vhost": message.queue.vhost, "queue": message.queue.name}
            self._events.write_about(event, batch, traced, queue, **fields)

    def _rejected(
        self,
        message: Reject,
        batch: Batch,
        indexes: Indexes,
        first_seq_no: int,
        rejected: Sequence[SeqRange],
    ) -> None:
        """A refusal has reached the channel, and some of the publishes are to be nacked for it."""
        if batch.traced is None or not (traced := among(batch.traced, indexes)):
            return
        fields: dict[str, object] = {"reason": message.reason}
        if first_seq_no:
            numbers = [(first_seq_no + a, first_seq_no + b) for a, b in ranges(traced)]
            fields["seq_no"] = [list(each) for each in numbers]
            # `expect` has not heard of publishes whose trace began when the queue refused them.
            nacked, _others = split_answered(numbers, rejected)
            known, _left = split_answered(nacked, self.open)
            if known != nacked:
                fields["late"] = True
                self.open = merge([*self.open, *nacked])
        self.note_reason(message.queue.name, message.reason)
        self._of_queue("rejection.received", message, batch, indexes, **fields)

    def _judge_slow(self, batch: Batch, first_seq_no: int) -> None:
        """All publishes of the batch have their answer: did it take too long?"""
        trace = self._events.trace
        if not trace.slow_ns or not batch.received_ns:
            return
        took_ns = trace.now_ns() - batch.received_ns
        if took_ns < trace.slow_ns:
            return
        about = {
            "client": self._events.client,
            "batch_messages": len(batch),
            "duration_ns": took_ns,
        }
        traced = batch.traced
        late = mark_late(trace, batch, range(len(batch))) if self._events.is_wanted() else None
        for indexes, also in ((traced, {}), (late, {"late": True})):
            if indexes is not None and len(indexes):
                seq_no = [[first_seq_no + a, first_seq_no + b] for a, b in ranges(indexes)]
                self._events.write_about(
                    "confirm.slow", batch, indexes, seq_no=seq_no, **about, **also
                )

    def answering(self, unconfirmed: Unconfirmed) -> None:
        """The channel is about to send its confirms and nacks, some of them traced."""
        confirmed, rejected = unconfirmed.confirmed, unconfirmed.rejected
        # In place, because the frames' encoder merges them, too, and merged ranges merge quickly.
        confirmed[:], rejected[:] = merge(confirmed), merge(rejected)
        # No number is answered twice.
        answered = sum(last - first + 1 for first, last in [*confirmed, *rejected])
        for event, own, others in (
            ("confirm.sent", confirmed, rejected),
            ("confirm.nacked", rejected, confirmed),
        ):
            traced, self.open = split_answered(self.open, own)
            if not traced:
                continue
            # One for all of them is the reason of each; else each queue has its own.
            is_one = own is rejected and len(self._reasons) == 1
            why = {"reason": next(iter(self._reasons))} if is_one else {}
            cumulative, singles = coalesce(own, others, unconfirmed.smallest())
            self._events.write(
                event,
                seq_no=[list(each) for each in traced],
                cumulative=cumulative,
                singles=[list(each) for each in singles],
                unconfirmed_before=len(unconfirmed) + answered,
                unconfirmed_after=len(unconfirmed),
                smallest_unconfirmed=unconfirmed.smallest(),
                **why,
            )
        if rejected:
            self._reasons.clear()

    def note_reason(self, queue: str, reason: str) -> None:
        """Why messages of a queue are to be nacked."""
        if self.open:
            self._reasons[f"queue '{queue}': {reason}"] = None

    def abandon(self) -> list[list[int]]:
        """The channel ends: the numbers that it will never answer."""
        abandoned, self.open = self.open, []
        return [list(each) for each in abandoned]
