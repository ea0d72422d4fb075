"""A number of messages of one queue, delivered once and held unacked: for batch reads.

They come by a consumer, not by basic.get, which would be a round trip for each; and never more than
a window's worth is on its way (intake.py), so that the connection can be read while Spark works.
"""

from __future__ import annotations

import time
from typing import Any, Final

import pika

from ..errors import SourceError
from ..options import SHORT_MAX
from .intake import Intake, MessageSizes
from .received import Received

TURN_S: Final = 0.1
# Bytes of messages on their way at a time.
WINDOW_BYTES_MAX: Final = 16 * 1024 * 1024
# How much is held, in windows: messages not yet handed over, and those that arrive meanwhile.
HELD_WINDOWS_MAX: Final = 2


class Deliveries:
    """Receives `wanted` messages; used by one thread at a time."""

    def __init__(
        self,
        connection: pika.BlockingConnection,
        address: str,
        queue: str,
        wanted: int,
        window_bytes_max: int = WINDOW_BYTES_MAX,
        prefetch_max: int = SHORT_MAX,
    ) -> None:
        """Begin to consume. Whatever is unacked when the connection closes goes back.

        `window_bytes_max`: about how much may be on its way at a time. `prefetch_max`: to one
        consumer; more messages come to several, one after the other.
        """
        self._connection = connection
        self._address = address
        self._queue = queue
        self.wanted = wanted
        self._window_bytes_max = window_bytes_max
        self._prefetch_max = prefetch_max
        # How many have come, and those of them that have not been taken yet.
        self.count = 0
        self.held: list[Received] = []
        self.held_bytes = 0
        self._arrived_at_s = time.monotonic()
        channel = connection.channel()
        channel.add_on_cancel_callback(self._cancelled)
        self._intake = Intake(channel, queue, self._receive, MessageSizes())
        self._open_window()

    def _open_window(self) -> None:
        window = min(self.wanted - self.count, self._intake.sizes.fitting(self._window_bytes_max))
        if window:
            self._intake.open(min(window, self._prefetch_max))

    @property
    def are_complete(self) -> bool:
        """Has everything come?"""
        return self.count == self.wanted

    def wait(self, idle_ms: int) -> None:
        """Let the broker deliver for a moment; SourceError if it has not for `idle_ms`."""
        if self._intake.is_exhausted or not self._intake.window:
            self._open_window()
        self.read(TURN_S)
        if not self.are_complete and time.monotonic() - self._arrived_at_s >= idle_ms / 1000:
            raise SourceError(
                f"{self._address}: the queue {self._queue!r} gave {self.count} of the "
                f"{self.wanted} messages that were counted in it, and no more for {idle_ms} ms "
                "(idleTimeoutMs): others have taken them, or they have expired. None of them was "
                "acked here; load() again to read what is there now"
            )

    def read(self, seconds: float) -> None:
        """Read the connection for so long, or until something has come; no more is asked for."""
        self._connection.process_data_events(seconds)
        if self._intake.failure is not None:
            raise self._intake.failure
        if self._intake.is_overfull:
            self._intake.close()

    def dequeue(self) -> list[Received]:
        """Return the messages received since the last call, and forget them."""
        taken, self.held, self.held_bytes = self.held, [], 0
        return taken

    def forget_silence(self) -> None:
        """Count the broker's silence from now on: it had nothing left to deliver of a window."""
        self._arrived_at_s = time.monotonic()

    def ack(self) -> None:
        """Ack all of them, and return when the broker has read it."""
        self._intake.ack_all()

    def _receive(self, method: Any, properties: Any, body: bytes) -> bool:
        message = Received(
            self._queue,
            method.exchange,
            method.routing_key,
            method.redelivered,
            properties,
            body,
        )
        held_bytes = message.held_bytes
        self._intake.sizes.add(held_bytes)
        self._arrived_at_s = time.monotonic()
        if self.held and self.held_bytes + held_bytes > HELD_WINDOWS_MAX * self._window_bytes_max:
            return False
        self.held.append(message)
        self.held_bytes += held_bytes
        self.count += 1
        return True

    def _cancelled(self, _method: Any) -> None:
        raise SourceError(
            f"{self._address} cancelled the consumer of the queue {self._queue!r}: "
            "it has been deleted, or the broker that held it is gone"
        )
