"""One NSQ connection: reader and channel in one, because it has one subscription at most.

Duties: input, in its order (core/nsq/incoming.py); the answers, in that order
(core/nsq/answers.py); the end. Its parts have state of their own: `commands.py` carries out
commands, and has the halves `publishing.py` and `consuming.py`, `entrance.py`, who the client is,
and `upgrades.py`, TLS and compression; `flow.py` says when to read; `heartbeats.py`. Parent: the
listener. The writer is AMQP's (actors/connection/writer.py).

While a command waits for another actor, all input behind it is held back, and the socket is not
read. So does a publish wait while there is an alarm. A client's mistake is told in one place,
`_fail`: most end the connection, once all earlier commands are answered. An exception of ours
closes the socket.
"""

from __future__ import annotations

from typing import Final, cast

from ...core.connection.peer import Peer
from ...core.nsq.answers import Answers
from ...core.nsq.identity import NsqIdentity
from ...core.nsq.incoming import BadMagicError, Incoming
from ...core.nsq.session import Session, State
from ...core.statistics.traffic import Traffic
from ...nsq_frames.commands import Command, Fault, Finishes
from ...nsq_frames.compression import StreamError
from ...nsq_frames.errors import NsqError
from ...nsq_frames.publishes import PublishRun
from ...nsq_frames.responses import BAD_PROTOCOL, error_frame
from ..connection.log import ConnectionLog
from ..connection.transport import ReadableTransport
from ..connection.writer import Writer
from ..messages import (
    Abandon,
    Absorbed,
    AlarmCleared,
    ChannelReport,
    CloseTransport,
    Confirm,
    ConnectionLost,
    ConsumerAdded,
    ConsumerCancelled,
    Deliver,
    Down,
    Evict,
    Flushed,
    InputEnded,
    LoginAnswer,
    Ref,
    Refused,
    Reject,
    ReportChannel,
    RoundOver,
    RouteMore,
    Shutdown,
    TimedOut,
    TopicAnswer,
    Upgraded,
    WakeAt,
    Woken,
    WriteBuffer,
)
from ..node_context import NodeContext
from ..runtime.runtime import LoopActor, tell
from .commands import NOTHING, Commands
from .flow import NsqFlow
from .heartbeats import TOKEN as HEARTBEAT_TOKEN
from .heartbeats import Heartbeats
from .publishing import failed
from .settings import NsqSettings
from .upgrades import UpgradableTransport

# The most that a command may have before the client has said who it is.
STRANGER_BYTES_MAX: Final = 65_536
# A longer read is not looked at for being one run of publishes: if it is not, it is scanned twice.
LONE_BYTES_MAX: Final = 4_096


