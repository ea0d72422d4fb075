"""Direct reply-to: requests that say `amq.rabbitmq.reply-to`, and replies without a queue.

A channel may have one reply consumer, made by consuming from the pseudo-queue REPLY_TO. A message
that it publishes with `reply_to` REPLY_TO gets the consumer's secret name there instead; a
message published to the default exchange with that name as its routing key goes straight to the
channel, at most once, from whatever connection. As in RabbitMQ 3.10 such a message counts as not
routed: it is returned if it is mandatory, and confirmed at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

# No real queue can have a name that begins so.
REPLY_TO: Final = "amq.rabbitmq.reply-to"
_PREFIX: Final = REPLY_TO + "."


class ReplyConsumers:
    """The reply consumers of a node: secret name to the channel that has it."""

    def __init__(self) -> None:
        self._channels: dict[str, Any] = {}

    def add(self, token: str, channel: Any) -> str:
        """A channel begins to take replies; `token` cannot be guessed. Its name."""
        name = _PREFIX + token
        assert name not in self._channels
        self._channels[name] = channel
        return name

    def remove(self, name: str) -> None:
        """Replies for this name come to nobody from now on."""
        del self._channels[name]

    def find(self, name: str) -> Any | None:
        """The channel, while it takes replies."""
        return self._channels.get(name)

    def exists(self, queue: str) -> bool:
        """Is there such a pseudo-queue? The one that all share always is."""
        return queue == REPLY_TO or queue in self._channels


def reply_names(exchange: str, routing_keys: Iterable[str]) -> tuple[str, ...]:
    """Those of a message's routing keys that are names of reply consumers, each once."""
    if exchange:
        return ()
    return tuple(dict.fromkeys(key for key in routing_keys if key.startswith(_PREFIX)))
