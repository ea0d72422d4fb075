"""Publishes on their way from an AMQP channel, or an NSQ connection, to their queues, and what the
queues answer.

Runs inside the actor that publishes. What queues owe is noted by the publisher's rules
(core/publishing/publisher.py) before the queues are told. Counts, trace and firehose see each batch
here.
"""

from __future__ import annotations

from ...amqp_frames.messages.batch import Batch
from ...core.publishing.publisher import Publisher, Routed
from ...core.queue.deferral import Delays
from ...core.statistics.channel_counts import ChannelCounts
from ..messages import Confirm, Publish, Ref, Reject
from ..node_context import NodeContext
from ..runtime.runtime import tell
from ..tracing.trace import ChannelTracing
from .firehose import FirehoseTap


class Handover:
    """Of the actor `channel`, whom the queues answer."""

    def __init__(
        self,
        context: NodeContext,
        channel: Ref,
        publisher: Publisher,
        counts: ChannelCounts,
        tracing: ChannelTracing,
        tap: FirehoseTap,
    ) -> None:
        self._trace = context.trace
        self._latency = context.confirm_latency
        self._channel = channel
        self._publisher = publisher
        self._unconfirmed = publisher.unconfirmed
        self._counts = counts
        self._tracing = tracing
        self._topology = tap.topology
        self._tap = tap

    def pass_to_one(self, batch: Batch) -> bool:
        """Route all of a batch to one queue by a kept route, and tell the queue.

        False if the batch has several queues, a new route, or is traced: then nothing is done. Most
        lone publishes have one queue and a kept route.
        """
        if self._trace.is_on or self._topology.is_traced:
            return False
        told = self._publisher.route_to_one(batch)
        if told is None:
            return False
        queue, indexes = told
        counts, key = self._counts, batch.distinct[0]
        if queue is counts.run_queue and key == counts.run_key:
            counts.run_count += len(indexes)
        else:
            counts.begin_run(key, queue, len(indexes))
        if not tell(queue.handle, Publish(self._channel, batch, indexes)):
            self._unconfirmed.reject(queue, batch, indexes)
        return True

    def pass_to_queues(self, routed: Routed, delays_ms: Delays = 0) -> None:
        """Tell each queue its own messages of a routed batch.

        `delays_ms` defers them in all queues, beside the delays that exchanges have given them.
        """
        batch = routed.batch
        self._counts.routed(routed)
        if self._trace.is_on:
            self._tracing.published(routed, self._unconfirmed)
        if self._topology.is_traced:
            self._tap.published(routed)
        delays = routed.delays
        is_shared = len(routed.by_queue) > 1
        for queue, indexes in routed.by_queue.items():
            own_delays_ms = delays.get(queue, 0) if delays else delays_ms
            publish = Publish(self._channel, batch, indexes, own_delays_ms, is_shared)
            if not tell(queue.handle, publish):
                # The queue vanished between routing and enqueuing: nack, no return.
                self._tracing.rejected(queue, batch, indexes, "the queue was gone")
                self._unconfirmed.reject(queue, batch, indexes)

    def answered(self, message: Confirm | Reject, *, is_timed: bool = True) -> None:
        """A queue has these messages, or refuses them; `is_timed`: confirms count for latency."""
        unconfirmed, queue = self._unconfirmed, message.queue
        answers = self._tracing.answers if self._trace.is_on else None
        before = None if answers is None else answers.counts_before(message, unconfirmed)
        if isinstance(message, Confirm):
            confirm = unconfirmed.confirm
            for batch, indexes in message.items:
                if confirm(queue, batch, indexes) and is_timed:
                    self._latency.confirmed(batch, self._trace.now_ns())
        else:
            for batch, indexes in message.items:
                unconfirmed.reject(queue, batch, indexes)
        if answers is not None and before is not None:
            answers.received(before, unconfirmed)
