"""When the socket of an NSQ connection is read.

As with AMQP (actors/connection/flow.py), but NSQ has no frame that tells the client of an alarm,
and input that waits for an answer of another actor closes the gate, too.
"""

from __future__ import annotations

from ...core.connection.publish_window import PublishWindow
from ...core.connection.reading_time import Pause, ReadingTime
from ..connection.flow import FlowMessage, ReadingGate
from ..connection.transport import ReadableTransport
from ..messages import Ref, RoundOver, WriteBuffer
from ..node_context import NodeContext
from ..runtime.read_rounds import SHARE_BYTES_MIN
from ..runtime.runtime import tell


class NsqFlow:
    """Opens and closes the gate of `connection`'s transport."""

    def __init__(self, context: NodeContext, transport: ReadableTransport, connection: Ref) -> None:
        self._context = context
        self._connection = connection
        self.window = PublishWindow(
            context.publish_window_bytes_max, context.node_window, connection
        )
        self.gate = ReadingGate(transport, self.window, context.read_rounds)
        self.reading = ReadingTime()

    def received(self, count: int) -> bool:
        """Count a read; true if the connection rests for this round: the gate is to be balanced."""
        return count >= SHARE_BYTES_MIN and self.gate.received(count)

    def rest_until_next_round(self) -> None:
        """RoundOver comes when the others have had their turns."""
        self._context.read_rounds.rest(self._connection)

    def rest_between_pieces(self) -> None:
        """There is more to handle of the octets read: the others have their turns in between."""
        if not self.gate.is_resting:
            self.gate.is_resting = True
            self._context.read_rounds.received(SHARE_BYTES_MIN)
            self.rest_until_next_round()

    def is_alarmed(self) -> bool:
        """Is there an alarm? Then a publish waits, and all input behind it."""
        if not self._context.alarms.reason:
            return False
        # Nothing may come onto the full disk.
        self.gate.is_alarmed = True
        return True

    def update(self, message: FlowMessage, writer: Ref) -> bool:
        """Take news of a condition for reading; true if the alarm is over that input waits for."""
        gate = self.gate
        if isinstance(message, RoundOver):
            gate.is_resting = False
        elif isinstance(message, WriteBuffer):
            gate.is_write_blocked = message.is_full
            tell(writer, message)
        elif gate.is_alarmed and not self._context.alarms.reason:
            gate.is_alarmed = False
            return True
        return False

    def balance(self, *, is_running: bool, waits: bool) -> None:
        """Read on, or do not; `waits`: input waits for another actor."""
        gate = self.gate
        gate.balance(is_running, waits)
        reason = gate.reason() or (Pause.WINDOW if waits else None)
        if is_running and reason is not None:
            self.reading.pause(self._uptime_ms(), reason)
        elif self.reading.reason is not None:
            self.reading.resume(self._uptime_ms())

    def _uptime_ms(self) -> int:
        return int(self._context.runtime.scheduler.time() * 1000)
