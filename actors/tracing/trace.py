"""A channel's trace events about publishes and deliveries, the read of a publish included."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from ...amqp_frames.errors import AmqpError
from ...amqp_frames.messages.batch import Batch, Indexes
from ...core.channel.transaction import Part
from ...core.connection.handshake import ClientIdentity
from ...core.definitions import QueueDefinition
from ...core.publishing.delivery_commands import is_command_key
from ...core.queue.in_flight import Delivery
from ...core.queue.span import Span
from ...logs.secrets import masked
from ...logs.trace.sampling import among, positions, ranges
from ...logs.trace.trace import Trace
from ..runtime.wall_clock import MACHINE_CLOCK
from .answers import AnswerTracing
from .channel import ChannelEvents
from .marks import mark, mark_late
from .queue import moment, queue_step, received

if TYPE_CHECKING:
    from ...core.channel.tx_mode import TransactionEnd
    from ...core.publishing.publisher import Routed
    from ...core.publishing.unconfirmed import Unconfirmed


_MANDATORY = 1
_NOTHING: Mapping[str, object] = {}


class ChannelTracing(ChannelEvents):
    """One channel's share of the trace; `answers` has what it says to its publisher."""

    def __init__(self, trace: Trace, number: int, handshake: ClientIdentity) -> None:
        super().__init__(trace, number, handshake)
        # Not this itself: no cycle, so that all of a channel goes with its last reference.
        self.answers = AnswerTracing(ChannelEvents(trace, number, handshake))
        self.is_transactional = False
        # Traced batches of the transaction that is being committed.
        self._committing: list[int] = []

    def published(self, routed: Routed, unconfirmed: Unconfirmed) -> None:
        """A batch was routed; before its queues are told."""
        batch = routed.batch
        queues = [queue.name for queue in routed.by_queue]
        chosen = self.trace.choose(
            batch.number, routed.message_count, self.connection, self.user, queues
        )
        if chosen is not None and self.trace.filter.queues:
            chosen = self._of_filter(routed, chosen)
        mark(batch, chosen or ())
        if routed.error is not None:
            self._mistake(routed, routed.error)
        if chosen:
            self._chosen(routed, unconfirmed, chosen)
        if routed.frames and not self.trace.filter.queues and self.is_wanted():
            self._late_returns(routed)

    def _chosen(self, routed: Routed, unconfirmed: Unconfirmed, chosen: Indexes) -> None:
        """Tell of the messages that are traced, up to their queues."""
        batch, first_seq_no = routed.batch, routed.first_seq_no
        read = {"batch_messages": len(batch), "bytes": batch.wire_bytes}
        self.write_about("frame.received", batch, chosen, **read)
        fields: dict[str, object] = {"user": self.user}
        if self.is_transactional:
            fields["transaction"] = True
            self._committing.append(batch.number)
        client = {"vhost": self.vhost, "client": self.client}
        self._numbered("command.assembled", routed, chosen, client, **fields)
        exchanges = _exchanges_of(batch, chosen)
        self.write_about("permission.granted", batch, chosen, user=self.user, exchanges=exchanges)
        by_queue = {
            queue.name: among(chosen, indexes) for queue, indexes in routed.by_queue.items()
        }
        by_queues = self._routed(batch, chosen, by_queue)
        unrouted = by_queues.pop((), ())
        acked: set[int] = set()
        if unrouted or routed.replies:
            acked = self._unrouted(routed, chosen, unrouted)
        if first_seq_no:
            after = len(unconfirmed)
            before = after - unconfirmed.open_count(batch)
            for queues, indexes in by_queues.items():
                self._numbered(
                    "unconfirmed.inserted",
                    routed,
                    indexes,
                    queues=list(queues),
                    unconfirmed_before=before,
                    unconfirmed_after=after,
                )
            # A returned message has its own ack behind it already.
            self.answers.expect(_seq_nos(first_seq_no, _without(chosen, acked)))

    def _late_returns(self, routed: Routed) -> None:
        """Trace returned messages from here on, though the sampling has not chosen them."""
        batch = routed.batch
        there: set[int] = set().union(*routed.by_queue.values())
        returned = [
            index
            for index in range(routed.message_count)
            if index not in there and _is_returned(_key_of(batch, index))
        ]
        late = mark_late(self.trace, batch, returned)
        if late is not None:
            self._numbered("message.returned", routed, late, reason="NO_ROUTE", late=True)

    def _mistake(self, routed: Routed, error: AmqpError) -> None:
        """The first message that is not published: the channel ends with it."""
        place = routed.message_count
        fields: dict[str, object] = {
            "reply_code": error.reply_code,
            "reason": masked(error.reply_text),
        }
        if routed.first_seq_no:
            fields["seq_no"] = _seq_nos(routed.first_seq_no, (place,))
        spans = ranges(received(routed.batch, (place,)))
        self.tell("message.refused", batch=routed.batch.number, messages=spans, **fields)

    def _of_filter(self, routed: Routed, chosen: Indexes) -> Indexes:
        """Of these, the messages that go to the queues that the filter names."""
        names = self.trace.filter.queues
        asked = [indexes for queue, indexes in routed.by_queue.items() if queue.name in names]
        parts = [among(chosen, indexes) for indexes in asked]
        return parts[0] if len(parts) == 1 else array("I", sorted(set().union(*parts)))

    def _routed(
        self, batch: Batch, chosen: Indexes, by_queue: Mapping[str, Indexes]
    ) -> dict[tuple[str, ...], Sequence[int]]:
        """One event for each key and row of queues; returns the messages of each row."""
        rows: dict[tuple[int, tuple[str, ...]], Sequence[int]] = {}
        if len(batch.distinct) == 1 and all(len(each) == len(chosen) for each in by_queue.values()):
            rows[0, tuple(by_queue)] = chosen
        else:
            queues_of: dict[int, tuple[str, ...]] = dict.fromkeys(chosen, ())
            for name, own in by_queue.items():
                for index in own:
                    queues_of[index] += (name,)
            mixed: dict[tuple[int, tuple[str, ...]], list[int]] = {}
            for index, queues in queues_of.items():
                mixed.setdefault((batch.keys[index], queues), []).append(index)
            rows.update(mixed)
        by_queues: dict[tuple[str, ...], list[Sequence[int]]] = {}
        for (number, queues), indexes in rows.items():
            key = batch.distinct[number]
            end = 1 + key[0]
            self.write_about(
                "message.routed",
                batch,
                indexes,
                {"vhost": self.vhost},
                exchange=_exchange_of(key),
                routing_key=key[end + 1 : -1].decode("utf-8", "replace"),
                mandatory=bool(key[-1] & _MANDATORY),
                queues=list(queues),
            )
            by_queues.setdefault(queues, []).append(indexes)
        return {
            queues: parts[0] if len(parts) == 1 else sorted(chain.from_iterable(parts))
            for queues, parts in by_queues.items()
        }

    def _unrouted(self, routed: Routed, chosen: Indexes, unrouted: Sequence[int]) -> set[int]:
        """Trace the fate of messages that no queue gets; returns those acked with their return."""
        batch = routed.batch
        returned = [index for index in unrouted if _is_returned(_key_of(batch, index))]
        carried_out = [index for index in unrouted if is_command_key(_key_of(batch, index))]
        replies: set[int] = set().union(*routed.replies.values())
        replied = [index for index in chosen if index in replies]
        others = {*returned, *replied, *carried_out}
        dropped = [index for index in unrouted if index not in others]
        for event, indexes, reason in (
            ("message.returned", returned, "NO_ROUTE"),
            ("command.carried_out", carried_out, "it is about a delivery of the channel"),
            ("message.replied", replied, "its key names a reply consumer"),
            ("message.dropped", dropped, "no route, and not mandatory"),
        ):
            if indexes:
                self._numbered(event, routed, indexes, reason=reason)
        return set(returned)

    def _numbered(
        self,
        event: str,
        routed: Routed,
        indexes: Sequence[int],
        before: Mapping[str, object] = _NOTHING,
        **fields: object,
    ) -> None:
        """An event with the publishes' sequence numbers, if they have any."""
        if routed.first_seq_no:
            fields["seq_no"] = _seq_nos(routed.first_seq_no, indexes)
        self.write_about(event, routed.batch, indexes, before, **fields)

    def transaction(self, end: TransactionEnd) -> None:
        """A transaction has ended: committed, when tx.commit-ok is written."""
        batches, self._committing = self._committing, []
        self.tell(
            end.event,
            user=self.user,
            batches=batches,
            publishes=end.publish_count,
            acks=sum(high - low for held in end.acks for _, low, high in held.parts),
            reason=end.reason,
        )

    def rejected(self, queue: QueueDefinition, batch: Batch, indexes: Indexes, reason: str) -> None:
        """A queue will never have these messages, and is not there to say so."""
        self.answers.note_reason(queue.name, reason)
        queue_step(self.trace, "confirm.rejected", queue, batch, indexes, reason=reason)

    # --- Consumers

    def delivered(
        self,
        queue: QueueDefinition,
        span: Span,
        first_tag: int,
        consumer_tag: bytes,
        timeout_ms: int | None,
    ) -> None:
        """Messages were written to a consumer, or as the answer to basic.get.

        `timeout_ms`: how long they may be in flight from now on; None: for ever.
        """
        if span.batch.traced is None:
            return
        at = positions(span.batch.traced, span.indexes)
        if at:
            until = (
                {} if timeout_ms is None else {"until": moment(MACHINE_CLOCK.now_ms() + timeout_ms)}
            )
            self.write_about(
                "message.delivered",
                span.batch,
                among(span.batch.traced, span.indexes),
                {"client": self.client, "vhost": queue.vhost, "queue": queue.name},
                consumer_tag=consumer_tag[1:].decode("utf-8", "replace"),
                delivery_tag=[[first_tag + first, first_tag + last] for first, last in ranges(at)],
                attempt=span.attempts + 1,
                **until,
            )

    def acked(self, parts: Iterable[Part], reason: str) -> None:
        """The consumer's ack, reject or return of these parts came in."""
        for delivery, low, high in parts:
            span = delivery.span
            if span.batch.traced is None:
                if not len(span):
                    self._late(delivery, low, high, reason)
                continue
            indexes = span.indexes[low:high]
            at = positions(span.batch.traced, indexes)
            if at:
                queue: QueueDefinition = delivery.queue  # type: ignore[assignment]
                tag = delivery.first_tag + low
                self.write_about(
                    "ack.received",
                    span.batch,
                    among(span.batch.traced, indexes),
                    {"vhost": queue.vhost, "queue": queue.name},
                    delivery_tag=[[tag + first, tag + last] for first, last in ranges(at)],
                    reason=reason,
                )

    def _late(self, delivery: Delivery, low: int, high: int, reason: str) -> None:
        """An answer came behind its time-out; its messages are the queue's affair again."""
        queue: QueueDefinition = delivery.queue  # type: ignore[assignment]
        if self.trace.filter.is_of_queue(queue.name):
            first = delivery.first_tag
            self.tell(
                "ack.late",
                vhost=queue.vhost,
                queue=queue.name,
                delivery_tag=[[first + low, first + high - 1]],
                reason=reason,
            )

    def closed(self, reply_code: int, reason: str) -> None:
        """The channel ends; publishes unanswered by now will never be answered."""
        if self.answers.open or self.trace.is_on:
            self.write(
                "channel.closed",
                seq_no=self.answers.abandon(),
                reply_code=reply_code,
                reason=masked(reason),
            )


def _exchange_of(key: bytes) -> str:
    return key[1 : 1 + key[0]].decode("utf-8", "replace")


def _exchanges_of(batch: Batch, indexes: Indexes) -> list[str]:
    """Where these messages were published to."""
    if len(batch.distinct) == 1:
        return [_exchange_of(batch.distinct[0])]
    numbers = {batch.keys[index] for index in indexes}
    return sorted({_exchange_of(batch.distinct[number]) for number in numbers})


def _is_returned(key: bytes) -> bool:
    """Is a publish with this key returned when no queue gets it?"""
    return bool(key[-1] & _MANDATORY) and not is_command_key(key)


def _key_of(batch: Batch, index: int) -> bytes:
    return batch.distinct[batch.keys[index]]


def _without(indexes: Indexes, others: set[int]) -> Sequence[int]:
    return [index for index in indexes if index not in others] if others else indexes


def _seq_nos(first_seq_no: int, indexes: Sequence[int]) -> list[list[int]]:
    return [[first_seq_no + first, first_seq_no + last] for first, last in ranges(indexes)]
