"""What a channel writes into the trace beside the hops of messages: its life, and what it does.

Such events are few, and not sampled: they are written while the trace is on, if the filter does not
leave out their connection, user or queue.
"""

from __future__ import annotations

from ..amqp_frames.errors import AmqpError
from ..core.access import AccessRefusedError
from ..logs.secrets import masked
from ..logs.trace import Trace


class ChannelEvents:
    """One channel's name in the trace."""

    def __init__(self, trace: Trace, connection: str, number: int, user: str) -> None:
        self._trace = trace
        self._connection = connection
        self._number = number
        self._user = user

    @property
    def is_on(self) -> bool:
        """Is it worth while to gather what there is to tell?"""
        return self._trace.is_on

    def tell(self, event: str, queue: str = "", /, **fields: object) -> None:
        """An event of the channel; about that queue, if one is named."""
        trace = self._trace
        if trace.is_on and trace.filter.wants(
            queue=queue, user=self._user, connection=self._connection
        ):
            if queue:
                fields = {"queue": queue, **fields}
            connection, number = self._connection, self._number
            trace.write(event, "channel", connection=connection, channel=number, **fields)

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
                user=self._user,
                reply_code=error.reply_code,
                reason=masked(error.reply_text),
            )
