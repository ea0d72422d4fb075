"""Direct reply-to of a channel: its one reply consumer, and the replies that it gets.

Runs inside the channel's actor. A reply comes from
the publishing channel, not from a queue: it is sent to the client or, past
`reply_window_bytes_max` of replies, to all channels of its connection, that the socket has not
taken, dropped. Nobody waits for it, and the one that does not read harms neither the memory nor
those who answer it.
"""

from __future__ import annotations

from secrets import token_urlsafe

from ...amqp_frames.constants import PRECONDITION_FAILED
from ...amqp_frames.errors import SoftError
from ...amqp_frames.values.field_table import encode_short_string
from ...core.connection.outlet import OutletShare
from ...core.publishing.publisher import Publisher
from ..messages import DeliverReplies, Ref, WriteDeliveries
from ..node_context import NodeContext
from ..runtime.runtime import tell
from .deliveries import Deliveries
from .neighbours import ClientSide

# Octets of chance in a name; in base 64 it is well below the 255 octets of a routing key.
_TOKEN_BYTES = 24


class Replies:
    """The reply consumer of the actor `channel`, if it has one; `outlet` is its way out."""

    def __init__(
        self,
        channel: Ref,
        client: ClientSide,
        context: NodeContext,
        publisher: Publisher,
        deliveries: Deliveries,
        outlet: OutletShare,
    ) -> None:
        self._channel = channel
        self._client = client
        self._context = context
        self._publisher = publisher
        self._deliveries = deliveries
        self._outlet = outlet
        self._dropped_count = 0
        # While there is a reply consumer: its tag and its secret name.
        self.consumer_tag: str | None = None
        self._name = ""

    def check(self, no_ack: bool) -> None:
        """406 if there can be no reply consumer, or no other one."""
        if not no_ack:
            raise SoftError(PRECONDITION_FAILED, "reply consumer cannot acknowledge")
        if self.consumer_tag is not None:
            raise SoftError(PRECONDITION_FAILED, "reply consumer already set")

    def consume(self, consumer_tag: str) -> None:
        """Take replies from now on."""
        token = token_urlsafe(_TOKEN_BYTES)
        self._name = self._context.reply_consumers.add(token, self._channel)
        self.consumer_tag = consumer_tag
        self._publisher.set_reply_name(self._name)

    def cancel(self) -> None:
        """Take none any more; also when the channel ends."""
        if self.consumer_tag is not None:
            self.consumer_tag = None
            self._context.reply_consumers.remove(self._name)
            self._publisher.set_reply_name("")

    def deliver(self, message: DeliverReplies) -> None:
        """Send replies to the client, unless they are for a consumer that is gone."""
        tag = self.consumer_tag
        if tag is None or message.name != self._name:
            return
        replies = self._outlet.outlet.replies
        if replies.used_bytes >= self._context.reply_window_bytes_max:
            self._drop(len(message.indexes))
            return
        frames = self._deliveries.encode_replies(
            message.batch, message.indexes, encode_short_string(tag)
        )
        replies.add(len(frames))
        tell(self._client.writer, WriteDeliveries([frames], replies, len(frames), None, None))

    def _drop(self, count: int) -> None:
        # Said once per channel, not once per reply: its client may have stopped reading for good.
        if not self._dropped_count:
            self._context.runtime.log.warning(
                "reply.dropped",
                channel=self._channel.actor_urn,
                reason="its client does not read",
            )
        self._dropped_count += count
