"""The deliveries of a channel: to its client, and back to the queues.

Runs inside the channel's actor. The rules are core/channel/outstanding.py's: delivery tags, acks,
deadlines and credit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from ...amqp_frames.decoder import Acks
from ...amqp_frames.messages.batch import Batch
from ...amqp_frames.messages.deliveries import encode_deliveries, encode_get_ok
from ...amqp_frames.methods import BasicGetEmpty
from ...core.channel.delivery_commands import DeliveryCommands
from ...core.channel.delivery_counts import counted
from ...core.channel.outstanding import Outstanding, Returned, Settled
from ...core.channel.transaction import Outcome, Part
from ...core.connection.channel_credit import ChannelCredit
from ...core.definitions import QueueDefinition
from ...core.statistics.channel_counts import ChannelCounts
from ..messages import (
    Deliver,
    Discard,
    GetAnswer,
    Ref,
    Requeue,
    Settle,
    TimedOut,
    Touch,
    WakeAt,
    WriteDeliveries,
)
from ..node_context import NodeContext
from ..runtime.room_offers import offer_credit
from ..runtime.runtime import tell
from ..tracing.trace import ChannelTracing
from .firehose import FirehoseTap
from .neighbours import ClientSide

_ACKS_DUE: Final = "acks due"
_MESSAGES: Final[Mapping[Outcome, type[Settle] | type[Discard]]] = {
    Outcome.ACKED: Settle,
    Outcome.REJECTED: Discard,
}


class Deliveries:
    """The channel's messages in flight."""

    __slots__ = (
        "_channel",
        "_client",
        "_context",
        "_counts",
        "_credit",
        "_frame_max_bytes",
        "_number",
        "_tap",
        "_tracing",
        "commands",
        "outstanding",
    )

    def __init__(
        self,
        channel: Ref,
        client: ClientSide,
        tracing: ChannelTracing,
        context: NodeContext,
        number: int,
        frame_max_bytes: int,
        credit: ChannelCredit,
        counts: ChannelCounts,
        tap: FirehoseTap,
    ) -> None:
        self._channel = channel
        self._client = client
        self._tracing = tracing
        self._tap = tap
        self._number = number
        self._frame_max_bytes = frame_max_bytes
        self._credit = credit
        self._context = context
        self._counts = counts
        self.outstanding = Outstanding(number, credit, context.timed_out_ranges_max)
        self.commands = DeliveryCommands(self.outstanding)

    def deliver(self, message: Deliver) -> None:
        """Encode messages for a consumer and remember them until they are acked."""
        consumer = message.consumer
        queue: QueueDefinition = message.deliveries[0].queue  # type: ignore[assignment]
        frames: list[bytes] = []
        window_bytes = 0
        outstanding, no_ack = self.outstanding, consumer.no_ack
        first_tag = last_tag = redelivered = 0
        is_tapped = self._tap.topology.is_traced
        for delivery in message.deliveries:
            span = delivery.span
            count = len(span.indexes)
            tag = outstanding.number(count) if no_ack else outstanding.hold(delivery)
            first_tag, last_tag = first_tag or tag, tag + count - 1
            window_bytes += delivery.wire_bytes
            if span.batch.traced is not None:
                in_flight_ms = consumer.in_flight_timeout_ms or queue.in_flight_timeout_ms
                self._tracing.delivered(
                    queue, span, tag, consumer.consumer_tag, None if no_ack else in_flight_ms
                )
            if span.attempts:
                redelivered += count
                if queue.counts_deliveries:
                    span = counted(span)
            if is_tapped:
                self._tap.delivered(queue.name, span)
            frames.append(
                encode_deliveries(
                    span.batch,
                    span.indexes,
                    tag,
                    consumer.consumer_tag,
                    span.attempts > 0,
                    self._number,
                    self._frame_max_bytes,
                )
            )
        counts = self._counts.delivered.get(queue) or self._counts.begin_queue(queue)
        # Tags are given one after another.
        if no_ack:
            counts.deliver_no_ack += last_tag - first_tag + 1
        else:
            counts.deliver += last_tag - first_tag + 1
        if redelivered:
            counts.redeliver += redelivered
        timeout_ms = queue.consumer_timeout_ms
        if timeout_ms is not None and not no_ack:
            self._note_timeout(first_tag, last_tag, timeout_ms)
        written = self._credit.outlet.wrote(window_bytes)
        tell(
            self._client.writer,
            WriteDeliveries(frames, written, window_bytes, queue.handle, consumer),
        )

    def answer_get(self, message: GetAnswer, no_ack: bool) -> None:
        """Encode what basic.get brought, or that there was nothing."""
        delivery = message.delivery
        if delivery is None:
            self._client.write(BasicGetEmpty())
            return
        tag = self.outstanding.number(1) if no_ack else self.outstanding.hold(delivery)
        if not no_ack:
            timeout_ms = delivery.queue.consumer_timeout_ms  # type: ignore[attr-defined]
            if timeout_ms is not None:
                self._note_timeout(tag, tag, timeout_ms)
        span = delivery.span
        queue = cast("QueueDefinition", delivery.queue)
        self._counts.got(queue, span.attempts > 0, no_ack)
        if span.batch.traced is not None:
            in_flight_ms = None if no_ack else queue.in_flight_timeout_ms
            self._tracing.delivered(queue, span, tag, b"\0", in_flight_ms)
        if queue.counts_deliveries:
            span = counted(span)
        if self._tap.topology.is_traced:
            self._tap.delivered(delivery.queue.name, span)  # type: ignore[attr-defined]
        frames = encode_get_ok(
            span.batch,
            span.indexes[0],
            tag,
            span.attempts > 0,
            message.message_count,
            self._number,
            self._frame_max_bytes,
        )
        written = self._credit.outlet.outlet
        written.add(len(frames))
        tell(self._client.writer, WriteDeliveries([frames], written, len(frames), None, None))

    def encode_replies(self, batch: Batch, indexes: Sequence[int], consumer_tag: bytes) -> bytes:
        """The frames of direct replies; nothing of them is remembered."""
        tag = self.outstanding.number(len(indexes))
        return encode_deliveries(
            batch, indexes, tag, consumer_tag, False, self._number, self._frame_max_bytes
        )

    def check_timeouts(self) -> None:
        """The ticker has woken the channel: 406 if a delivery is held for too long."""
        self.outstanding.timeouts.check(self._context.runtime.scheduler.time())
        self._await_timeout()

    def _note_timeout(self, first_tag: int, last_tag: int, timeout_ms: int) -> None:
        now = self._context.runtime.scheduler.time()
        self.outstanding.timeouts.note(first_tag, last_tag, timeout_ms, now)
        self._await_timeout()

    def _await_timeout(self) -> None:
        wake_at = self.outstanding.timeouts.wake_at()
        if wake_at is not None:
            tell(self._context.ticker, WakeAt(wake_at, self._channel, _ACKS_DUE))

    def time_out(self, message: TimedOut) -> None:
        """A queue has taken back messages that were not answered in time."""
        self.tell_queues(self.outstanding.time_out(message.parts), Outcome.ACKED)

    def is_outlet_closed(self) -> bool:
        """Must the next basic.get wait until the socket has taken more? The channel is told when.

        Or a client that asks and does not read would have all it asked for wait in memory.
        """
        return self._credit.outlet.outlet.is_closed(self._channel)

    def acknowledge(self, acks: Acks) -> None:
        """Settle what a run of basic.ack names; 406 for a tag that is not held."""
        if not self._tracing.trace.is_on:
            lone = self.outstanding.acknowledge_first(acks)
            if lone is not None:
                part, offered = lone
                queue: QueueDefinition = part[0].queue  # type: ignore[assignment]
                counts = self._counts
                (counts.delivered.get(queue) or counts.begin_queue(queue)).ack += 1
                tell(queue.handle, Settle(self._channel, (part,)))
                if offered:
                    offer_credit(self._channel, self._credit, offered)
                return
        settled = self.outstanding.acknowledge_all(acks)
        self._count_acks(settled.returned)
        self.tell_queues(settled, Outcome.ACKED)

    def settle(self, delivery_tag: int, multiple: bool, outcome: Outcome) -> None:
        """One ack, nack or reject; 406 for a tag that is not held."""
        settled = self.outstanding.settle(delivery_tag, multiple, outcome)
        if outcome is Outcome.ACKED:
            self._count_acks(settled.returned)
        self.tell_queues(settled, outcome)

    def _count_acks(self, returned: Returned) -> None:
        """The client has acknowledged these: with basic.ack, and in tx mode committed."""
        counts = self._counts
        queue: QueueDefinition
        for queue, parts in returned.by_queue.items():  # type: ignore[assignment]
            delivered = counts.delivered.get(queue) or counts.begin_queue(queue)
            for _, low, high in parts:
                delivered.ack += high - low

    def return_all(self) -> None:
        """basic.recover: give back all held deliveries."""
        self.tell_queues(self.outstanding.return_all(), Outcome.RETURNED)

    def carry_out_commands(self) -> None:
        """Tell the queues what the client has touched and given back; raises the error, if any."""
        touched, returned = self.commands.drain()
        by_queue: dict[object, list[Part]] = {}
        for part in touched:
            by_queue.setdefault(part[0].queue, []).append(part)
        for queue, own in by_queue.items():
            tell(cast("QueueDefinition", queue).handle, Touch(self._channel, own))
        for delay_ms, parts in returned.items():
            settled = self.outstanding.settle_removed(Outcome.RETURNED, parts, delay_ms)
            self.tell_queues(settled, Outcome.RETURNED)

    def tell_queues(self, settled: Settled, outcome: Outcome) -> None:
        """Tell the queues which messages are settled or returned; raises the error, if any."""
        if settled.parts and self._tracing.trace.is_on:
            self._tracing.acked(settled.parts, outcome.value)
        for queue, own in settled.returned.by_queue.items():
            message: Settle | Discard | Requeue
            if outcome is Outcome.RETURNED:
                message = Requeue(self._channel, own, settled.returned.delay_ms)
            else:
                message = _MESSAGES[outcome](self._channel, own)
            tell(queue.handle, message)  # type: ignore[attr-defined]
        if settled.returned.offered:
            # Behind that: a queue takes back its own messages before it uses credit of others.
            offer_credit(self._channel, self._credit, settled.returned.offered)
        if settled.error is not None:
            raise settled.error

    def end_transaction(self, returned: Sequence[tuple[Outcome, Returned]]) -> None:
        """Tell the queues of the acknowledgements that a commit has made final, if any."""
        for outcome, each in returned:
            # The trace had them when they came in.
            if outcome is Outcome.ACKED:
                self._count_acks(each)
            self.tell_queues(Settled([], each, None), outcome)
        self._await_timeout()
