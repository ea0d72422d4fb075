"""When one connection's socket is read, and what its client is told of that.

Runs inside the reader's actor. The reader stops reading while the broker does not keep up with
what the socket has brought, and while the client does not read its answers.

While there is an alarm, a client that publishes is told connection.blocked, if it knows of it, and
is read no more until the alarm is over. Its publish, and the rest of the same read, is kept until
then: else every new connection would bring one more read onto the full disk. A client that only
consumes goes on, and so does one whose only publishes are commands about deliveries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...amqp_frames.decoder import ChannelInput, Event
from ...amqp_frames.methods import ConnectionBlocked, ConnectionUnblocked, Method, encode_method
from ...core.connection.phase import ConnectionPhase, Phase
from ...core.connection.publish_window import PublishWindow
from ...core.connection.reading_time import Pause, ReadingTime
from ...core.publishing.delivery_commands import has_only_commands
from ..messages import Absorbed, AlarmCleared, Ref, RoundOver, WriteBuffer
from ..node_context import NodeContext
from ..runtime.read_rounds import ReadRounds
from ..runtime.runtime import tell
from .log import ConnectionLog
from .opening import Opening
from .transport import ReadableTransport


class ReadingGate:
    """Pauses and resumes reading; part of the reader's actor.

    An open connection is not read while too many publishes, its own or those of all connections
    together, wait inside the broker, while the
    client does not read the bytes written to it, because it would only ask for more, and while it
    publishes in spite of an alarm. An opening or closing connection pauses for a round of the event
    loop at most, or for its login, because the close-ok must be heard.
    """

    def __init__(
        self, transport: ReadableTransport, window: PublishWindow, rounds: ReadRounds
    ) -> None:
        self._transport = transport
        self._window = window
        self._rounds = rounds
        # The last round in which it brought much, and how much.
        self._round = 0
        self._round_bytes = 0
        self.is_write_blocked = False
        self.is_alarmed = False
        self.is_paused = False
        # Until the event loop's next round.
        self.is_resting = False

    def received(self, count: int) -> bool:
        """Count a read; true if the next one is to wait for the event loop's next round.

        An event loop may read a socket dozens of times in a row.
        """
        rounds = self._rounds
        rounds.received(count)
        if self._round != rounds.number:
            self._round = rounds.number
            self._round_bytes = 0
        self._round_bytes += count
        if self._round_bytes < rounds.share_bytes or self.is_resting:
            return False
        self.is_resting = True
        return True

    def reason(self) -> Pause | None:
        """Why it is closed for longer than a round of the event loop; None if it is not."""
        if self.is_alarmed:
            return Pause.ALARM
        if self.is_write_blocked:
            return Pause.CLIENT
        if self._window.waits_for_node:
            return Pause.NODE_WINDOW
        return Pause.WINDOW if self._window.is_closed else None

    def balance(self, is_running: bool, awaits_login: bool = False) -> None:
        """Pause or resume reading, if the conditions for it have changed."""
        if self._transport.is_closing():
            # A rest may end behind the socket's own end.
            return
        must_pause = awaits_login or self.is_resting
        if is_running:
            is_full = self._window.is_closed or self.is_write_blocked
            must_pause = must_pause or is_full or self.is_alarmed
        if must_pause and not self.is_paused:
            self._transport.pause_reading()
        elif self.is_paused and not must_pause:
            self._transport.resume_reading()
        self.is_paused = must_pause


# What the reader passes on to `ConnectionFlow.update`.
FLOW_MESSAGES: Final = (Absorbed, RoundOver, WriteBuffer, AlarmCleared)
FlowMessage = Absorbed | RoundOver | WriteBuffer | AlarmCleared


class ConnectionFlow:
    """Opens and closes the gate of `reader`'s transport."""

    def __init__(
        self,
        context: NodeContext,
        transport: ReadableTransport,
        window: PublishWindow,
        phase: ConnectionPhase,
        opening: Opening,
        log: ConnectionLog,
        reading: ReadingTime,
        reader: Ref,
    ) -> None:
        self._context = context
        self._window = window
        self._opening = opening
        self._log = log
        self._reading = reading
        self._reader = reader
        self.gate = ReadingGate(transport, window, context.read_rounds)
        self._phase = phase
        # The events that arrived during an alarm: a publish first, then all later ones. No more
        # than a read or two, because nothing is read meanwhile.
        self.held_back: list[Event] = []

    def received(self, count: int) -> None:
        """Count a read that is not small; with its share, the connection rests for this round."""
        if self.gate.received(count):
            self.balance()
            self._context.read_rounds.rest(self._reader)

    def holds_back(self, event: Event, writer: Ref) -> bool:
        """Keep what may not be handled yet; false if it may.

        Until its login is decided, all input of a client; while there is an alarm, a publish and
        all input behind it.
        """
        if self._phase.now is not Phase.RUNNING:
            return self._opening.holds_back(event)
        if not self.held_back:
            alarm = self._context.alarms.reason
            if not alarm or not isinstance(event, ChannelInput) or event.batch is None:
                return False
            if has_only_commands(event.batch):
                # About deliveries: nothing of it is stored.
                return False
            self.gate.is_alarmed = True
            self._notify_client(ConnectionBlocked(alarm), writer)
            self.balance()
        self.held_back.append(event)
        return True

    def update(self, message: FlowMessage, writer: Ref) -> Sequence[Event]:
        """Take news of a condition for reading; returns the held-back events that may go on now."""
        released: Sequence[Event] = ()
        if isinstance(message, RoundOver):
            self.gate.is_resting = False
        elif isinstance(message, WriteBuffer):
            self.gate.is_write_blocked = message.is_full
            tell(writer, message)
        elif self.gate.is_alarmed and not self._context.alarms.reason:
            self.gate.is_alarmed = False
            released, self.held_back = self.held_back, []
            self._notify_client(ConnectionUnblocked(), writer)
        self.balance()
        return released

    def balance(self) -> None:
        """Read on, or do not, as the phase and the conditions for reading demand by now."""
        awaits_login = self._phase.now is Phase.SECURING
        is_running = self._phase.now is Phase.RUNNING
        self.gate.balance(is_running, awaits_login)
        reason = self.gate.reason() if is_running else None
        if reason is not self._reading.reason:
            uptime_ms = int(self._context.runtime.scheduler.time() * 1000)
            if reason is not None:
                self._reading.pause(uptime_ms, reason)
            else:
                self._reading.resume(uptime_ms)
            event = "flow.resumed" if reason is None else "flow.paused"
            text = "" if reason is None else reason.value
            self._log.tell(event, reason=text, held_bytes=self._window.used_bytes)

    def _notify_client(self, method: Method, writer: Ref) -> None:
        knows = self._opening.handshake.capability("connection.blocked")
        if knows and self._phase.now is Phase.RUNNING:
            tell(writer, encode_method(0, method))
            if isinstance(method, ConnectionBlocked):
                self._log.tell("connection.blocked", reason=method.reason)
            else:
                self._log.tell("connection.unblocked", reason="the alarm is over")
