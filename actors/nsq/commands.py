"""The commands of one NSQ client, carried out in their order, one at a time.

Runs inside the connection's actor. Some commands wait for an answer of another actor: a topic that
is made, a login, a subscription. `waiting` says for which, and the connection then holds back all
input behind it. A client's mistake is raised as NsqError. `publishing` and `consuming` are there
once it is known who the client is.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ...core.connection.outlet import Outlet
from ...core.connection.peer import Peer
from ...core.connection.publish_window import WindowShare
from ...core.nsq.answers import Answers
from ...core.nsq.identity import NsqIdentity
from ...core.nsq.incoming import Incoming
from ...core.nsq.session import (
    Features,
    Session,
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
from ...nsq_frames.compression import HAS_SNAPPY, DeflateDecompressor, SnappyDecompressor
from ...nsq_frames.errors import NsqError
from ...nsq_frames.publishes import PublishRun, run_before
from ...nsq_frames.responses import CLOSE_WAIT, OK, json_response
from ..connection.log import ConnectionLog
from ..connection.transport import ReadableTransport
from ..messages import (
    ConsumerAdded,
    LoginAnswer,
    NsqReport,
    Ref,
    Refused,
    TopicAnswer,
    TopicCommand,
)
from ..node_context import NodeContext
from ..runtime.runtime import tell
from .consuming import Consuming
from .entrance import Entrance
from .flow import NsqFlow
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


NOTHING: Final = Waiting.NOTHING


class Commands:
    """State of what the client of the actor `connection` may do, and has asked for."""

    def __init__(
        self,
        context: NodeContext,
        settings: NsqSettings,
        session: Session,
        identity: NsqIdentity,
        peer: Peer,
        incoming: Incoming,
        answers: Answers,
        transport: UpgradableTransport,
        flow: NsqFlow,
        heartbeats: Heartbeats,
        traffic: Traffic,
        log: ConnectionLog,
        writer: Ref,
        connection: Ref,
    ) -> None:
        self._context = context
        self._settings = settings
        self._session = session
        self._identity = identity
        self._peer = peer
        self._incoming = incoming
        self._answers = answers
        self._flow = flow
        self._heartbeats = heartbeats
        self._log = log
        self._writer = writer
        self._connection = connection
        self._outlet = Outlet(context.delivery_window_bytes_max, context.node_outlet)
        self._upgrades = Upgrades(context, transport, incoming, connection)
        self._entrance = Entrance(context, settings, identity, traffic, flow.reading, connection)
        self.publishing: Publishing | None = None
        self.consuming: Consuming | None = None
        self.waiting = NOTHING
        # Of the command at hand, if the broker is asked.
        self._command = b""
        self._topic = self._channel = ""

    # --- Publishes

    def known(self, command: bytes) -> Publishing:
        """The publishing half of a client that is known; NsqError if it must say who it is."""
        if self.publishing is None:
            if not self._entrance.is_open_to(self._peer):
                raise auth_first(command)
            self._enter()
        assert self.publishing is not None
        return self.publishing

    def is_stranger(self) -> bool:
        """Has the client still to say who it is?"""
        return self.publishing is None and not self._entrance.is_open_to(self._peer)

    def publish(self, publishing: Publishing, run: PublishRun) -> None:
        """PUB, MPUB or DPUB, a run of them."""
        topic = publishing.unready_topic(run.batch)
        if topic is not None:
            self._incoming.events.appendleft(run)
            self._ask_broker(run.command, TopicAction.ENSURE_TOPIC, topic)
            return
        run.batch.received_ns = self._context.trace.now_ns()
        if not publishing.publish(run):
            self.waiting = Waiting.ROUTING

    def publish_lone(self, data: bytes) -> bool:
        """Carry out a read that is nothing but publishes to one known queue; else false.

        The shorter way of nearly all lone publishes. If the read is a run of publishes that needs
        the other way, it is among the events from now on.
        """
        publishing = self.publishing
        if publishing is None or self.waiting is not NOTHING:
            return False
        run = self._incoming.lone_run(data)
        if run is None:
            return False
        run.batch.received_ns = self._context.trace.now_ns()
        if not publishing.publish_to_one(run):
            self._incoming.events.append(run)
        return True

    def is_routing(self) -> bool:
        """Is the routing of a run not finished?"""
        return self.publishing is not None and self.publishing.is_routing

    def route_more(self) -> bool:
        """RouteMore has come; True if the run is routed now. NsqError as of `publish`."""
        publishing = self.publishing
        if publishing is None or not publishing.is_routing:
            return False
        try:
            if not publishing.route_more():
                return False
        finally:
            if self.waiting is Waiting.ROUTING and not publishing.is_routing:
                self.waiting = NOTHING
        return True

    # --- Other commands

    def finish(self, finishes: Finishes) -> list[NsqError]:
        """A run of FIN; the errors of messages that are not in flight."""
        self._session.check_state(FIN)
        assert self.consuming is not None
        return self.consuming.finish(finishes)

    def carry_out(self, command: Command) -> None:
        """Any other command."""
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
            if count is not None and self.consuming is not None:
                self.consuming.set_ready_count(count)
        elif name == CLS:
            self._session.close()
            assert self.consuming is not None
            self.consuming.set_ready_count(0)
            self._answers.put(CLOSE_WAIT)
        elif name in (FIN, REQ, TOUCH):
            self._session.check_state(name)
            assert self.consuming is not None
            if name == FIN:
                self.consuming.finish_one(params)
            elif name == REQ:
                self.consuming.requeue(params)
            else:
                self.consuming.touch(params)
        else:
            raise unknown_command(name)

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
            self.waiting = Waiting.UPGRADE

    def _subscribe(self, params: list[bytes]) -> None:
        topic, channel = self._session.check_subscription(params)
        self.known(SUB)
        try:
            self._entrance.vhost_user.access.check(
                READ, "queue", channel_queue_name(topic, channel)
            )
        except AccessRefusedError:
            raise unauthorised(SUB, topic, channel) from None
        self._ask_broker(SUB, TopicAction.ENSURE_CHANNEL, topic, channel)

    # --- Who the client is

    def _enter(self, user: str = "") -> None:
        context = self._context
        vhost_user, counts, tracing, tap = self._entrance.enter(self._peer, user)
        self.publishing = Publishing(
            context,
            self._connection,
            vhost_user,
            WindowShare(self._flow.window),
            counts,
            tracing,
            tap,
            self._answers,
        )
        self.consuming = Consuming(
            context,
            self._connection,
            self._session,
            self._outlet.share(),
            self._flow.reading,
            counts,
            tracing,
            tap,
            self._writer,
            self._settings.random_bytes,
        )
        self._log.info("connection.opened", user=self._identity.user, vhost=self._settings.vhost)

    def _authenticate(self, body: bytes) -> None:
        self._session.check_auth()
        if self.publishing is not None:
            # It has published already, as the user of those who need no AUTH.
            raise NsqError("E_INVALID", "AUTH already set")
        self._entrance.log_in(self._peer, body)
        self.waiting = Waiting.LOGIN

    def _logged_in(self, result: LoginResult) -> None:
        user = self._identity.user
        if result is not LoginResult.ALLOWED:
            self._log.warning("connection.refused", reason=result.value, user=user)
            raise NsqError("E_AUTH_FAILED", "AUTH failed")
        self._enter(user)
        self._session.is_authorised = True
        self._answers.put(json_response(self._entrance.logged_in()))

    # --- TLS and compression

    def ask_to_flush(self) -> None:
        """All answers are written: if a stream is to begin, the writer says so with Flushed."""
        if self._upgrades.is_due:
            self._upgrades.flush(self._writer)

    def begin_upgrade(self) -> bool:
        """The answer to IDENTIFY is written, as the last octets of its kind; may input go on?"""
        return self._upgraded_all(self._upgrades.begin(self._writer, self._settings.tls()))

    def upgraded(self, transport: ReadableTransport) -> bool:
        """The handshake is over; may input go on?"""
        handshake = transport.get_extra_info("ssl_object")
        cipher = handshake.cipher() or ("",)
        version = handshake.version() or ""
        self._peer = self._peer._replace(tls_protocol=version, tls_cipher=cipher[0])
        return self._upgraded_all(self._upgrades.encrypted(self._writer, transport))

    def _upgraded_all(self, is_over: bool) -> bool:
        if is_over and self.waiting is Waiting.UPGRADE:
            self.waiting = NOTHING
        return is_over

    # --- Answers of other actors

    def _ask_broker(
        self, command: bytes, action: TopicAction, topic: str, channel: str = ""
    ) -> None:
        self.waiting = Waiting.CHANNEL if channel else Waiting.TOPIC
        self._command, self._topic, self._channel = command, topic, channel
        access = self._entrance.vhost_user.access
        question = TopicCommand(
            self._connection, self._connection, access, action, topic, channel, None
        )
        tell(self._context.broker, question)

    def answered(self, message: TopicAnswer | LoginAnswer | ConsumerAdded | Refused) -> None:
        """The answer has come that input has waited for; NsqError if it refuses the command."""
        waited, self.waiting = self.waiting, NOTHING
        if isinstance(message, TopicAnswer):
            self._topic_answered(message, waited)
        elif isinstance(message, LoginAnswer):
            self._logged_in(message.result)
        elif self.consuming is not None:
            if isinstance(message, Refused):
                raise self.consuming.refused(message.error)
            self.consuming.subscribed()
            self._answers.put(OK)

    def _topic_answered(self, answer: TopicAnswer, waited: Waiting) -> None:
        error = self._topic_error(answer)
        if waited is Waiting.CHANNEL:
            if error is not None:
                raise error
            assert self.consuming is not None
            if answer.queue is not None and self.consuming.subscribe(answer.queue):
                self.waiting = Waiting.SUBSCRIPTION
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

    # --- Reports, and the end

    def report(self) -> dict[str, object]:
        """Counts of both halves, once the client is known."""
        if self.publishing is None or self.consuming is None:
            return {}
        return self.publishing.counts() | self.consuming.counts()

    def nsq_report(self) -> NsqReport:
        """For /stats."""
        session, decompressor = self._session, self._incoming.decompressor
        queue = None if self.consuming is None else self.consuming.queue
        return NsqReport(
            session.client_names,
            "" if queue is None else queue.name,
            session.state,
            session.sample_rate,
            isinstance(decompressor, DeflateDecompressor),
            isinstance(decompressor, SnappyDecompressor),
        )

    def stop_deliveries(self) -> None:
        """The connection is going to end."""
        if self.consuming is not None:
            # Not released yet: the queue would forget which confirms it owes.
            self.consuming.set_ready_count(0)

    def release(self, reason: str) -> None:
        """The connection has ended."""
        self._upgrades.cancel()
        if self.consuming is not None:
            self.consuming.release(reason)
        if self.publishing is not None:
            self.publishing.release()
        self._outlet.end()
        self._entrance.leave()
