"""Routes a channel's publishes, at once or in several turns, and tells each queue its share."""

from __future__ import annotations

from ...core.channel.waiting import Waiting
from ...core.exchanges.exchange import Steps
from ...core.publishing.publisher import Publisher, Routed
from ..messages import DeliverReplies, Publish, Ref
from ..node_context import NodeContext
from ..runtime.runtime import tell
from ..tracing.trace import ChannelTracing
from .client_side import ClientSide


class ChannelRouting:
    """Routes for the actor `channel`, which holds back its input while routing takes turns."""

    def __init__(
        self,
        context: NodeContext,
        channel: Ref,
        publisher: Publisher,
        tracing: ChannelTracing,
        client: ClientSide,
        waiting: Waiting,
    ) -> None:
        self._context = context
        self._turns = context.routing_turns
        self._channel = channel
        self._publisher = publisher
        self._tracing = tracing
        self._client = client
        self._waiting = waiting
        # Of the batch whose routing takes several turns.
        self._steps: Steps[Routed] | None = None

    def begin(self, steps: Steps[Routed]) -> Routed | None:
        """Route a batch; None if that goes on with RouteMore."""
        try:
            # Where every route is kept there is no step.
            next(steps)
        except StopIteration as end:
            known: Routed = end.value
            return known
        routed = self._turns.begin(steps, self._channel)
        if routed is None:
            self._steps = steps
            self._waiting.route_in_steps()
        return routed

    def go_on(self) -> Routed | None:
        """Route more of it; None if that goes on with the next RouteMore."""
        if self._steps is None:
            return None
        routed = self._turns.go_on(self._steps, self._channel)
        if routed is not None:
            self._steps = None
            self._waiting.routed()
        return routed

    def clear(self) -> None:
        """The channel has ended: a batch that is not routed yet is dropped."""
        self._steps = None

    def tell_queues(self, routed: Routed) -> None:
        """Send the frames for the publisher at once, and tell each queue its own messages."""
        batch = routed.batch
        if self._context.trace.is_on:
            self._tracing.published(routed, self._publisher.unconfirmed)
        if routed.frames:
            tell(self._client.writer, routed.frames)
        for queue, indexes in routed.by_queue.items():
            if not tell(queue.handle, Publish(self._channel, batch, indexes)):
                # The queue vanished between routing and enqueuing: nack, no return.
                self._tracing.rejected(queue, batch, indexes, "the queue was gone")
                self._publisher.unconfirmed.reject(queue, batch, indexes)
        for name, indexes in routed.replies.items():
            channel = self._context.reply_consumers.find(name)
            if channel is not None:
                tell(channel, DeliverReplies(name, batch, indexes))
