"""Input that a channel keeps while it waits, in order: behind a command, a commit or long routing.

Acks are in no window while the channel handles them at once, and publishes count with their bytes
alone. Held-back input may wait as long as a disk takes, and would fill the memory at the speed of
the line. So the connection's window counts the memory that keeping it costs, and the reader stops
reading.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

from ...amqp_frames.decoder import ChannelInput
from ...amqp_frames.messages.copies import with_properties
from ..connection.publish_window import WindowShare

# About what one read's share of a channel takes up beside the bytes of its publishes, as measured
# for a single publish and an ack; and what a further ack does, in columns that grow ahead.
INPUT_BYTES: Final = 1024
ACK_BYTES: Final = 16

Message = TypeVar("Message")


class HeldBack(Generic[Message]):
    """Counts in `window` the messages that it keeps until they are taken out.

    Its length is the number of messages that it keeps.
    """

    __slots__ = ("_messages", "_window")

    def __init__(self, window: WindowShare) -> None:
        self._window = window
        # Oldest first, with the bytes that each was counted with. None, as in most channels at most
        # times, while there are none: an empty deque takes 760 bytes.
        self._messages: deque[tuple[Message, int]] | None = None

    def __len__(self) -> int:
        return 0 if self._messages is None else len(self._messages)

    def put(self, message: Message, channel_input: ChannelInput | None) -> None:
        """Keep a message behind all others; `channel_input` is its share of a read, if it has one.

        A message without one has been counted when the reader handed it over.
        """
        kept_bytes = 0
        if channel_input is not None:
            release_unused_bytes(channel_input)
            acks = channel_input.acks
            kept_bytes = INPUT_BYTES if acks is None else INPUT_BYTES + ACK_BYTES * len(acks.tags)
            self._window.add(kept_bytes)
        if self._messages is None:
            self._messages = deque()
        self._messages.append((message, kept_bytes))

    def pop(self) -> tuple[Message, int]:
        """The oldest message, and how many bytes its owner is to give back to the window."""
        assert self._messages
        oldest = self._messages.popleft()
        if not self._messages:
            self._messages = None
        return oldest

    def clear(self) -> None:
        """The channel has ended, and with it its share of the window."""
        self._messages = None


def release_unused_bytes(channel_input: ChannelInput) -> None:
    """Few messages must not keep a whole read in memory, as where a transaction holds them."""
    batch = channel_input.batch
    if batch is not None and len(batch.wire) > 2 * batch.wire_bytes + INPUT_BYTES:
        channel_input.batch = with_properties(batch, {})
