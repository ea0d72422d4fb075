"""A channel's trace events beside the hops of messages: its opening, its consumers, its end.

Such events are few, and not sampled: they are written while the trace is on, if the filter does not
leave out their connection, user or queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...amqp_frames.errors import AmqpError
from ...amqp_frames.messages.batch import Batch
from ...core.connection.handshake import ClientIdentity
from ...core.users.access import AccessRefusedError
from ...logs.secrets import masked
from ...logs.trace.sampling import ranges
from ...logs.trace.trace import Trace
from .queue import received

_NOTHING: Mapping[str, object] = {}


class ChannelEvents:
    """One channel's name in the trace."""

    def __init__(self, trace: Trace, number: int, handshake: ClientIdentity) -> None:
        self.trace = trace
        self._number = number
        self.connection = handshake.peer_name
        self.user = handshake.user
        self.vhost = handshake.vhost
        # What the client calls its connection.
        self.client = handshake.connection_name

    def is_wanted(self, queue: str = "") -> bool:
        """Does the filter let events of this channel pass, and of that queue if one is named?"""
        return self.trace.filter.wants(queue=queue, user=self.user, connection=self.connection)

    def tell(self, event: str, queue: str = "", /, **fields: object) -> None:
        """An event of the channel; about that queue, if one is named."""
        if self.trace.is_on and self.is_wanted(queue):
            if queue:
                fields = {"vhost": self.vhost, "queue": queue, **fields}
            self.write(event, **fields)

    def write(self, event: str, **fields: object) -> None:
        """An event of the channel, whatever the filter says."""
        self.trace.write(
            event, "channel", connection=self.connection, channel=self._number, **fields
        )

    def write_about(
        self,
        event: str,
        batch: Batch,
        indexes: Sequence[int],
        before: Mapping[str, object] = _NOTHING,
        /,
        **fields: object,
    ) -> None:
        """An event of the channel about these messages; `before` are fields that come first."""
        is_read = event == "frame.received"
        self.trace.write(
            event,
            "reader" if is_read else "channel",
            batch.received_ns if is_read else 0,
            connection=self.connection,
            channel=self._number,
            **before,
            batch=batch.number,
            messages=ranges(received(batch, indexes)),
            **fields,
        )

    def opened(self) -> None:
        """The channel is open."""
        self.tell("channel.opened", vhost=self.vhost, user=self.user, client=self.client)

    def consumer_added(self, queue: str, consumer_tag: str, prefetch: int, no_ack: bool) -> None:
        """A queue has taken a consumer of the channel."""
        self.tell(
            "consumer.added", queue, consumer_tag=consumer_tag, prefetch=prefetch, no_ack=no_ack
        )

    def consumer_removed(self, queue: str, consumer_tag: str, reason: str) -> None:
        """It is gone, or the channel with it."""
        self.tell("consumer.removed", queue, consumer_tag=consumer_tag, reason=reason)

    def refused(self, error: AmqpError) -> None:
        """The channel ends for this; was it that its user may not?"""
        if isinstance(error, AccessRefusedError):
            self.tell(
                "permission.refused",
                user=self.user,
                reply_code=error.reply_code,
                reason=masked(error.reply_text),
            )
