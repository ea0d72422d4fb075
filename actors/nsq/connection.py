"""One NSQ connection: reader and channel in one, because it has one subscription at most.

Duties: the commands in their order, and what they wait for; the answers, in that order
(core/nsq/answers.py); when to stop reading; the end. Its parts have state of their own: input that
is not handled yet (core/nsq/incoming.py), `entrance.py` who the client is, `publishing.py`,
`consuming.py`, `upgrades.py` TLS and compression, `heartbeats.py`. Parent: the listener. The writer
is AMQP's (actors/connection/writer.py).

What must wait for an answer of another actor (a topic that is made, a login, a subscription) holds
back all input behind it, and the socket is not read meanwhile. So does a publish while there is an
alarm. A client's mistake is told in one place, `_fail`: most end the connection, once all earlier
commands are answered. An exception of ours closes the socket.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, cast

from ...core.connection.outlet import Outlet
from ...core.connection.peer import Peer
from ...core.connection.publish_window import PublishWindow, WindowShare
from ...core.connection.reading_time import Pause, ReadingTime
from ...core.nsq.answers import Answers
from ...core.nsq.identity import NsqIdentity
from ...core.nsq.incoming import BadMagicError, Incoming
from ...core.nsq.session import (
    Features,
    Session,
    State,
    auth_first,
    reason_of,
    unauthorised,
    unknown_command,
)
from ...core.nsq.topics import TopicAction, TopicUnusableError, channel_queue_name
from ...core.statistics.traffic import Traffic
from ...core.topology.topology import READ
from ...core.users.access import AccessRefusedError
from ...core.users.login_results import LoginResult
from ...nsq_frames.commands import (
    AUTH,
    CLS,
    FIN,
    IDENTIFY,
    NOP,
    RDY,
    REQ,
    SUB,
    TOUCH,
    Command,
    Fault,
    Finishes,
)
from ...nsq_frames.compression import (
    HAS_SNAPPY,
    DeflateDecompressor,
    SnappyDecompressor,
    StreamError,
)
from ...nsq_frames.errors import NsqError
from ...nsq_frames.publishes import PublishRun, run_before
from ...nsq_frames.responses import BAD_PROTOCOL, CLOSE_WAIT, OK, error_frame, json_response
from ..connection.flow import ReadingGate
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
    NsqReport,
    Ref,
    Refused,
    Reject,
    ReportChannel,
    RoundOver,
    RouteMore,
    Shutdown,
    TimedOut,
    TopicAnswer,
    TopicCommand,
    Upgraded,
    WakeAt,
    Woken,
    WriteBuffer,
)
from ..node_context import NodeContext
from ..runtime.read_rounds import SHARE_BYTES_MIN
from ..runtime.runtime import LoopActor, tell
from .consuming import Consuming
from .entrance import Entrance
from .heartbeats import TOKEN as HEARTBEAT_TOKEN
from .heartbeats import Heartbeats
from .publishing import Publishing, failed
from .settings import NsqSettings
from .upgrades import UpgradableTransport, Upgrades


class Waiting(Enum):
    """Why input waits; `NOTHING`: it is handled."""

    NOTHING = "nothing"
    TOPIC = "a topic to be made"
    CHANNEL = "a channel to be made"
    SUBSCRIPTION = "the channel's queue"
    LOGIN = "the login"
    ROUTING = "routing"
    UPGRADE = "TLS or compression to begin"


_NOTHING: Final = Waiting.NOTHING
# The most that a command may have before the client has said who it is.
STRANGER_BYTES_MAX: Final = 65_536


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
        self._waiting = _NOTHING
        # Of the command at hand, if it waits.
        self._command = b""
        self._topic = self._channel = ""
        self._window = PublishWindow(
            context.publish_window_bytes_max, context.node_window, self.actor_ref
        )
        self._outlet = Outlet(context.delivery_window_bytes_max, context.node_outlet)
        self._gate = ReadingGate(self._transport, self._window, context.read_rounds)
        self._reading = ReadingTime()
        self._traffic = Traffic()
        self._heartbeats = Heartbeats(context, self._traffic, self.actor_ref)
        self._answers = Answers(self._refusal)
        self._upgrades = Upgrades(context, self._transport, self._incoming, self.actor_ref)
        self._entrance = Entrance(
            context, settings, self._identity, self._traffic, self._reading, self.actor_ref
        )
        # Once it is known who the client is.
        self._publishing: Publishing | None = None
        self._consuming: Consuming | None = None
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
            if self._publishing is not None:
                self._publishing.answered(message)
        elif isinstance(message, Deliver):
            if self._consuming is not None:
                self._consuming.deliver(message)
        elif isinstance(message, (Absorbed, RoundOver, WriteBuffer, AlarmCleared)):
            self._update_flow(message)
        elif isinstance(message, TimedOut):
            if self._consuming is not None:
                self._consuming.time_out(message)
        elif isinstance(message, RouteMore):
            self._route_more()
        elif isinstance(message, Woken):
            self._woken(message.token)
        elif isinstance(message, (TopicAnswer, LoginAnswer, ConsumerAdded, Refused)):
            self._answered(message)
        elif isinstance(message, Flushed):
            self._begin_upgrade()
        elif isinstance(message, Upgraded):
            self._upgraded(message)
        elif isinstance(message, ReportChannel):
            report = ChannelReport(self.actor_ref, self._report(), self._nsq_report())
            tell(message.reply_to, report)
        else:
            self._ending(message)

    def on_idle(self) -> None:
        """Write the answers that are due; give absorbed bytes back to the window."""
        if self._is_ended:
            return
        publishing = self._publishing
        if publishing is None:
            frames, is_refused = self._answers.due(0, ())
        else:
            frames, is_refused = publishing.due()
            publishing.absorb()
        if frames:
            tell(self._writer, frames)
        if is_refused:
            self._stop_input()
        if self._upgrades.is_due and not len(self._answers):
            self._upgrades.flush(self._writer)
        if self._is_ending and not len(self._answers) and not self._is_routing():
            self._end("" if self._is_input_over else "its client broke the protocol")

    # --- Bytes in

    def _received(self, data: bytes) -> None:
        self._heartbeats.signs.signs += 1
        traffic = self._traffic
        traffic.received_bytes += len(data)
        traffic.received_count += 1
        if len(data) >= SHARE_BYTES_MIN and self._gate.received(len(data)):
            self._balance()
            self._context.read_rounds.rest(self.actor_ref)
        if self._is_ending:
            return
        try:
            self._incoming.feed(data)
        except BadMagicError:
            self._log.warning("connection.refused", reason="bad protocol magic")
            self._answers.put(BAD_PROTOCOL)
            self._stop_input()
            return
        self._handle_piece()

    def _handle_input(self) -> None:
        """Handle what input has waited for; more of it follows in the next round."""
        self._handle_events()
        if self._incoming.has_more and self._may_go_on() and not self._gate.is_resting:
            # The others have their turns in between.
            self._gate.is_resting = True
            rounds = self._context.read_rounds
            rounds.received(SHARE_BYTES_MIN)
            rounds.rest(self.actor_ref)
        if self._is_input_over and self._is_input_handled():
            self._end_input()
        self._balance()

    def _is_input_handled(self) -> bool:
        waits = self._incoming.events or self._waiting is not _NOTHING
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
        if self._is_stranger() and incoming.held_bytes > STRANGER_BYTES_MAX:
            text = f"AUTH required before {incoming.held_bytes} octets of a command"
            self._fail(NsqError("E_AUTH_FIRST", text))

    def _may_go_on(self) -> bool:
        waits = self._incoming.events or self._waiting is not _NOTHING
        return not (waits or self._is_ending or self._gate.reason())

    def _handle_events(self) -> None:
        events = self._incoming.events
        while events and self._waiting is _NOTHING and not self._is_ending:
            event = events.popleft()
            try:
                if isinstance(event, PublishRun):
                    self._publish(event)
                    if self._gate.is_alarmed:
                        break
                elif isinstance(event, Finishes):
                    self._finish(event)
                elif isinstance(event, Command):
                    self._carry_out(event)
                else:
                    self._fault(event)
            except NsqError as error:
                self._fail(error)

    # --- Commands

    def _publish(self, run: PublishRun) -> None:
        publishing = self._entered(run.command)
        if self._context.alarms.reason:
            # Nothing may come onto the full disk: it waits, and all input behind it.
            self._gate.is_alarmed = True
            self._incoming.events.appendleft(run)
            return
        topic = publishing.unready_topic(run.batch)
        if topic is not None:
            self._incoming.events.appendleft(run)
            self._ask_broker(run.command, TopicAction.ENSURE_TOPIC, topic)
            return
        run.batch.received_ns = self._context.trace.now_ns()
        if not publishing.publish(run):
            self._waiting = Waiting.ROUTING
        if self._window.node.is_closed:
            self._window.published()

    def _finish(self, finishes: Finishes) -> None:
        self._session.check_state(FIN)
        assert self._consuming is not None
        for error in self._consuming.finish(finishes):
            self._fail(error)

    def _carry_out(self, command: Command) -> None:
        params = command.params
        name = params[0]
        if name == NOP:
            return
        if name == IDENTIFY:
            self._identify(command.body)
        elif name == AUTH:
            self._authenticate(command.body)
        elif name == SUB:
            self._subscribe(params)
        elif name == RDY:
            count = self._session.ready_count(params)
            if count is not None and self._consuming is not None:
                self._consuming.set_ready_count(count)
        elif name == CLS:
            self._session.close()
            assert self._consuming is not None
            self._consuming.set_ready_count(0)
            self._answers.put(CLOSE_WAIT)
        elif name in (FIN, REQ, TOUCH):
            self._session.check_state(name)
            assert self._consuming is not None
            if name == FIN:
                self._consuming.finish_one(params)
            elif name == REQ:
                self._consuming.requeue(params)
            else:
                self._consuming.touch(params)
        else:
            raise unknown_command(name)

    def _fault(self, fault: Fault) -> None:
        if fault.error is None:
            self._log.warning("connection.error", error="a command line without an end")
            self._stop_input()
            return
        self._session.check_state(fault.command)
        raise fault.error

    def _identify(self, body: bytes) -> None:
        session = self._session
        needs_auth = not self._entrance.is_open_to(self._peer) and not session.is_authorised
        # IDENTIFY may come again, but nothing begins twice.
        may_compress = self._incoming.decompressor is None
        may_encrypt = may_compress and not self._peer.tls_protocol
        has_tls = may_encrypt and self._settings.tls() is not None
        features = Features(has_tls, may_compress, may_compress and HAS_SNAPPY)
        negotiated = session.identify(body, features, auth_required=needs_auth)
        self._identity.identified(session.client_names, session.heartbeat_ms)
        self._heartbeats.start(session.heartbeat_ms)
        fields = negotiated.fields
        self._answers.put(OK if fields is None else json_response(fields))
        if self._upgrades.agree(negotiated):
            self._waiting = Waiting.UPGRADE

    def _begin_upgrade(self) -> None:
        """The answer to IDENTIFY is written, as the last octets of its kind."""
        if not self._is_ending and self._upgrades.begin(self._writer, self._settings.tls()):
            self._go_on()

    def _upgraded(self, message: Upgraded) -> None:
        if message.transport is None:
            self._abort("TLS handshake failed")
            # A socket that is reset in a handshake has no other end.
            self._lost("TLS handshake failed")
            return
        transport = cast("ReadableTransport", message.transport)
        handshake = transport.get_extra_info("ssl_object")
        cipher = handshake.cipher() or ("",)
        version = handshake.version() or ""
        self._peer = self._peer._replace(tls_protocol=version, tls_cipher=cipher[0])
        if self._upgrades.encrypted(self._writer, transport):
            self._go_on()

    def _go_on(self) -> None:
        if self._waiting is Waiting.UPGRADE:
            self._waiting = _NOTHING
        self._handle_input()

    def _subscribe(self, params: list[bytes]) -> None:
        topic, channel = self._session.check_subscription(params)
        self._entered(SUB)
        try:
            self._entrance.vhost_user.access.check(
                READ, "queue", channel_queue_name(topic, channel)
            )
        except AccessRefusedError:
            raise unauthorised(SUB, topic, channel) from None
        self._ask_broker(SUB, TopicAction.ENSURE_CHANNEL, topic, channel)

    # --- Who the client is

    def _is_stranger(self) -> bool:
        return self._publishing is None and not self._entrance.is_open_to(self._peer)

    def _entered(self, command: bytes) -> Publishing:
        """The publishing half of a client that is known; NsqError if it must say who it is."""
        if self._publishing is None:
            if not self._entrance.is_open_to(self._peer):
                raise auth_first(command)
            self._enter()
        assert self._publishing is not None
        return self._publishing

    def _enter(self, user: str = "") -> None:
        context = self._context
        vhost_user, counts, tracing, tap = self._entrance.enter(self._peer, user)
        self._publishing = Publishing(
            context,
            self.actor_ref,
            vhost_user,
            WindowShare(self._window),
            counts,
            tracing,
            tap,
            self._answers,
        )
        self._consuming = Consuming(
            context,
            self.actor_ref,
            self._session,
            self._outlet.share(),
            self._reading,
            counts,
            tracing,
            tap,
            self._writer,
            self._settings.random_bytes,
            self._settings.arrivals,
        )
        self._log.info("connection.opened", user=self._identity.user, vhost=self._settings.vhost)

    def _authenticate(self, body: bytes) -> None:
        self._session.check_auth()
        if self._publishing is not None:
            # It has published already, as the user of those who need no AUTH.
            raise NsqError("E_INVALID", "AUTH already set")
        self._entrance.log_in(self._peer, body)
        self._waiting = Waiting.LOGIN

    def _logged_in(self, result: LoginResult) -> None:
        user = self._identity.user
        if result is not LoginResult.ALLOWED:
            self._log.warning("connection.refused", reason=result.value, user=user)
            raise NsqError("E_AUTH_FAILED", "AUTH failed")
        self._enter(user)
        self._session.is_authorised = True
        self._answers.put(json_response(self._entrance.logged_in()))

    # --- Answers of other actors

    def _ask_broker(
        self, command: bytes, action: TopicAction, topic: str, channel: str = ""
    ) -> None:
        self._waiting = Waiting.CHANNEL if channel else Waiting.TOPIC
        self._command, self._topic, self._channel = command, topic, channel
        access = self._entrance.vhost_user.access
        question = TopicCommand(
            self.actor_ref, self.actor_ref, access, action, topic, channel, None
        )
        tell(self._context.broker, question)

    def _answered(self, message: TopicAnswer | LoginAnswer | ConsumerAdded | Refused) -> None:
        """The answer has come that input has waited for."""
        if self._is_ending:
            return
        waited, self._waiting = self._waiting, _NOTHING
        try:
            if isinstance(message, TopicAnswer):
                self._topic_answered(message, waited)
            elif isinstance(message, LoginAnswer):
                self._logged_in(message.result)
            elif self._consuming is not None:
                if isinstance(message, Refused):
                    raise self._consuming.refused(message.error)
                self._consuming.subscribed()
                self._answers.put(OK)
        except NsqError as error:
            self._fail(error)
        self._handle_input()

    def _topic_answered(self, answer: TopicAnswer, waited: Waiting) -> None:
        error = self._topic_error(answer)
        if waited is Waiting.CHANNEL:
            if error is not None:
                raise error
            assert self._consuming is not None
            if answer.queue is not None and self._consuming.subscribe(answer.queue):
                self._waiting = Waiting.SUBSCRIPTION
            else:
                raise failed(SUB, "the channel is gone")
        elif error is not None:
            self._refuse_topic(error)

    def _topic_error(self, answer: TopicAnswer) -> NsqError | None:
        error = answer.error
        if error is None:
            return None
        if isinstance(error, AccessRefusedError):
            return unauthorised(self._command, self._topic, self._channel)
        if isinstance(error, TopicUnusableError):
            text = self._command + b" " + reason_of(error).encode()
            return NsqError("E_BAD_TOPIC", text)
        return failed(self._command, reason_of(error))

    def _refuse_topic(self, error: NsqError) -> None:
        """The topic cannot be made: as in nsqd, this is no matter of the commands before it."""
        events = self._incoming.events
        run = events.popleft()
        assert isinstance(run, PublishRun)
        events.appendleft(Fault(self._command, error))
        head = run_before(run, self._topic)
        if head is not None:
            events.appendleft(head)

    def _is_routing(self) -> bool:
        return self._publishing is not None and self._publishing.is_routing

    def _route_more(self) -> None:
        if self._publishing is None or not self._is_routing():
            return
        try:
            if not self._publishing.route_more():
                return
        except NsqError as error:
            self._fail(error)
        if self._waiting is Waiting.ROUTING:
            self._waiting = _NOTHING
        self._handle_input()

    def _refusal(self, command: bytes) -> bytes:
        reason = self._publishing.reason if self._publishing is not None else ""
        error = failed(command, reason)
        self._log.warning("connection.error", error=str(error), user=self._identity.user)
        return error_frame(error.text)

    # --- Flow

    def _update_flow(self, message: Absorbed | RoundOver | WriteBuffer | AlarmCleared) -> None:
        gate = self._gate
        if isinstance(message, RoundOver):
            gate.is_resting = False
            if self._incoming.has_more:
                self._handle_piece()
        elif isinstance(message, WriteBuffer):
            gate.is_write_blocked = message.is_full
            tell(self._writer, message)
        elif gate.is_alarmed and not self._context.alarms.reason:
            gate.is_alarmed = False
            self._handle_input()
        if self._incoming.has_more:
            self._handle_input()
        else:
            self._balance()

    def _balance(self) -> None:
        """Read on, or do not, as the conditions for reading demand by now."""
        gate = self._gate
        is_running = not self._is_ending
        waits = is_running and self._waiting is not _NOTHING
        gate.balance(is_running, waits)
        uptime_ms = int(self._context.runtime.scheduler.time() * 1000)
        reason = gate.reason() or (Pause.WINDOW if waits else None)
        if is_running and reason is not None:
            self._reading.pause(uptime_ms, reason)
        else:
            self._reading.resume(uptime_ms)

    def _woken(self, token: object) -> None:
        if token == HEARTBEAT_TOKEN:
            if self._is_ending:
                return
            gate = self._gate
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

    def _report(self) -> dict[str, object]:
        if self._publishing is None or self._consuming is None:
            return {}
        return self._publishing.counts() | self._consuming.counts()

    def _nsq_report(self) -> NsqReport:
        session, decompressor = self._session, self._incoming.decompressor
        queue = None if self._consuming is None else self._consuming.queue
        return NsqReport(
            session.client_names,
            "" if queue is None else queue.name,
            session.state,
            session.sample_rate,
            isinstance(decompressor, DeflateDecompressor),
            isinstance(decompressor, SnappyDecompressor),
        )

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
        if self._consuming is not None:
            # Not released yet: the queue would forget which confirms it owes.
            self._consuming.set_ready_count(0)
        self._balance()

    def _end(self, reason: str) -> None:
        """The last answer is written: close the socket behind it."""
        self._is_ended = True
        self._end_reason = self._end_reason or reason
        if self._consuming is not None:
            self._consuming.release("its connection ends")
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
            if self._publishing is None:
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
        self._upgrades.cancel()
        self._is_ending = self._is_ended = True
        self._incoming.close()
        if self._consuming is not None:
            self._consuming.release(reason)
        if self._publishing is not None:
            self._publishing.release()
        self._window.end()
        self._outlet.end()
        self._entrance.leave()

    def on_stop(self) -> None:
        """The listener forgets it."""
        tell(self._parent, Down(self.actor_ref, "stopped"))

    def on_failure(self, *_exception: object) -> None:
        """An exception of ours: the client sees its socket close."""
        self._release("it has failed")
        self._writer.stop(block=False)
        self._transport.abort()
        tell(self._parent, Down(self.actor_ref, "failed"))
