"""The times of one connection: when its reader is to be woken, and its heartbeats both ways.

Runs inside the reader's actor.
"""

from __future__ import annotations

from ...core.connection.heartbeat import HeartbeatWatch
from ...core.statistics.traffic import Traffic
from ..messages import Ref, StartHeartbeats, WakeAt
from ..node_context import NodeContext
from ..runtime.runtime import tell


class ConnectionClock:
    """Asks the ticker to wake `reader`."""

    def __init__(self, context: NodeContext, reader: Ref, traffic: Traffic) -> None:
        self._context = context
        self._reader = reader
        self._traffic = traffic
        self._watch = HeartbeatWatch()
        self._interval_seconds = 0.0

    def wake_in(self, seconds: float, token: str) -> None:
        """Have the reader told Woken(token)."""
        when = self._context.runtime.scheduler.time() + seconds
        tell(self._context.ticker, WakeAt(when, self._reader, token))

    def start_heartbeats(self, heartbeat_seconds: int, writer: Ref) -> None:
        """Send and look for them twice as often as was agreed; 0 is never."""
        self._interval_seconds = heartbeat_seconds / 2
        if heartbeat_seconds:
            tell(writer, StartHeartbeats(self._interval_seconds))
            self.wake_in(self._interval_seconds, "heartbeat")

    def is_client_there(self, *, is_listening: bool) -> bool:
        """Has the client been heard of? If so it is looked for again after the interval."""
        # Each read is a sign of the client's life.
        self._watch.signs = self._traffic.received_count
        is_there = self._watch.look(is_listening=is_listening)
        if is_there:
            self.wake_in(self._interval_seconds, "heartbeat")
        return is_there
