"""Limits how much of a queue is received: the prefetch follows the size of the messages.

A broker sends as many messages as the prefetch allows, whether or not they are read, and AMQP has
no prefetch in bytes that brokers keep to. Not reading does not help, because RabbitMQ drops a
connection that reads nothing for 15 seconds, and answers requests only behind everything that it
has already sent. So the prefetch is chosen for what the last messages' sizes let expect: a window
of so many messages. When a window has been delivered and a larger one would do, the consumer is
cancelled and begins again with that; nothing is on its way then. Messages that are larger than
expected and find no room go back to the queue, and so do all messages on their way behind them: in
their old order, and marked as redelivered.

Only the thread of the connection calls these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

# As long as none is known, messages are taken to have so many bytes.
EXPECTED_BYTES: Final = 2 * 1024 * 1024
# How many of the last messages say how large the next ones will be.
REMEMBERED_MESSAGES: Final = 1000
# So many standard deviations are left as a margin: a window is seldom exceeded.
_MARGIN: Final = 3.0


class MessageSizes:
    """How large the messages of a queue are: mean and deviation of the last ones."""

    def __init__(self) -> None:
        self._count = 0
        self._mean = float(EXPECTED_BYTES)
        self._variance = 0.0

    def add(self, size_bytes: int) -> None:
        """Another message has come."""
        if not self._count:
            self._mean = float(size_bytes)
        self._count = min(self._count + 1, REMEMBERED_MESSAGES)
        weight = 1.0 / self._count
        difference = size_bytes - self._mean
        self._mean += weight * difference
        self._variance = (1.0 - weight) * (self._variance + weight * difference * difference)

    def fitting(self, bytes_max: int) -> int:
        """How many messages may be expected to have no more bytes than this; at least one.

        The sum of n messages is n means, give or take the deviation times the root of n; and the
        mean itself is that of a sample.
        """
        spread = _MARGIN * math.sqrt(self._variance)
        mean = self._mean + spread / math.sqrt(2 * max(1, self._count))
        root = (math.sqrt(spread * spread + 4 * mean * bytes_max) - spread) / (2 * mean)
        return max(1, int(root * root))


class Intake:
    """The consumer of one queue on one channel, and its successors."""

    def __init__(
        self, channel: Any, queue: str, receive: Callable[..., bool], sizes: MessageSizes
    ) -> None:
        """Nothing comes yet.

        `receive` is called with pika's method, properties and body, and says whether there was room
        for the message.
        """
        self._channel = channel
        self._queue = queue
        self._receive = receive
        self.sizes = sizes
        # How many unacked messages the broker allows the consumer; 0: it has been closed.
        self.window = 0
        # A message came for which there was no room: the consumer is to be closed.
        self.is_overfull = False
        # Why the broker has closed the channel.
        self.failure: Exception | None = None
        self._consumer: str | None = None
        # The delivery tags: of the consumer's first message, the last one, and the last acked one.
        self._first: int | None = None
        self._last = 0
        self._acked = 0
        channel._impl.add_on_close_callback(self._on_channel_closed)

    @property
    def is_exhausted(self) -> bool:
        """Has the whole window been delivered, with none of it acked? Then nothing is coming."""
        if self._first is None or not self.window:
            return False
        return self._last - max(self._acked, self._first - 1) >= self.window

    def open(self, window: int) -> None:
        """Let so many messages in; those of the windows before are not counted."""
        self._cancel()
        self._first = None
        self.is_overfull = False
        self._channel.basic_qos(prefetch_count=window)
        self._consumer = self._channel.basic_consume(self._queue, self._on_message)
        self.window = window

    def close(self) -> None:
        """Receive nothing more; messages on their way go back, received ones stay unacked."""
        self.window = 0
        self._cancel()

    def close_before(self, tag: int) -> None:
        """Let nothing in if an ack up to this tag leaves nothing unacked."""
        if tag >= self._last:
            self.close()

    def ack(self, tag: int, on_read: Callable[[], None]) -> None:
        """Ack everything up to this tag; `on_read` is called when the broker has read it."""
        self._acked = tag
        self._channel.basic_ack(tag, multiple=True)
        # The declare's answer says so. It may be far behind, and is not waited for: pika would keep
        # everything that arrives before it, without a limit.
        self._channel._impl.queue_declare(
            self._queue, passive=True, callback=lambda _answer: on_read()
        )

    def ack_all(self) -> None:
        """Ack everything that has come, and return when the broker has read it."""
        if self._last > self._acked:
            self._acked = self._last
            self._channel.basic_ack(self._last, multiple=True)
            self._channel.queue_declare(self._queue, passive=True)

    def _cancel(self) -> None:
        if self._consumer is not None:
            consumer, self._consumer = self._consumer, None
            # Rejects messages that pika has not handed over, and those that arrive until the broker
            # has answered.
            self._channel.basic_cancel(consumer)

    def _on_message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        if self.is_overfull or not self._receive(method, properties, body):
            # Those behind it, too: they must not come before it.
            self.is_overfull = True
            channel.basic_reject(method.delivery_tag)
            return
        self._last = method.delivery_tag
        if self._first is None:
            self._first = self._last

    def _on_channel_closed(self, _channel: Any, reason: Exception) -> None:
        self.failure = reason
