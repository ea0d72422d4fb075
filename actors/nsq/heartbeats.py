"""The heartbeats of one NSQ connection: the broker's go out, the client must be heard of.

Other than AMQP's they go out whatever else is written, because a client answers them: one that
works on a message for long has nothing else to say, and would be taken for dead.
"""

from __future__ import annotations

from ...core.connection.heartbeat import HeartbeatWatch
from ...core.statistics.traffic import Traffic
from ...nsq_frames.responses import HEARTBEAT
from ..connection.transport import Transport, acknowledged_bytes
from ..messages import Ref, WakeAt
from ..node_context import NodeContext
from ..runtime.runtime import tell

TOKEN = "heartbeat"


class Heartbeats:
    """Wakes `connection` twice an interval."""

    __slots__ = (
        "_connection",
        "_context",
        "_half_seconds",
        "_is_second",
        "_taken",
        "_traffic",
        "signs",
    )

    def __init__(self, context: NodeContext, traffic: Traffic, connection: Ref) -> None:
        self._context = context
        self._traffic = traffic
        self._connection = connection
        self._half_seconds = 0.0
        self._is_second = False
        # The connection counts reads as signs of the client's life.
        self.signs = HeartbeatWatch()
        # While the client takes nothing it is not read, so only what it takes is a sign.
        self._taken = HeartbeatWatch()

    def start(self, interval_ms: int) -> None:
        """One in each interval from now on; 0 is never."""
        self._half_seconds = interval_ms / 2000
        self._is_second = False
        self._wake()

    def beat(self, writer: Ref, transport: Transport, *, is_read: bool, is_stuck: bool) -> str:
        """Half an interval is over; why the client is taken for dead, or ""."""
        if not self._half_seconds:
            return ""
        if self._is_second:
            tell(writer, HEARTBEAT)
        self._is_second = not self._is_second
        if is_stuck:
            self._taken.signs = acknowledged_bytes(transport, self._traffic.sent_bytes)
        takes = self._taken.look(is_listening=is_stuck)
        if not self.signs.look(is_listening=is_read):
            return "missed heartbeats from client"
        if not takes:
            return "client does not take what is written"
        self._wake()
        return ""

    def _wake(self) -> None:
        if self._half_seconds:
            when = self._context.runtime.scheduler.time() + self._half_seconds
            tell(self._context.ticker, WakeAt(when, self._connection, TOKEN))
