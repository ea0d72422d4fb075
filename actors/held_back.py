"""What has come in on a channel behind a command whose answer is awaited, in its order.

Acks are in no window while they are handled at once, and publishes count with their bytes alone.
What waits here, as long as a disk may take, would fill the memory at the speed of the line: so it
counts in the connection's window with what keeping it costs, and the reader stops reading.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from ..amqp_frames.batch import ChannelInput
from ..amqp_frames.rewritten import with_properties
from ..core.publish_window import WindowShare
from .messages import Command, Input, OversizedPublish

# About what one read's share of a channel takes up beside the bytes of its publishes, as measured
# for a single publish and an ack; and what a further ack does, in columns that grow ahead.
INPUT_BYTES: Final = 1024
ACK_BYTES: Final = 16

Waiting = Input | Command | OversizedPublish


class HeldBack:
    """Counts in `window` what it keeps until it is taken out."""

    def __init__(self, window: WindowShare) -> None:
        self._window = window
        self._waiting: deque[Waiting] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, message: Waiting) -> None:
        """It came in last."""
        if isinstance(message, Input):
            _let_go_of_the_rest(message.channel_input)
        self._window.take(_keep_bytes(message))
        self._waiting.append(message)

    def take_out(self) -> tuple[Waiting, int]:
        """What came in first, and how many bytes its owner is to give back to the window."""
        message = self._waiting.popleft()
        return message, _keep_bytes(message)

    def clear(self) -> None:
        """The channel has ended, and with it its share of the window."""
        self._waiting.clear()


def _keep_bytes(message: Waiting) -> int:
    # A command has been counted by who handed it over.
    if not isinstance(message, Input):
        return 0
    acks = message.channel_input.acks
    return INPUT_BYTES if acks is None else INPUT_BYTES + ACK_BYTES * len(acks.tags)


def _let_go_of_the_rest(channel_input: ChannelInput) -> None:
    """Few messages must not keep a whole read in memory, as where a transaction holds them."""
    batch = channel_input.batch
    if batch is not None and len(batch.wire) > 2 * batch.wire_bytes() + INPUT_BYTES:
        channel_input.batch = with_properties(batch, {})
