"""When one connection's socket is read, and what its client is told of that.

Runs inside the reader's actor, and is apart from it only to be read by itself. While there is an
alarm, a client that publishes is told connection.blocked, if it knows of it, and is read no more
until the alarm is over; what it had sent by then is taken. One that only consumes goes on.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ..amqp_frames.batch import ChannelInput
from ..amqp_frames.decoder import Event
from ..amqp_frames.methods import ConnectionBlocked, ConnectionUnblocked, Method, encode_method
from ..core.connection_phase import Phase
from ..core.publish_window import PublishWindow
from .connection_log import ConnectionLog
from .connection_opening import Opening
from .messages import Absorbed, AlarmCleared, Ref, WriteBuffer
from .node_context import NodeContext
from .reading_gate import ReadingGate
from .runtime import tell
from .transport import ReadableTransport

# What the reader passes on to `ConnectionFlow.take`.
FLOW_MESSAGES: Final = (Absorbed, WriteBuffer, AlarmCleared)
FlowMessage = Absorbed | WriteBuffer | AlarmCleared


class ConnectionFlow:
    """Opens and closes the gate of `reader`'s transport."""

    def __init__(
        self,
        context: NodeContext,
        transport: ReadableTransport,
        window: PublishWindow,
        opening: Opening,
        log: ConnectionLog,
        reader: Ref,
    ) -> None:
        self._context = context
        self._window = window
        self._opening = opening
        self._log = log
        self._reader = reader
        self.gate = ReadingGate(transport, window)
        self._phase = Phase.HEADER
        # Why it is not read, as the trace was told; "" while it is, but for pauses of a moment.
        self._told = ""

    def received(self, count: int) -> None:
        """Count a read; after a burst of them everything else has its turn first."""
        if self.gate.received(count):
            self._balance()
            self._context.runtime.scheduler.call_soon(partial(tell, self._reader, Absorbed()))

    def handed_over(self, event: Event, writer: Ref) -> None:
        """A channel has been handed what was read."""
        alarm = self._context.alarm
        if alarm and isinstance(event, ChannelInput) and event.batch is not None:
            if not self.gate.is_alarmed:
                self.gate.is_alarmed = True
                self._say(ConnectionBlocked(alarm), writer)
                self._balance()
        elif self._window.is_closed:
            self._balance()

    def take(self, message: FlowMessage, writer: Ref) -> None:
        """Take news of what reading waits for."""
        if isinstance(message, Absorbed):
            self.gate.is_resting = False
        elif isinstance(message, WriteBuffer):
            self.gate.is_write_blocked = message.is_full
            tell(writer, message)
        elif self.gate.is_alarmed:
            self.gate.is_alarmed = False
            self._say(ConnectionUnblocked(), writer)
        self._balance()

    def phase_changed(self, phase: Phase) -> None:
        """The connection is in this phase; or its login waits for an answer, or no longer."""
        self._phase = phase
        self._balance()

    def _balance(self) -> None:
        awaits_login = self._phase is Phase.HANDSHAKE and self._opening.awaits_login
        is_running = self._phase is Phase.RUNNING
        self.gate.balance(is_running, awaits_login)
        reason = self.gate.reason() if is_running else ""
        if reason != self._told:
            self._told = reason
            event = "flow.paused" if reason else "flow.resumed"
            self._log.tell(event, reason=reason, held_bytes=self._window.used_bytes)

    def _say(self, method: Method, writer: Ref) -> None:
        knows = self._opening.handshake.capability("connection.blocked")
        if knows and self._phase is Phase.RUNNING:
            tell(writer, encode_method(0, method))
            if isinstance(method, ConnectionBlocked):
                self._log.tell("connection.blocked", reason=method.reason)
            else:
                self._log.tell("connection.unblocked", reason="the alarm is over")