class NsqConnection(LoopActor):
    """Owns one connection from its first byte to its last."""

    def __init__(
        self,
        context: NodeContext,
        settings: NsqSettings,
        transport: ReadableTransport,
        peer: Peer,
        parent: Ref,
    ) -> None:
        super().__init__()
        self._context = context
        self._settings = settings
        self._transport = UpgradableTransport(transport)
        self._peer = peer
        self._parent = parent
        self._identity = NsqIdentity(peer)
        self._log = ConnectionLog(context, peer, self._identity)
        self._session = Session(settings.limits)
        self._incoming = Incoming(settings.publish_limits)
        self._flow = NsqFlow(context, self._transport, self.actor_ref)
        self._window = self._flow.window
        self._traffic = Traffic()
        self._heartbeats = Heartbeats(context, self._traffic, self.actor_ref)
        self._answers = Answers(self._refusal)
        # The client has ended its direction.
        self._is_input_over = False
        # It ends behind the last answer; and that is written.
        self._is_ending = False
        self._is_ended = False
        # Why the broker closes the socket; "" if the client does.
        self._end_reason = ""

    def on_start(self) -> None:
        """Start the writer and the heartbeats; give the client so long for the magic."""
        context = self._context
        self._writer = Writer.start_on(
            self.runtime, self._transport, self.actor_ref, context.ticker, self._traffic
        )
        self._commands = Commands(
            context,
            self._settings,
            self._session,
            self._identity,
            self._peer,
            self._incoming,
            self._answers,
            self._transport,
            self._flow,
            self._heartbeats,
            self._traffic,
            self._log,
            self._writer,
            self.actor_ref,
        )
        if self._peer.is_internal:
            # The request that it serves has its own limit of time.
            self._session.heartbeat_ms = 0
        else:
            self._wake_in(context.handshake_timeout_seconds, "handshake")
        self._heartbeats.start(self._session.heartbeat_ms)

    def on_receive(self, message: object) -> None:
        """Dispatch, most frequent first."""
        if isinstance(message, bytes):
            self._received(message)
        elif isinstance(message, (Confirm, Reject)):
            if self._commands.publishing is not None:
                self._commands.publishing.answered(message)
        elif isinstance(message, Deliver):
            if self._commands.consuming is not None:
                self._commands.consuming.deliver(message)
        elif isinstance(message, (Absorbed, RoundOver, WriteBuffer, AlarmCleared)):
            self._update_flow(message)
        elif isinstance(message, TimedOut):
            if self._commands.consuming is not None:
                self._commands.consuming.time_out(message)
        elif isinstance(message, RouteMore):
            self._route_more()
        elif isinstance(message, Woken):
            self._woken(message.token)
        elif isinstance(message, (TopicAnswer, LoginAnswer, ConsumerAdded, Refused)):
            self._answered(message)
        elif isinstance(message, Flushed):
            # The answer to IDENTIFY is written, as the last octets of its kind.
            if not self._is_ending and self._commands.begin_upgrade():
                self._handle_input()
        elif isinstance(message, Upgraded):
            self._upgraded(message)
        elif isinstance(message, ReportChannel):
            commands = self._commands
            report = ChannelReport(self.actor_ref, commands.report(), commands.nsq_report())
            tell(message.reply_to, report)
        else:
            self._ending(message)

    def on_idle(self) -> None:
        """Write the answers that are due; give absorbed bytes back to the window."""
        if self._is_ended:
            return
        publishing, answers = self._commands.publishing, self._answers
        if answers.has_frame or (publishing is not None and publishing.is_answered):
            if publishing is None:
                frames, is_refused = answers.due(0, ())
            else:
                frames, is_refused = publishing.due()
                publishing.absorb()
            if frames:
                tell(self._writer, frames)
            if is_refused:
                self._stop_input()
        if not len(answers):
            self._commands.ask_to_flush()
            if self._is_ending and not self._commands.is_routing():
                self._end("" if self._is_input_over else "its client broke the protocol")

    # --- Bytes in

    def _received(self, data: bytes) -> None:
        self._heartbeats.signs.signs += 1
        traffic, size = self._traffic, len(data)
        traffic.received_bytes += size
        traffic.received_count += 1
        if self._flow.received(size):
            self._balance()
            self._flow.rest_until_next_round()
        if self._is_ending or (size <= LONE_BYTES_MAX and self._published_lone(data)):
            return
        try:
            self._incoming.feed(data)
        except BadMagicError:
            self._log.warning("connection.refused", reason="bad protocol magic")
            self._answers.put(BAD_PROTOCOL)
            self._stop_input()
            return
        self._handle_piece()

    def _published_lone(self, data: bytes) -> bool:
        """The shorter way of a read that is publishes to one queue; False: it is to be fed."""
        if self._context.alarms.reason or self._flow.gate.reason() is not None:
            return False
        if not self._commands.publish_lone(data):
            return False
        if self._incoming.events:
            self._handle_input()
            return True
        self._note_published()
        return True

    def _handle_input(self) -> None:
        """Handle what input has waited for; more of it follows in the next round."""
        self._handle_events()
        if self._incoming.has_more and self._may_go_on():
            self._flow.rest_between_pieces()
        if self._is_input_over and self._is_input_handled():
            self._end_input()
        self._balance()

    def _is_input_handled(self) -> bool:
        waits = self._incoming.events or self._commands.waiting is not NOTHING
        return not (waits or self._is_ending or self._incoming.has_more)

    def _end_input(self) -> None:
        """The client sends nothing more: it reads its answers, and then the connection ends."""
        fault = self._incoming.end()
        if fault is None:
            self._stop_input()
            return
        try:
            self._fault(fault)
        except NsqError as error:
            self._fail(error)

    def _handle_piece(self) -> None:
        """Handle one piece of the octets read: few octets may stand for many commands."""
        if self._may_go_on():
            self._scan_piece()
        self._handle_input()

    def _scan_piece(self) -> None:
        incoming = self._incoming
        try:
            incoming.scan(is_subscriber=self._session.state is not State.INIT)
        except StreamError as error:
            self._log.warning("connection.error", error=f"compressed stream: {error}")
            self._stop_input()
            return
        if self._commands.is_stranger() and incoming.held_bytes > STRANGER_BYTES_MAX:
            text = f"AUTH required before {incoming.held_bytes} octets of a command"
            self._fail(NsqError("E_AUTH_FIRST", text))

    def _may_go_on(self) -> bool:
        waits = self._incoming.events or self._commands.waiting is not NOTHING
        return not (waits or self._is_ending or self._flow.gate.reason())

    def _handle_events(self) -> None:
        events = self._incoming.events
        while events and self._commands.waiting is NOTHING and not self._is_ending:
            event = events.popleft()
            try:
                if isinstance(event, PublishRun):
                    self._publish(event)
                    if self._flow.gate.is_alarmed:
                        break
                elif isinstance(event, Finishes):
                    for error in self._commands.finish(event):
                        self._fail(error)
                elif isinstance(event, Command):
                    self._commands.carry_out(event)
                else:
                    self._fault(event)
            except NsqError as error:
                self._fail(error)

    def _publish(self, run: PublishRun) -> None:
        publishing = self._commands.known(run.command)
        if self._flow.is_alarmed():
            self._incoming.events.appendleft(run)
            return
        self._commands.publish(publishing, run)
        self._note_published()

    def _note_published(self) -> None:
        window = self._window
        if window.node.is_closed:
            window.published()
        if window.is_closed:
            self._balance()

    def _fault(self, fault: Fault) -> None:
        if fault.error is None:
            self._log.warning("connection.error", error="a command line without an end")
            self._stop_input()
            return
        self._session.check_state(fault.command)
        raise fault.error

    # --- Answers of other actors

    def _answered(self, message: TopicAnswer | LoginAnswer | ConsumerAdded | Refused) -> None:
        if self._is_ending:
            return
        try:
            self._commands.answered(message)
        except NsqError as error:
            self._fail(error)
        self._handle_input()

    def _route_more(self) -> None:
        try:
            if not self._commands.route_more():
                return
        except NsqError as error:
            self._fail(error)
        self._handle_input()

    def _upgraded(self, message: Upgraded) -> None:
        if message.transport is None:
            self._abort("TLS handshake failed")
            # A socket that is reset in a handshake has no other end.
            self._lost("TLS handshake failed")
        elif self._commands.upgraded(cast("ReadableTransport", message.transport)):
            self._handle_input()

    def _refusal(self, command: bytes) -> bytes:
        publishing = self._commands.publishing
        error = failed(command, publishing.reason if publishing is not None else "")
        self._log.warning("connection.error", error=str(error), user=self._identity.user)
        return error_frame(error.text)

    # --- Flow

    def _update_flow(self, message: Absorbed | RoundOver | WriteBuffer | AlarmCleared) -> None:
        is_alarm_over = self._flow.update(message, self._writer)
        if isinstance(message, RoundOver) and self._incoming.has_more:
            self._handle_piece()
        if is_alarm_over or self._incoming.has_more:
            self._handle_input()
        else:
            self._balance()

    def _balance(self) -> None:
        """Read on, or do not, as the conditions for reading demand by now."""
        is_running = not self._is_ending
        waits = is_running and self._commands.waiting is not NOTHING
        self._flow.balance(is_running=is_running, waits=waits)

    def _woken(self, token: object) -> None:
        if token == HEARTBEAT_TOKEN:
            if self._is_ending:
                return
            gate = self._flow.gate
            is_stuck = gate.is_write_blocked
            reason = self._heartbeats.beat(
                self._writer, self._transport, is_read=not gate.is_paused, is_stuck=is_stuck
            )
            if reason:
                self._abort(reason)
        elif token == "handshake":
            if not self._incoming.has_magic:
                self._log.warning("connection.refused", reason="handshake timeout")
                self._abort("handshake timeout")
        elif token == "close":
            self._transport.abort()

    def _wake_in(self, seconds: float, token: str) -> None:
        when = self._context.runtime.scheduler.time() + seconds
        tell(self._context.ticker, WakeAt(when, self.actor_ref, token))

    # --- Endings

    def _fail(self, error: NsqError) -> None:
        """Tell the client of its mistake, behind the answers to earlier commands."""
        if self._is_ending:
            return
        self._answers.put(error_frame(error.text))
        if error.is_fatal:
            self._log.warning("connection.error", error=str(error), user=self._identity.user)
            self._stop_input()

    def _stop_input(self) -> None:
        """Handle nothing more; owed answers are written, and then the connection ends."""
        self._is_ending = True
        self._incoming.close()
        self._commands.stop_deliveries()
        self._balance()

    def _end(self, reason: str) -> None:
        """The last answer is written: close the socket behind it."""
        self._is_ended = True
        self._end_reason = self._end_reason or reason
        if self._commands.consuming is not None:
            self._commands.consuming.release("its connection ends")
        tell(self._writer, CloseTransport())
        self._wake_in(self._context.close_timeout_seconds, "close")

    def _abort(self, reason: str) -> None:
        self._end_reason = self._end_reason or reason
        self._transport.abort()

    def _ending(self, message: object) -> None:
        if isinstance(message, ConnectionLost):
            self._lost(message.reason)
        elif isinstance(message, InputEnded):
            self._is_input_over = True
            self._handle_input()
        elif isinstance(message, ConsumerCancelled):
            # As nsqd: who consumes from a channel that is deleted is disconnected.
            self._stop_input()
            self._end_reason = "its channel is deleted"
        elif isinstance(message, Shutdown):
            self._stop_input()
            if not self._is_ended:
                self._end(message.reason)
        elif isinstance(message, Abandon):
            self._abort("")
        elif isinstance(message, Evict):
            if self._commands.publishing is None:
                self._log.warning("connection.refused", reason=f"gave way: {message.limit}")
                self._transport.abort()
        elif isinstance(message, Down):
            self._log.error("connection.failed", actor=message.what)
            self._transport.abort()

    def _lost(self, reason: str) -> None:
        self._release(reason)
        log = self._log.warning if self._end_reason else self._log.info
        log("connection.closed", reason=self._end_reason or reason)
        self._writer.stop(block=False)
        self.stop()

    def _release(self, reason: str) -> None:
        self._is_ending = self._is_ended = True
        self._incoming.close()
        self._commands.release(reason)
        self._window.end()

    def on_stop(self) -> None:
        """The listener forgets it."""
        tell(self._parent, Down(self.actor_ref, "stopped"))

    def on_failure(self, *_exception: object) -> None:
        """An exception of ours: the client sees its socket close."""
        self._release("it has failed")
        self._writer.stop(block=False)
        self._transport.abort()
        tell(self._parent, Down(self.actor_ref, "failed"))
