"""The names of channels, as in RabbitMQ, and the channels that are open."""

from __future__ import annotations

from ..actors.messages import Ref
from ..actors.node_context import OpenConnection


def channel_name(opened: OpenConnection, number: int) -> str:
    """RabbitMQ's name of a channel."""
    return f"{opened.peer.connection_name} ({number})"


def open_channels(opened: OpenConnection) -> dict[int, Ref]:
    """Its channels by number, without closing ones."""
    return {number: each for number, each in opened.channels.items() if each is not None}
