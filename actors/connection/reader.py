"""The incoming half of a connection, and its owner: one per client.

Duties: header and handshake; decoding; handing every channel its part of each read; turning what a
client did wrong into connection.close or channel.close, in one place; heartbeats that do not come;
the stop of reading when the broker is not keeping up. Parent of its channels and of its writer.

`ConnectionChannels` opens and feeds the channels of the connection. A channel's number is free,
open, or closing: between a channel.close that the broker has written and its close-ok, the broker
drops the input that the client had sent before it received the close.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ...amqp_frames.constants import CHANNEL_ERROR, CONNECTION_FORCED, NOT_ALLOWED, PROTOCOL_HEADER
from ...amqp_frames.decoder import ChannelInput, Decoder, Event, MethodFrame, Oversized
from ...amqp_frames.errors import AmqpError, HardError
from ...amqp_frames.methods import (
    BasicAck,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
    encode_method,
)
from ...core.channel.transaction import TransactionMemory
from ...core.connection.outlet import Outlet
from ...core.connection.peer import Peer
from ...core.connection.phase import ConnectionPhase, Phase
from ...core.connection.publish_window import PublishWindow, WindowShare
from ...core.publishing.delivery_commands import has_only_commands
from ...core.publishing.properties import PUBLISH
from ...core.statistics.channel_counts import ChannelCounts
from ...core.users.login_results import LoginResult
from ..channel.channel import Channel
from ..messages import (
    Abandon,
    ChannelClosed,
    ChannelFailed,
    Command,
    ConnectionDown,
    ConnectionLost,
    Down,
    Evict,
    Finish,
    LoginAnswer,
    OversizedPublish,
    QueuesDeleted,
    Ref,
    Release,
    Shutdown,
    Woken,
    WriteStalled,
)
from ..node_context import NodeContext
from ..runtime.read_rounds import SHARE_BYTES_MIN
from ..runtime.runtime import LoopActor, tell
from .clock import ConnectionClock
from .end import ConnectionEnd
from .flow import FLOW_MESSAGES, ConnectionFlow
from .log import ConnectionLog
from .opening import Opening
from .transport import ReadableTransport
from .writer import Writer

# Where a state is asked for with each read: an attribute of an Enum's class takes long to find.
_RUNNING: Final = Phase.RUNNING
_ENDED: Final = Phase.ENDED
_HEADER: Final = Phase.HEADER

# What a command that waits for its turn takes up of the connection's window, beside what it
# publishes: about its size in memory, which is a multiple of its size on the wire.
COMMAND_BYTES_MIN = 4096
COMMAND_BYTES_FACTOR = 32


class ConnectionChannels:
    """Channel number -> its actor; None while its channel.close waits for the close-ok.

    `window` counts what all of them together have not absorbed yet.
    """

    def __init__(
        self, context: NodeContext, opening: Opening, decoder: Decoder, reader: Ref
    ) -> None:
        self._context = context
        # When the reader got the bytes that it hands over, by the trace's clock.
        self.read_at_ns = 0
        self._opening = opening
        self._decoder = decoder
        self.window = PublishWindow(context.publish_window_bytes_max, context.node_window, reader)
        self._outlet = Outlet(context.delivery_window_bytes_max, context.node_outlet)
        self._transaction_memory = TransactionMemory(context.transaction_bytes_max)
        self._reader = reader
        self._channels = opening.channels
        self._shares: dict[int, WindowShare] = {}
        # Those whose client has said channel.close, which is on its way to the actor.
        self._left: set[int] = set()

    def __len__(self) -> int:
        return len(self._channels)

    def hand_over(self, event: Event, writer: Ref) -> None:
        """Hand an event to its channel; HardError if there is no such channel."""
        number = event.channel_number
        if isinstance(event, ChannelInput):
            open_channel = self._channels.get(number)
            if open_channel is not None:
                batch = event.batch
                if batch is not None:
                    batch.received_ns = self.read_at_ns
                    self._shares[number].add(batch.wire_bytes)
                    if self.window.node.is_closed and not has_only_commands(batch):
                        self.window.published()
                tell(open_channel, event)
                return
        method = event.method if isinstance(event, MethodFrame) else None
        if number not in self._channels:
            if not isinstance(method, ChannelOpen):
                raise HardError(CHANNEL_ERROR, "expected 'channel.open'", *_ids(event))
            self._open(number, writer)
            return
        channel = self._channels[number]
        if channel is None:
            if method is not None:
                self._closing(number, method, writer)
        elif isinstance(event, MethodFrame):
            window_bytes = COMMAND_BYTES_MIN + COMMAND_BYTES_FACTOR * event.frame_bytes
            self._shares[number].add(window_bytes)
            if isinstance(event.method, ChannelClose):
                self._left.add(number)
            elif isinstance(event.method, ChannelOpen) and number in self._left:
                # The number is not free yet: the actor drops all input until its close-ok.
                raise HardError(CHANNEL_ERROR, "second 'channel.open' seen", *_ids(event))
            tell(channel, Command(event.method, window_bytes))
        elif isinstance(event, Oversized):
            tell(channel, OversizedPublish(event.body_bytes, event.is_immediate))

    def _open(self, number: int, writer: Ref) -> None:
        channel_max = self._opening.handshake.limits.channel_max
        if channel_max and len(self._channels) >= channel_max:
            raise HardError(
                NOT_ALLOWED,
                f"number of channels opened ({len(self._channels)}) has reached the "
                f"negotiated channel_max ({channel_max})",
            )
        self._opening.check_channel()
        vhost_user = self._opening.vhost_user
        assert vhost_user is not None
        share = self._shares[number] = WindowShare(self.window)
        counts = ChannelCounts(
            self._context.counts, vhost_user.access.topology, self._opening.is_internal
        )
        self._opening.channel_counts[number] = counts
        self._channels[number] = Channel.start_on(
            self._context.runtime,
            self._context,
            number,
            self._opening.handshake,
            vhost_user,
            share,
            self._outlet.share(),
            self._opening.reading,
            self._transaction_memory,
            counts,
            self._reader,
            writer,
        )

    def _closing(self, number: int, method: Method, writer: Ref) -> None:
        if isinstance(method, ChannelCloseOk):
            del self._channels[number]
        elif isinstance(method, ChannelClose):
            # Both sides closed it at once.
            tell(writer, encode_method(number, ChannelCloseOk()))

    def close(self, number: int) -> bool:
        """The channel's actor has failed for its client's mistake; false if it is not open."""
        if self._channels.get(number) is None:
            return False
        self._channels[number] = None
        del self._shares[number]
        del self._opening.channel_counts[number]
        self._decoder.channel_closed(number)
        return True

    def answer_crossing(self, number: int, writer: Ref) -> None:
        """Answer a channel.close that was said before the broker's own could be heard."""
        if number in self._left:
            self._left.remove(number)
            tell(writer, encode_method(number, ChannelCloseOk()))

    def forget(self, number: int) -> None:
        """The number is free."""
        self._left.discard(number)
        self._channels.pop(number, None)
        self._shares.pop(number, None)
        self._opening.channel_counts.pop(number, None)

    def finish(self) -> None:
        """The client closed the connection: each channel ends behind the input that came before."""
        self._decoder.close()
        for number, channel in list(self._channels.items()):
            if channel is None:
                del self._channels[number]
            else:
                tell(channel, Finish())

    def release(self) -> None:
        """The connection ends: every channel releases its state, and hears no more."""
        self._decoder.close()
        for channel in self._channels.values():
            if channel is not None:
                tell(channel, Release())
        self._channels.clear()
        self._shares.clear()
        self._opening.channel_counts.clear()

    def end(self) -> None:
        """The socket is closed: nothing waits for it any more, and nothing is on its way to it."""
        self.window.end()
        self._outlet.end()


