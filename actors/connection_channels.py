"""The channels of one connection, by number: the part of the reader that opens and feeds them.

A number is free, open, or closing: between a channel.close that the broker has written and its
close-ok, all that the client had sent before it heard of it is dropped.
"""

from __future__ import annotations

from ..amqp_frames.batch import ChannelInput, MethodFrame, Oversized
from ..amqp_frames.constants import CHANNEL_ERROR, NOT_ALLOWED
from ..amqp_frames.decoder import Decoder, Event
from ..amqp_frames.errors import HardError
from ..amqp_frames.methods import (
    BasicAck,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    Method,
    encode_method,
)
from ..core.outlet import Outlet
from ..core.publish_properties import PUBLISH
from ..core.publish_window import PublishWindow, WindowShare
from ..core.transaction import TransactionMemory
from .channel import Channel
from .connection_opening import Opening
from .messages import Command, Input, OversizedPublish, Ref, Release
from .node_context import NodeContext
from .runtime import tell

# What a command that waits for its turn takes up of the connection's window, beside what it
# publishes: about its size in memory, which is a multiple of its size on the wire.
COMMAND_BYTES_MIN = 4096
COMMAND_BYTES_FACTOR = 32


class ConnectionChannels:
    """Channel number -> its actor; None while its channel.close waits for the close-ok.

    `window` counts what all of them together have not absorbed yet.
    """

    def __init__(
        self, context: NodeContext, opening: Opening, decoder: Decoder, reader: Ref
    ) -> None:
        self._context = context
        self._opening = opening
        self._decoder = decoder
        self.window = PublishWindow(context.publish_window_bytes_max)
        self._outlet = Outlet(context.delivery_window_bytes_max)
        self._transaction_memory = TransactionMemory(context.transaction_bytes_max)
        self._reader = reader
        self._channels = opening.channels
        self._shares: dict[int, WindowShare] = {}
        # Those whose client has said channel.close, which is on its way to the actor.
        self._left: set[int] = set()

    def take(self, event: Event, writer: Ref) -> None:
        """Hand a channel what is its own; HardError if there is no such channel."""
        number = event.channel_number
        method = event.method if isinstance(event, MethodFrame) else None
        if number not in self._channels:
            if not isinstance(method, ChannelOpen):
                raise HardError(CHANNEL_ERROR, "expected 'channel.open'", *_ids(event))
            self._open(number, writer)
            return
        channel = self._channels[number]
        if channel is None:
            if method is not None:
                self._closing(number, method, writer)
        elif isinstance(event, ChannelInput):
            if event.batch is not None:
                if self._context.trace.is_on:
                    event.batch.received_ns = self._context.trace.now_ns()
                self._shares[number].take(event.batch.wire_bytes())
            tell(channel, Input(event))
        elif isinstance(event, MethodFrame):
            window_bytes = COMMAND_BYTES_MIN + COMMAND_BYTES_FACTOR * event.frame_bytes
            self._shares[number].take(window_bytes)
            if isinstance(event.method, ChannelClose):
                self._left.add(number)
            tell(channel, Command(event.method, window_bytes))
        elif isinstance(event, Oversized):
            tell(channel, OversizedPublish(event.body_bytes, event.is_immediate))

    def _open(self, number: int, writer: Ref) -> None:
        channel_max = self._opening.handshake.limits.channel_max
        if channel_max and len(self._channels) >= channel_max:
            raise HardError(
                NOT_ALLOWED,
                f"number of channels opened ({len(self._channels)}) has reached the "
                f"negotiated channel_max ({channel_max})",
            )
        access = self._opening.access
        assert access is not None
        share = self._shares[number] = WindowShare(self.window)
        self._channels[number] = Channel.start_on(
            self._context.runtime,
            self._context,
            number,
            self._opening.handshake,
            access,
            share,
            self._outlet.share(),
            self._transaction_memory,
            self._reader,
            writer,
        )

    def _closing(self, number: int, method: Method, writer: Ref) -> None:
        if isinstance(method, ChannelCloseOk):
            del self._channels[number]
        elif isinstance(method, ChannelClose):
            # Both sides closed it at once.
            tell(writer, encode_method(number, ChannelCloseOk()))

    def close(self, number: int) -> bool:
        """The channel's actor has failed for its client's mistake; false if it is not open."""
        if self._channels.get(number) is None:
            return False
        self._channels[number] = None
        del self._shares[number]
        self._decoder.channel_closed(number)
        return True

    def answer_crossing(self, number: int, writer: Ref) -> None:
        """Answer a channel.close that was said before the broker's own could be heard."""
        if number in self._left:
            self._left.remove(number)
            tell(writer, encode_method(number, ChannelCloseOk()))

    def forget(self, number: int) -> None:
        """The number is free."""
        self._left.discard(number)
        self._channels.pop(number, None)
        self._shares.pop(number, None)

    def release(self) -> None:
        """The connection ends: every channel lets go of what it holds, and hears no more."""
        self._decoder.close()
        for channel in self._channels.values():
            if channel is not None:
                tell(channel, Release())
        self._channels.clear()
        self._shares.clear()


def _ids(event: Event) -> tuple[int, int]:
    """Class and method of what came."""
    if isinstance(event, MethodFrame):
        return event.method.class_id, event.method.method_id
    if isinstance(event, ChannelInput) and event.batch is None:
        return BasicAck.class_id, BasicAck.method_id
    return PUBLISH
