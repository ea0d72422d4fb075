"""What a channel writes into the trace at its hops, and what its reader brought it."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..amqp_frames.batch import Batch, Indexes
from ..amqp_frames.errors import AmqpError
from ..core.coalescing import SeqRange, coalesce, merge, taken
from ..core.span import Span
from ..logs.sampling import among, positions, ranges
from ..logs.secrets import masked
from ..logs.trace import Trace
from .channel_events import ChannelEvents
from .queue_tracing import queue_step, received

if TYPE_CHECKING:
    from ..core.publisher import Routed
    from ..core.unconfirmed import Unconfirmed

_MANDATORY = 1


class ChannelTracing(ChannelEvents):
    """One channel's share of the trace: its name, and the traced numbers not answered yet."""

    def __init__(self, trace: Trace, connection: str, number: int, user: str) -> None:
        super().__init__(trace, connection, number, user)
        # Why queues rejected what is to be nacked: AMQP cannot say.
        self._reasons: dict[str, None] = {}
        self.is_transactional = False
        # Traced batches of the transaction that is being committed.
        self._committing: list[int] = []
        # Traced seq_nos that are to be answered, ascending.
        self._open: list[SeqRange] = []

    def published(self, routed: Routed, unconfirmed: Unconfirmed) -> None:
        """A batch was routed; before its queues are told."""
        batch, first_seq_no = routed.batch, routed.first_seq_no
        queues = [queue.name for queue in routed.told]
        chosen = self._trace.choose(
            batch.number, routed.message_count, self._connection, self._user, queues
        )
        if chosen is not None and self._trace.filter.queues:
            chosen = self._of_filter(routed, chosen)
        batch.traced = chosen or None
        if routed.error is not None:
            self._mistake(routed, routed.error)
        if not chosen:
            return
        self._write("frame.received", batch, chosen, bytes=batch.wire_bytes())
        fields: dict[str, object] = {"user": self._user}
        if self.is_transactional:
            fields["transaction"] = True
            self._committing.append(batch.number)
        self._numbered("command.assembled", routed, chosen, **fields)
        exchanges = _exchanges_of(batch, chosen)
        self._write("permission.granted", batch, chosen, user=self._user, exchanges=exchanges)
        told = {queue.name: among(chosen, indexes) for queue, indexes in routed.told.items()}
        unrouted = self._routed(batch, chosen, told)
        acked: set[int] = set()
        if unrouted or routed.replies:
            acked = self._unrouted(routed, chosen, unrouted)
        if first_seq_no:
            inserted = _without(chosen, set(unrouted))
            if inserted:
                after = len(unconfirmed)
                self._numbered(
                    "unconfirmed.inserted",
                    routed,
                    inserted,
                    queues=queues,
                    unconfirmed_before=after - unconfirmed.open_count(batch),
                    unconfirmed_after=after,
                )
            # What was returned has its own ack behind it already.
            for first, last in _seq_nos(first_seq_no, _without(chosen, acked)):
                self._open.append((first, last))

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
        """Of these, what goes to the queues that are asked for."""
        names = self._trace.filter.queues
        asked = [indexes for queue, indexes in routed.told.items() if queue.name in names]
        parts = [among(chosen, indexes) for indexes in asked]
        return parts[0] if len(parts) == 1 else array("I", sorted(set().union(*parts)))

    def _routed(self, batch: Batch, chosen: Indexes, told: Mapping[str, Indexes]) -> Sequence[int]:
        """One event for each key and row of queues; returns what no queue gets."""
        rows: dict[tuple[int, tuple[str, ...]], Sequence[int]] = {}
        if len(batch.distinct) == 1 and all(len(each) == len(chosen) for each in told.values()):
            rows[0, tuple(told)] = chosen
        else:
            queues_of: dict[int, tuple[str, ...]] = dict.fromkeys(chosen, ())
            for name, own in told.items():
                for index in own:
                    queues_of[index] += (name,)
            mixed: dict[tuple[int, tuple[str, ...]], list[int]] = {}
            for index, queues in queues_of.items():
                mixed.setdefault((batch.keys[index], queues), []).append(index)
            rows.update(mixed)
        unrouted: list[int] = []
        for (number, queues), indexes in rows.items():
            key = batch.distinct[number]
            end = 1 + key[0]
            self._write(
                "message.routed",
                batch,
                indexes,
                exchange=_exchange_of(key),
                routing_key=key[end + 1 : -1].decode("utf-8", "replace"),
                mandatory=bool(key[-1] & _MANDATORY),
                queues=list(queues),
            )
            if not queues:
                unrouted += indexes
        return sorted(unrouted)

    def _unrouted(self, routed: Routed, chosen: Indexes, unrouted: Sequence[int]) -> set[int]:
        """What became of what no queue gets; returns what has its ack with its return."""
        batch = routed.batch
        returned = [index for index in unrouted if _key_of(batch, index)[-1] & _MANDATORY]
        replies: set[int] = set().union(*routed.replies.values())
        replied = [index for index in chosen if index in replies]
        gone = {*returned, *replied}
        dropped = [index for index in unrouted if index not in gone]
        for event, indexes, reason in (
            ("message.returned", returned, "NO_ROUTE"),
            ("message.replied", replied, "its key names a reply consumer"),
            ("message.dropped", dropped, "no route, and not mandatory"),
        ):
            if indexes:
                self._numbered(event, routed, indexes, reason=reason)
        return set(returned)

    def _numbered(
        self, event: str, routed: Routed, indexes: Sequence[int], **fields: object
    ) -> None:
        """An event with the publishes' sequence numbers, if they have any."""
        if routed.first_seq_no:
            fields["seq_no"] = _seq_nos(routed.first_seq_no, indexes)
        self._write(event, routed.batch, indexes, **fields)

    def answering(self, unconfirmed: Unconfirmed) -> None:
        """What is confirmed and rejected is about to be said."""
        if not self._open:
            return
        confirmed, rejected = unconfirmed.confirmed, unconfirmed.rejected
        # In place: who makes the frames of these merges them, too, and what is merged is quick.
        confirmed[:], rejected[:] = merge(confirmed), merge(rejected)
        # No number is answered twice.
        answered = sum(last - first + 1 for first, last in [*confirmed, *rejected])
        for event, said, others in (
            ("confirm.sent", confirmed, rejected),
            ("confirm.nacked", rejected, confirmed),
        ):
            traced, self._open = taken(self._open, said)
            if not traced:
                continue
            reasons = {"reason": "; ".join(self._reasons)} if said is rejected else {}
            cumulative, singles = coalesce(said, others, unconfirmed.smallest())
            self._trace.write(
                event,
                "channel",
                connection=self._connection,
                channel=self._number,
                seq_no=[list(each) for each in traced],
                cumulative=cumulative,
                singles=[list(each) for each in singles],
                unconfirmed_before=len(unconfirmed) + answered,
                unconfirmed_after=len(unconfirmed),
                smallest_unconfirmed=unconfirmed.smallest(),
                **reasons,
            )
        if rejected:
            self._reasons.clear()

    def rejecting(self, queue: str, reason: str) -> None:
        """A queue rejects messages for this reason, which is told with their nack."""
        if self._open:
            self._reasons[f"queue '{queue}': {reason}"] = None

    def transaction(self, event: str, publishes: int, acks: int, reason: str) -> None:
        """A transaction has ended: committed, when tx.commit-ok is written."""
        batches, self._committing = self._committing, []
        self.tell(
            event,
            user=self._user,
            batches=batches,
            publishes=publishes,
            acks=acks,
            reason=reason,
        )

    def rejected(self, queue: str, batch: Batch, indexes: Indexes, reason: str) -> None:
        """A queue will never have these messages, and is not there to say so."""
        self.rejecting(queue, reason)
        queue_step(self._trace, "confirm.rejected", queue, batch, indexes, reason=reason)

    def delivered(self, queue: str, span: Span, first_tag: int, consumer_tag: bytes) -> None:
        """Messages were written to a consumer, or as the answer to basic.get."""
        if span.batch.traced is None:
            return
        at = positions(span.batch.traced, span.indexes)
        if at:
            self._write(
                "message.delivered",
                span.batch,
                among(span.batch.traced, span.indexes),
                queue=queue,
                consumer_tag=consumer_tag[1:].decode("utf-8", "replace"),
                delivery_tag=[[first_tag + first, first_tag + last] for first, last in ranges(at)],
                attempt=span.attempts + 1,
            )

    def closed(self, reply_code: int, reason: str) -> None:
        """The channel ends; what it has not answered by now it never will."""
        if self._open or self._trace.is_on:
            self._trace.write(
                "channel.closed",
                "channel",
                connection=self._connection,
                channel=self._number,
                seq_no=[list(each) for each in self._open],
                reply_code=reply_code,
                reason=masked(reason),
            )
            self._open = []

    def _write(self, event: str, batch: Batch, indexes: Sequence[int], **fields: object) -> None:
        is_read = event == "frame.received"
        self._trace.write(
            event,
            "reader" if is_read else "channel",
            batch.received_ns if is_read else 0,
            connection=self._connection,
            channel=self._number,
            batch=batch.number,
            messages=ranges(received(batch, indexes)),
            **fields,
        )


def _exchange_of(key: bytes) -> str:
    return key[1 : 1 + key[0]].decode("utf-8", "replace")


def _exchanges_of(batch: Batch, indexes: Indexes) -> list[str]:
    """Where these messages were published to."""
    if len(batch.distinct) == 1:
        return [_exchange_of(batch.distinct[0])]
    numbers = {batch.keys[index] for index in indexes}
    return sorted({_exchange_of(batch.distinct[number]) for number in numbers})


def _key_of(batch: Batch, index: int) -> bytes:
    return batch.distinct[batch.keys[index]]


def _without(indexes: Indexes, gone: set[int]) -> Sequence[int]:
    return [index for index in indexes if index not in gone] if gone else indexes


def _seq_nos(first_seq_no: int, indexes: Sequence[int]) -> list[list[int]]:
    return [[first_seq_no + first, first_seq_no + last] for first, last in ranges(indexes)]