def _ids(event: Event) -> tuple[int, int]:
    """The class id and method id of this event."""
    if isinstance(event, MethodFrame):
        return event.method.class_id, event.method.method_id
    if isinstance(event, ChannelInput) and event.batch is None:
        return BasicAck.class_id, BasicAck.method_id
    return PUBLISH


class Reader(LoopActor):
    """Owns one connection from its first byte to its last."""

    def __init__(
        self, context: NodeContext, transport: ReadableTransport, peer: Peer, parent: Ref
    ) -> None:
        super().__init__()
        self._context = context
        self._transport = transport
        self._parent = parent
        self._phase = ConnectionPhase()
        self._decoder = context.new_decoder()
        self._now_ns = context.trace.now_ns
        self._opening = Opening(context, peer, self._phase, self.actor_ref)
        self._traffic = self._opening.traffic
        self._handshake = self._opening.handshake
        self._log = ConnectionLog(context, peer, self._handshake)
        self._channels = ConnectionChannels(context, self._opening, self._decoder, self.actor_ref)
        self._window = self._channels.window
        self._flow = ConnectionFlow(
            context,
            transport,
            self._window,
            self._phase,
            self._opening,
            self._log,
            self._opening.reading,
            self.actor_ref,
        )
        self._clock = ConnectionClock(context, self.actor_ref, self._traffic)
        self._end = ConnectionEnd(context, transport, self._clock, self.actor_ref)

    def on_start(self) -> None:
        """Start the writer; give the client so long for its handshake."""
        ticker = self._context.ticker
        self._writer = Writer.start_on(
            self.runtime, self._transport, self.actor_ref, ticker, self._traffic
        )
        self._clock.wake_in(self._context.handshake_timeout_seconds, "handshake")

    def on_receive(self, message: object) -> None:
        """Dispatch; bytes first, they are the hot path."""
        if isinstance(message, bytes):
            self._received(message)
        elif isinstance(message, FLOW_MESSAGES):
            self._handle(self._flow.update(message, self._writer))
        elif isinstance(message, Woken):
            self._woken(message.token)
        elif isinstance(message, ChannelClosed):
            self._channels.forget(message.channel_number)
            self._close_if_finished()
        elif isinstance(message, ChannelFailed):
            self._channel_failed(message.channel_number, message.error)
        elif isinstance(message, LoginAnswer):
            if self._phase.now is Phase.SECURING:
                self._logged_in(message.result)
        elif isinstance(message, WriteStalled):
            self._end.abort("client does not take what is written")
        elif isinstance(message, QueuesDeleted):
            if self._phase.now is Phase.CLIENT_CLOSING:
                self._client_closed()
        elif isinstance(message, Shutdown):
            self._shut_down(message.reason)
        elif isinstance(message, Abandon):
            self._end.abort()
        elif isinstance(message, Evict):
            if self._phase.is_before_open():
                self._log.warning("connection.refused", reason=f"gave way: {message.limit}")
                self._transport.abort()
        elif isinstance(message, Down):
            self._log.error("connection.failed", actor=message.what)  # There is no way to say so.
            self._transport.abort()
        elif isinstance(message, ConnectionLost):
            self._lost(message.reason)

    # --- Bytes in

    def _received(self, data: bytes) -> None:
        size, traffic = len(data), self._traffic
        traffic.received_bytes += size
        traffic.received_count += 1
        if size >= SHARE_BYTES_MIN:
            self._flow.received(size)
        phase = self._phase.now
        if phase is _ENDED:
            return
        if phase is _HEADER:
            self._read_header(data)
            return
        decoder = self._decoder
        self._channels.read_at_ns = self._now_ns()
        self._handle(decoder.feed(data))
        if decoder.error is not None and not self._phase.is_ending():
            self._fail(decoder.error)

    def _read_header(self, data: bytes) -> None:
        try:
            rest = self._opening.read_header(data)
        except ValueError as fault:
            self._log.warning("connection.refused", reason=str(fault))
            tell(self._writer, PROTOCOL_HEADER)
            self._end_transport()
            return
        if rest is not None:
            self._phase.start()
            self._opening.note_progress()
            self._write(0, self._handshake.start())
            if rest:
                self._received(rest)

    def _handle(self, events: Iterable[Event]) -> None:
        for event in events:
            try:
                if self._phase.now is _RUNNING and not (
                    self._context.alarms.reason or self._flow.held_back
                ):
                    if event.channel_number:
                        self._channels.hand_over(event, self._writer)
                        if self._window.is_closed:
                            self._flow.balance()
                    else:
                        self._event(event)
                elif self._phase.is_ending():
                    self._closing_event(event)
                elif not self._flow.holds_back(event, self._writer):
                    self._event(event)
            except AmqpError as error:
                self._fail(error)

    def _event(self, event: Event) -> None:
        if event.channel_number == 0:
            assert isinstance(event, MethodFrame)
            self._connection_method(event.method)
            return
        if self._phase.now is not Phase.RUNNING:
            text = f"unexpected frame in connection state {self._phase.now.value}"
            raise HardError(CHANNEL_ERROR, text)
        self._channels.hand_over(event, self._writer)
        if self._window.is_closed:
            self._flow.balance()

    def _connection_method(self, method: Method) -> None:
        if self._phase.is_handshake():
            handshake = self._handshake
            answer = handshake.receive(method)
            self._opening.note_progress()
            if self._phase.now is Phase.OPENING:
                self._decoder.set_frame_max(handshake.limits.frame_max_bytes)
                self._clock.start_heartbeats(handshake.limits.heartbeat_seconds, self._writer)
            if answer is not None:
                self._write(0, answer)
            self._flow.balance()
            if self._phase.now is Phase.RUNNING:
                self._log.info("connection.opened", user=handshake.user, vhost=handshake.vhost)
        elif isinstance(method, ConnectionClose):
            self._phase.close_for_client()
            self._flow.balance()
            self._channels.finish()
            self._close_if_finished()
        elif isinstance(method, ConnectionUpdateSecret):
            # Credentials here do not expire, so any new one will do, as for RabbitMQ's own users.
            self._log.info("connection.secret_updated", reason=method.reason)
            self._write(0, ConnectionUpdateSecretOk())
        else:
            text = f"unexpected method in connection state {self._phase.now.value}"
            raise HardError(CHANNEL_ERROR, text, method.class_id, method.method_id)

    def _logged_in(self, result: LoginResult) -> None:
        try:
            self._write(0, self._handshake.logged_in(result))
            self._opening.note_progress()
            self._flow.balance()
        except AmqpError as error:
            self._fail(error)
        self._handle(self._opening.held_back())

    # --- Endings

    def _closing_event(self, event: Event) -> None:
        if isinstance(event, MethodFrame) and event.channel_number == 0:
            if isinstance(event.method, ConnectionCloseOk) and self._phase.awaits_close_ok():
                self._end_transport()
            elif isinstance(event.method, ConnectionClose):
                self._write(0, ConnectionCloseOk())

    def _channel_failed(self, number: int, error: AmqpError) -> None:
        """A channel ended by a client's mistake: channel.close is said here, and only here."""
        if self._phase.now is not Phase.RUNNING:
            # The client has closed the connection already, and waits for its close-ok.
            self._channels.forget(number)
            self._close_if_finished()
            return
        if isinstance(error, HardError):
            self._channels.forget(number)
            self._fail(error)
        elif self._channels.close(number):
            self._log.warning("channel.closed", channel=number, error=str(error))
            self._write_close(number, ChannelClose, error)
            self._channels.answer_crossing(number, self._writer)

    def _fail(self, error: AmqpError) -> None:
        """Say connection.close for this error: the one place where it is said."""
        if self._phase.is_ending():
            return
        error = error.with_traceback(None)
        was_running = not self._phase.is_handshake()
        self._log.fault_of_client(error, was_running)
        self._phase.close()
        self._channels.release()
        if was_running:
            self._tell_broker()
        is_silent = self._handshake.hides(error)
        if not is_silent:
            self._write_close(0, ConnectionClose, error)
        # Behind a frame that has no end there is no close-ok to be found.
        no_answer = is_silent or self._decoder.lost_sync
        self._drain(self._context.silent_close_delay_seconds if no_answer else None)

    def _close_if_finished(self) -> None:
        """Have the client's exclusive queues deleted once no channel has anything to carry out."""
        if self._phase.now is Phase.CLIENT_CLOSING and not len(self._channels):
            self._tell_broker()

    def _client_closed(self) -> None:
        """Answer the client's connection.close, now that its exclusive queues are gone."""
        self._write(0, ConnectionCloseOk())
        if self._end.is_shut_down:
            self._end_transport()
        else:
            self._phase.drain()
            self._drain()

    def _drain(self, seconds_max: float | None = None) -> None:
        heartbeat_seconds = self._handshake.limits.heartbeat_seconds
        self._end.drain(self._writer, heartbeat_seconds, seconds_max)
        self._flow.balance()

    def _shut_down(self, reason: str) -> None:
        """The broker stops, or deletes the connection's user or vhost.

        It waits only for a client that has not heard of any close yet.
        """
        self._end.is_shut_down = True
        if self._phase.now is Phase.RUNNING:
            self._fail(HardError(CONNECTION_FORCED, reason))
        elif self._phase.is_before_open():
            self._end_transport()
        elif self._phase.now is not Phase.CLIENT_CLOSING:
            self._phase.end()
            self._end.close_now(self._writer)

    def _end_transport(self) -> None:
        self._phase.end()
        self._end.close(self._writer)

    def _tell_broker(self) -> None:
        tell(self._context.broker, ConnectionDown(self.actor_ref, self.actor_ref))

    def _lost(self, reason: str) -> None:
        if self._phase.now in (Phase.RUNNING, Phase.CLOSING, Phase.CLIENT_CLOSING):
            self._tell_broker()
        self._channels.release()
        self._channels.end()
        # One line, of the end that the broker has seen coming if there was one.
        phase = "handshake" if self._phase.is_handshake() else self._phase.now.value
        log = self._log.warning if self._end.reason else self._log.info
        log("connection.closed", reason=self._end.reason or reason, phase=phase)
        self._phase.end()
        self._end.is_over()
        self._writer.stop(block=False)
        self.stop()

    def on_stop(self) -> None:
        """The listener forgets it."""
        self._opening.release()
        tell(self._parent, Down(self.actor_ref, "stopped"))

    def on_failure(self, *_exception: object) -> None:
        """An exception of ours: the client sees its socket close."""
        self._channels.release()
        self._channels.end()
        self._opening.release()
        self._tell_broker()
        self._end.is_over()
        self._writer.stop(block=False)
        self._transport.abort()
        tell(self._parent, Down(self.actor_ref, "failed"))

    # --- Time and flow

    def _woken(self, token: object) -> None:
        if token == "handshake" and self._phase.is_before_open():
            self._log.warning("connection.refused", reason="handshake timeout")
            self._end_transport()
        elif token in ("close", "abort"):
            self._end.abort()
        elif (
            token == "heartbeat"
            and self._phase.now not in (Phase.DRAINING, Phase.ENDED)
            and not self._clock.is_client_there(is_listening=not self._flow.gate.is_paused)
        ):
            self._end.abort("missed heartbeats from client")

    def _write(self, channel_number: int, method: Method) -> None:
        tell(self._writer, encode_method(channel_number, method))

    def _write_close(self, number: int, close: Any, error: AmqpError) -> None:
        ids = (error.class_id, error.method_id)
        self._write(number, close(error.reply_code, error.reply_text, *ids))
