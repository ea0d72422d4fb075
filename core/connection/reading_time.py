"""How long the broker has not read one connection, and why.

Its client cannot be blamed for this time. While the broker does not read (its publishes wait
inside, there is an alarm, the client does not take the bytes written to it), an ack may lie in the
socket. So heartbeats and in-flight time-outs stand still meanwhile. Times are milliseconds of a
clock that only goes forward.
"""

from __future__ import annotations

from enum import Enum


class Pause(Enum):
    """Why a connection is not read."""

    ALARM = "there is an alarm"
    CLIENT = "its client does not read"
    NODE_WINDOW = "the publishes of all connections wait inside the broker"
    WINDOW = "its publishes wait inside the broker"


class ReadingTime:
    """The connection's reader tells when reading pauses and goes on; queues ask for the sum.

    `reason` is None while the connection is read.
    """

    __slots__ = ("_paused_at_ms", "_paused_ms", "reason")

    def __init__(self) -> None:
        self.reason: Pause | None = None
        self._paused_ms = 0
        # None while the connection is read.
        self._paused_at_ms: int | None = None

    def pause(self, uptime_ms: int, reason: Pause) -> None:
        """Reading stops now, or is stopped and has another reason from now on."""
        self.reason = reason
        if self._paused_at_ms is None:
            self._paused_at_ms = uptime_ms

    def resume(self, uptime_ms: int) -> None:
        """Reading goes on now."""
        self._paused_ms = self.paused_ms(uptime_ms)
        self._paused_at_ms = None
        self.reason = None

    def paused_ms(self, uptime_ms: int) -> int:
        """For how long the connection has not been read until now, all in all."""
        if self._paused_at_ms is None:
            return self._paused_ms
        return self._paused_ms + uptime_ms - self._paused_at_ms
