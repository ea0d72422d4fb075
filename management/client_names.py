"""What connections and channels are called, as RabbitMQ calls them."""

from __future__ import annotations

from ..actors.messages import Ref
from ..actors.node_context import OpenConnection
from .about import About


def connection_name(about: About, opened: OpenConnection) -> str:
    """RabbitMQ's name of a connection: both ends of it."""
    host, port = own_end(about, opened)
    return f"{opened.peer.name} -> {host}:{port}"


def own_end(about: About, opened: OpenConnection) -> tuple[str, int]:
    """The broker's host and port of a connection."""
    peer = opened.peer
    if peer.local_port:
        return peer.local_host, peer.local_port
    return about.listeners[0].address, about.listeners[0].port


def channel_name(about: About, opened: OpenConnection, number: int) -> str:
    """RabbitMQ's name of a channel."""
    return f"{connection_name(about, opened)} ({number})"


def open_channels(opened: OpenConnection) -> dict[int, Ref]:
    """Its channels by number, without closing ones."""
    return {number: each for number, each in opened.channels.items() if each is not None}
