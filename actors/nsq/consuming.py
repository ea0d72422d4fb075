"""The consuming half of an NSQ connection: its one subscription, and the messages in flight to it.

Runs inside the connection's actor. RDY is the consumer's credit (core/queue/consumers.py): so many
messages may be in flight. At a time-out the message counts no longer, as in nsqd: an answer that
comes later is E_FIN_FAILED.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from ...amqp_frames.errors import AmqpError
from ...amqp_frames.messages.arrivals import Arrived, runs_of
from ...amqp_frames.messages.batch import Indexes
from ...core.channel.transaction import Part
from ...core.connection.channel_credit import ChannelCredit
from ...core.connection.outlet import OutletShare
from ...core.connection.reading_time import ReadingTime
from ...core.definitions import QueueDefinition
from ...core.nsq.in_flight import InFlightIds
from ...core.nsq.sampling import OCTETS, sampled
from ...core.nsq.session import Session, entry_id_of, not_in_flight, reason_of
from ...core.queue.consumers import NOTHING, Consumer
from ...core.queue.in_flight import Delivery
from ...core.statistics.channel_counts import ChannelCounts
from ...nsq_frames.commands import FIN, REQ, TOUCH, Finishes
from ...nsq_frames.deliveries import encode_messages, message_id
from ...nsq_frames.errors import NsqError
from ..channel.firehose import FirehoseTap
from ..messages import (
    AddConsumer,
    ChannelDown,
    Deliver,
    Ref,
    Requeue,
    SetReadyCount,
    Settle,
    TimedOut,
    Touch,
    WriteDeliveries,
)
from ..node_context import NodeContext
from ..runtime.room_offers import tell_opened
from ..runtime.runtime import tell
from ..tracing.trace import ChannelTracing

# A short string, as in a frame of AMQP's; a connection has no other consumer.
CONSUMER_TAG: Final = b"\3nsq"


def _by_arrival(
    arrived: Arrived, indexes: Indexes, passed: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, int]]:
    """The parts, first position and end, of the messages that arrived together, and when."""
    for first, end in passed:
        for low, high, arrived_ns in runs_of(arrived, indexes[first:end]):
            yield first + low, first + high, arrived_ns


class Consuming:
    """State of the consuming half of the actor `connection`."""

    def __init__(
        self,
        context: NodeContext,
        connection: Ref,
        session: Session,
        outlet: OutletShare,
        reading: ReadingTime,
        counts: ChannelCounts,
        tracing: ChannelTracing,
        tap: FirehoseTap,
        writer: Ref,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._context = context
        self._connection = connection
        self._session = session
        self._credit = ChannelCredit(outlet, reading)
        self._counts = counts
        self._tracing = tracing
        self._tap = tap
        self._writer = writer
        self._random_bytes = random_bytes
        self._queue: QueueDefinition | None = None
        self._consumer: Consumer | None = None
        self._in_flight = InFlightIds()

    # --- The subscription

    def subscribe(self, queue: QueueDefinition) -> bool:
        """Ask the queue, which answers with ConsumerAdded or Refused; False: it is gone."""
        consumer = Consumer(
            self._connection,
            CONSUMER_TAG,
            NOTHING,
            self._credit,
            False,
            False,
            in_flight_timeout_ms=self._session.message_timeout_ms,
        )
        if not tell(queue.handle, AddConsumer(consumer, self._connection)):
            return False
        self._queue, self._consumer = queue, consumer
        return True

    def subscribed(self) -> None:
        """The queue has taken the consumer."""
        assert self._queue is not None
        self._session.subscribe()
        self._tracing.consumer_added(self._queue.name, "nsq", 0, False)

    def refused(self, error: AmqpError) -> NsqError:
        """The queue does not take the consumer."""
        self._queue = self._consumer = None
        return NsqError("E_SUB_FAILED", f"SUB failed {reason_of(error)}")

    def set_ready_count(self, count: int) -> None:
        """So many messages may be in flight from now on."""
        if self._queue is not None and self._consumer is not None:
            tell(self._queue.handle, SetReadyCount(self._consumer, count or NOTHING))

    # --- Deliveries

    def deliver(self, message: Deliver) -> None:
        """Encode messages and remember them until they are answered."""
        queue = self._queue
        if queue is None:
            # The connection ends: its queue has them back by now.
            return
        frames: list[bytes] = []
        unsampled: list[Part] = []
        window_bytes = count = redelivered = 0
        is_tapped = self._tap.topology.is_traced
        timeout_ms = self._session.message_timeout_ms
        now_ns = self._context.trace.now_ns()
        epoch_ns = self._context.wall_distance_ns()
        for delivery in message.deliveries:
            span, batch = delivery.span, delivery.span.batch
            self._in_flight.add(delivery)
            window_bytes += delivery.wire_bytes
            count += len(span)
            if span.attempts:
                redelivered += len(span)
            if batch.traced is not None:
                self._tracing.delivered(queue, span, span.first_entry_id, CONSUMER_TAG, timeout_ms)
            if is_tapped:
                self._tap.delivered(queue.name, span)
            arrived = batch.arrived
            if not arrived:
                # Where nobody has kept it, the time of the delivery.
                arrived = epoch_ns + (batch.received_ns or now_ns)
            passed: Sequence[tuple[int, int]] = ((0, len(span)),)
            if self._session.sample_rate:
                passed, dropped = self._sampled(delivery)
                unsampled += dropped
            for low, high, arrived_ns in _by_arrival(arrived, span.indexes, passed):
                frames.append(
                    encode_messages(
                        batch.wire,
                        batch.headers,
                        batch.ends,
                        span.indexes[low:high],
                        span.first_entry_id + low,
                        delivery.attempts,
                        arrived_ns or epoch_ns + now_ns,
                    )
                )
        counts = self._counts.delivered.get(queue) or self._counts.begin_queue(queue)
        counts.deliver += count
        counts.redeliver += redelivered
        written = self._credit.outlet.wrote(window_bytes)
        tell(
            self._writer,
            WriteDeliveries(frames, written, window_bytes, queue.handle, message.consumer),
        )
        # A loss that the client has asked for: these are done without it.
        self._settle(unsampled)

    def _sampled(self, delivery: Delivery) -> tuple[Sequence[tuple[int, int]], list[Part]]:
        """The positions that the client gets, and the parts that are dropped for it."""
        count = len(delivery.span)
        passed, dropped = sampled(self._random_bytes(OCTETS * count), self._session.sample_rate)
        parts: list[Part] = []
        first_id = delivery.span.first_entry_id
        for low, high in dropped:
            parts += self._in_flight.remove(first_id + low, first_id + high - 1)[0]
        return passed, parts

    def time_out(self, message: TimedOut) -> None:
        """The queue has taken messages back: they are in flight no longer, and their credit free.

        The queue counts them until they are answered, so this answers them, too late.
        """
        parts = self._in_flight.time_out(message.parts)
        if parts and self._queue is not None:
            if not message.was_emptied:
                count = sum([high - low for _, low, high in parts])
                self._counts.timed_out(self._queue, count)
            tell(self._queue.handle, Settle(self._connection, parts))

    # --- Answers of the client

    def finish(self, finishes: Finishes) -> list[NsqError]:
        """FIN, a run of it; the errors of messages that are not in flight."""
        self._session.check_state(FIN)
        parts: list[Part] = []
        errors: list[NsqError] = []
        for first, last in finishes.ranges:
            at = first
            while True:
                found, missing = self._in_flight.remove(at, last)
                parts += found
                if missing < 0:
                    break
                errors.append(not_in_flight(FIN, message_id(missing)))
                at = missing + 1
        self._settle(parts)
        return errors

    def finish_one(self, params: list[bytes]) -> None:
        """A FIN that no run takes; NsqError if its message is not in flight."""
        self._settle([self._removed(params[0], self._session.message_id(params))])

    def requeue(self, params: list[bytes]) -> None:
        """REQ."""
        asked = self._session.requeueing(params)
        part = self._removed(REQ, asked.message_id)
        assert self._queue is not None
        if self._context.trace.is_on:
            self._tracing.acked([part], "returned")
        self._counts.requeued(self._queue, 1)
        tell(self._queue.handle, Requeue(self._connection, (part,), asked.delay_ms))

    def touch(self, params: list[bytes]) -> None:
        """TOUCH."""
        named = self._session.message_id(params)
        part = self._in_flight.find(entry_id_of(named))
        if part is None:
            raise not_in_flight(TOUCH, named)
        assert self._queue is not None
        timeout_ms_max = self._session.limits.message_timeout_ms_max
        tell(self._queue.handle, Touch(self._connection, (part,), timeout_ms_max))

    def _removed(self, command: bytes, named: bytes) -> Part:
        entry_id = entry_id_of(named)
        parts, missing = self._in_flight.remove(entry_id, entry_id)
        if missing != -1 or not parts:
            raise not_in_flight(command, named)
        return parts[0]

    def _settle(self, parts: list[Part]) -> None:
        if not parts:
            return
        queue = cast("QueueDefinition", parts[0][0].queue)
        if self._context.trace.is_on:
            self._tracing.acked(parts, "acked")
        counts = self._counts.delivered.get(queue) or self._counts.begin_queue(queue)
        counts.ack += sum([high - low for _, low, high in parts])
        tell(queue.handle, Settle(self._connection, parts))

    def counts(self) -> dict[str, object]:
        """For a report."""
        consumer = self._consumer
        return {
            "prefetch": 0 if consumer is None else max(consumer.prefetch, 0),
            "global_prefetch": 0,
            "consumers": int(consumer is not None),
            "unacked": self._in_flight.count,
        }

    @property
    def queue(self) -> QueueDefinition | None:
        """The channel's queue, once there is a subscription."""
        return self._queue

    def release(self, reason: str) -> None:
        """The connection ends: the queue takes back what it held."""
        outlet = self._credit.outlet
        outlet.release()
        tell_opened(outlet.outlet)
        queue, self._queue, self._consumer = self._queue, None, None
        if queue is not None:
            tell(queue.handle, ChannelDown(self._connection))
            self._tracing.consumer_removed(queue.name, "nsq", reason)
