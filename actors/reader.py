"""The incoming half of a connection, and its owner: one per client.

Duties: header and handshake; decoding; handing every channel its part of each read; turning what a
client did wrong into connection.close or channel.close, in one place; heartbeats that do not come;
the stop of reading when the broker is not keeping up. Parent of its channels and of its writer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..amqp_frames.batch import MethodFrame
from ..amqp_frames.constants import CHANNEL_ERROR, CONNECTION_FORCED, PROTOCOL_HEADER
from ..amqp_frames.decoder import Event
from ..amqp_frames.errors import AmqpError, HardError
from ..amqp_frames.methods import (
    ChannelClose,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
    encode_method,
)
from ..core.connection_phase import Phase
from ..core.handshake import State
from ..core.peer import Peer
from .connection_channels import ConnectionChannels
from .connection_clock import ConnectionClock
from .connection_flow import FLOW_MESSAGES, ConnectionFlow
from .connection_log import ConnectionLog
from .connection_opening import Opening
from .messages import (
    Abandon,
    ChannelClosed,
    ChannelFailed,
    CloseTransport,
    ConnectionDown,
    ConnectionLost,
    Down,
    LoginAnswer,
    QueuesDeleted,
    Ref,
    Shutdown,
    Woken,
    WriteStalled,
)
from .node_context import NodeContext
from .runtime import LoopActor, tell
from .transport import ReadableTransport
from .writer import Writer

# RabbitMQ's SILENT_CLOSE_DELAY, for a client that was refused without a word.
SILENT_CLOSE_SECONDS = 3.0


class Reader(LoopActor):
    """Owns one connection from its first byte to its last."""

    def __init__(
        self, context: NodeContext, transport: ReadableTransport, peer: Peer, parent: Ref
    ) -> None:
        super().__init__()
        self._context = context
        self._transport = transport
        self._parent = parent
        self._phase = Phase.HEADER
        # Why its socket is being closed; "" if that is the client's doing.
        self._end_reason = ""
        self._decoder = context.new_decoder()
        self._opening = Opening(context, peer, self.actor_ref)
        self._handshake = self._opening.handshake
        self._log = ConnectionLog(context, peer.name, self._handshake)
        self._channels = ConnectionChannels(context, self._opening, self._decoder, self.actor_ref)
        self._window = self._channels.window
        self._flow = ConnectionFlow(
            context, transport, self._window, self._opening, self._log, self.actor_ref
        )
        self._clock = ConnectionClock(context, self.actor_ref)

    def on_start(self) -> None:
        """Start the writer; give the client so long for its handshake."""
        ticker = self._context.ticker
        self._writer = Writer.start_on(self.runtime, self._transport, self.actor_ref, ticker)
        self._clock.wake_in(self._context.handshake_timeout_seconds, "handshake")

    def on_receive(self, message: object) -> None:
        """Dispatch; bytes first, they are the hot path."""
        if isinstance(message, bytes):
            self._received(message)
        elif isinstance(message, FLOW_MESSAGES):
            self._flow.take(message, self._writer)
        elif isinstance(message, Woken):
            self._woken(message.token)
        elif isinstance(message, ChannelClosed):
            self._channels.forget(message.channel_number)
        elif isinstance(message, ChannelFailed):
            self._channel_failed(message.channel_number, message.error)
        elif isinstance(message, LoginAnswer):
            if self._phase is Phase.HANDSHAKE:
                self._logged_in(message.is_allowed)
        elif isinstance(message, WriteStalled):
            self._gone("client does not take what is written")
        elif isinstance(message, QueuesDeleted):
            if self._phase is Phase.CLIENT_CLOSING:
                self._write(0, ConnectionCloseOk())
                self._end_transport()
        elif isinstance(message, Shutdown):
            if self._phase in (Phase.HEADER, Phase.HANDSHAKE):
                self._end_transport()
            else:
                self._fail(HardError(CONNECTION_FORCED, message.reason))
        elif isinstance(message, Abandon):
            self._transport.abort()
        elif isinstance(message, Down):
            self._log.error("connection.failed", actor=message.what)  # There is no way to say so.
            self._transport.abort()
        elif isinstance(message, ConnectionLost):
            self._lost(message.reason)

    # --- Bytes in

    def _received(self, data: bytes) -> None:
        self._clock.received()
        self._flow.received(len(data))
        if self._phase is Phase.HEADER:
            self._take_header(data)
            return
        self._take(self._decoder.feed(data))
        if self._decoder.error is not None and self._phase in (Phase.HANDSHAKE, Phase.RUNNING):
            self._fail(self._decoder.error)

    def _take_header(self, data: bytes) -> None:
        try:
            rest = self._opening.take_header(data)
        except ValueError as fault:
            self._log.warning("connection.refused", reason=str(fault))
            tell(self._writer, PROTOCOL_HEADER)
            self._end_transport()
            return
        if rest is not None:
            self._phase = Phase.HANDSHAKE
            self._write(0, self._handshake.start())
            if rest:
                self._received(rest)

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            try:
                if self._phase in (Phase.CLOSING, Phase.CLIENT_CLOSING, Phase.ENDED):
                    self._closing_event(event)
                elif self._phase is Phase.RUNNING or not self._opening.holds_back(event):
                    self._event(event)
            except AmqpError as error:
                self._fail(error)

    def _event(self, event: Event) -> None:
        if event.channel_number == 0:
            assert isinstance(event, MethodFrame)
            self._connection_method(event.method)
            return
        if self._phase is not Phase.RUNNING:
            text = f"unexpected frame in connection state {self._handshake.state.value}"
            raise HardError(CHANNEL_ERROR, text)
        self._channels.take(event, self._writer)
        self._flow.handed_over(event, self._writer)

    def _connection_method(self, method: Method) -> None:
        if self._phase is Phase.HANDSHAKE:
            handshake = self._handshake
            answer = handshake.receive(method)
            self._flow.phase_changed(self._phase)
            if handshake.state is State.OPEN:
                self._decoder.set_frame_max(handshake.limits.frame_max_bytes)
                self._clock.start_heartbeats(handshake.limits.heartbeat_seconds, self._writer)
            if answer is not None:
                self._write(0, answer)
            if handshake.state is State.DONE:
                self._phase = Phase.RUNNING
                self._flow.phase_changed(self._phase)
                self._log.info("connection.opened", user=handshake.user, vhost=handshake.vhost)
        elif isinstance(method, ConnectionClose):
            self._phase = Phase.CLIENT_CLOSING
            self._flow.phase_changed(self._phase)
            self._channels.release()
            self._tell_broker()
        elif isinstance(method, ConnectionUpdateSecret):
            # Credentials here do not expire, so any new one will do, as for RabbitMQ's own users.
            self._log.info("connection.secret_updated", reason=method.reason)
            self._write(0, ConnectionUpdateSecretOk())
        else:
            text = f"unexpected method in connection state {self._phase.value}"
            raise HardError(CHANNEL_ERROR, text, method.class_id, method.method_id)

    def _logged_in(self, is_allowed: bool) -> None:
        try:
            self._write(0, self._handshake.logged_in(is_allowed))
            self._flow.phase_changed(self._phase)
        except AmqpError as error:
            self._fail(error)
        self._take(self._opening.held_back())

    # --- Endings

    def _closing_event(self, event: Event) -> None:
        if isinstance(event, MethodFrame) and event.channel_number == 0:
            if isinstance(event.method, ConnectionCloseOk) and self._phase is Phase.CLOSING:
                self._end_transport()
            elif isinstance(event.method, ConnectionClose):
                self._write(0, ConnectionCloseOk())

    def _channel_failed(self, number: int, error: AmqpError) -> None:
        """A channel ended by a client's mistake: channel.close is said here, and only here."""
        if self._phase is not Phase.RUNNING:
            return  # The client has closed the connection already, and waits for its close-ok.
        if isinstance(error, HardError):
            self._channels.forget(number)
            self._fail(error)
        elif self._channels.close(number):
            self._log.warning("channel.closed", channel=number, error=str(error))
            self._write_close(number, ChannelClose, error)
            self._channels.answer_crossing(number, self._writer)

    def _fail(self, error: AmqpError) -> None:
        """Say connection.close for this error: the one place where it is said."""
        if self._phase in (Phase.CLOSING, Phase.ENDED):
            return
        was_running = self._phase is not Phase.HANDSHAKE
        event = "connection.error" if was_running else "connection.refused"
        self._log.warning(event, error=str(error), user=self._handshake.user)
        self._phase = Phase.CLOSING
        self._channels.release()
        if was_running:
            self._tell_broker()
        is_silent = self._handshake.hides(error)
        if not is_silent:
            self._write_close(0, ConnectionClose, error)
        delay = self._context.close_timeout_seconds
        if is_silent or self._decoder.lost_sync:
            delay = SILENT_CLOSE_SECONDS
        self._clock.wake_in(delay, "close")
        self._flow.phase_changed(self._phase)

    def _end_transport(self) -> None:
        self._phase = Phase.ENDED
        tell(self._writer, CloseTransport())
        self._clock.wake_in(self._context.close_timeout_seconds, "abort")

    def _tell_broker(self) -> None:
        tell(self._context.broker, ConnectionDown(self.actor_ref, self.actor_ref))

    def _lost(self, reason: str) -> None:
        if self._phase in (Phase.RUNNING, Phase.CLOSING, Phase.CLIENT_CLOSING):
            self._tell_broker()
        self._channels.release()
        # One line, of the end that the broker has seen coming if there was one.
        told = self._log.warning if self._end_reason else self._log.info
        told("connection.closed", reason=self._end_reason or reason, phase=self._phase.value)
        self._phase = Phase.ENDED
        self._writer.stop(block=False)
        self.stop()

    def on_stop(self) -> None:
        """The listener forgets it."""
        tell(self._parent, Down(self.actor_ref, "stopped"))

    def on_failure(self, *_exception: object) -> None:
        """An exception of ours: the client sees its socket close."""
        self._channels.release()
        self._tell_broker()
        self._writer.stop(block=False)
        self._transport.abort()
        tell(self._parent, Down(self.actor_ref, "failed"))

    # --- Time and flow

    def _woken(self, token: object) -> None:
        if token == "handshake" and self._phase in (Phase.HEADER, Phase.HANDSHAKE):
            self._log.warning("connection.refused", reason="handshake timeout")
            self._end_transport()
        elif token in ("close", "abort"):
            self._transport.abort()
        elif (
            token == "heartbeat"
            and self._phase is not Phase.ENDED
            and not self._clock.is_client_there(is_listening=not self._flow.gate.is_paused)
        ):
            self._gone("missed heartbeats from client")

    def _gone(self, reason: str) -> None:
        self._end_reason = self._end_reason or reason
        self._transport.abort()

    def _write(self, channel_number: int, method: Method) -> None:
        tell(self._writer, encode_method(channel_number, method))

    def _write_close(self, number: int, close: Any, error: AmqpError) -> None:
        ids = (error.class_id, error.method_id)
        self._write(number, close(error.reply_code, error.reply_text, *ids))
