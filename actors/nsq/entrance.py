"""Who an NSQ client is: by AUTH, or as the user of those on this machine who need none.

Runs inside the connection's actor. Once the user is known, the connection counts: for the limits of
connections, which are those of AMQP's, and in the lists.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ...amqp_frames.errors import AmqpError
from ...core.connection.peer import Peer, is_loopback
from ...core.connection.reading_time import ReadingTime
from ...core.nsq.identity import NsqIdentity
from ...core.nsq.session import reason_of
from ...core.publishing.vhost_users import VhostUser
from ...core.statistics.channel_counts import ChannelCounts
from ...core.statistics.traffic import Traffic
from ...core.users.login_attempts import NSQ
from ...nsq_frames.commands import AUTH
from ...nsq_frames.errors import NsqError
from ...nsq_frames.publishes import CHANNEL_NUMBER
from ..channel.firehose import FirehoseTap
from ..connection.admission import check_admission
from ..messages import LogIn, Ref
from ..node_context import NodeContext, OpenConnection
from ..runtime.runtime import tell
from ..tracing.trace import ChannelTracing
from .settings import NsqSettings


class Entered(NamedTuple):
    """The user's rights and counts, which both halves of the connection work with."""

    vhost_user: VhostUser
    counts: ChannelCounts
    tracing: ChannelTracing
    tap: FirehoseTap


class Entrance:
    """State of who the client of the actor `connection` is."""

    def __init__(
        self,
        context: NodeContext,
        settings: NsqSettings,
        identity: NsqIdentity,
        traffic: Traffic,
        reading: ReadingTime,
        connection: Ref,
    ) -> None:
        self._context = context
        self._settings = settings
        self._identity = identity
        self._traffic = traffic
        self._reading = reading
        self._connection = connection
        self._entered: Entered | None = None

    @property
    def vhost_user(self) -> VhostUser:
        """Once the client has entered."""
        assert self._entered is not None
        return self._entered.vhost_user

    def is_open_to(self, peer: Peer) -> bool:
        """May the client go without AUTH?"""
        # One within the process has logged in over HTTP.
        return peer.is_internal or (bool(self._settings.user) and is_loopback(peer.host))

    def log_in(self, peer: Peer, body: bytes) -> None:
        """Ask whether AUTH's user and password are right; LoginAnswer has the answer."""
        user, divider, password = body.decode("utf-8", "surrogateescape").partition(":")
        if not divider:
            raise NsqError("E_AUTH_FAILED", "AUTH failed")
        self._identity.user = user
        self._context.unopened.is_served(self._connection)
        tell(self._context.logins, LogIn(self._connection, peer.host, user, password, NSQ))

    def logged_in(self) -> dict[str, object]:
        """The user has entered by AUTH; the fields of the answer."""
        self._identity.mechanism = AUTH.decode()
        # A user has one permission in a vhost.
        return {"identity": self._identity.user, "identity_url": "", "permission_count": 1}

    def enter(self, peer: Peer, user: str = "") -> Entered:
        """The client is this user from now on, or the one who needs no AUTH.

        NsqError if limits or permissions keep the user out.
        """
        context, vhost, is_internal = self._context, self._settings.vhost, peer.is_internal
        user = user or peer.user or self._settings.user
        try:
            check_admission(context, user, vhost, is_internal=is_internal)
        except AmqpError as error:
            raise NsqError("E_UNAUTHORIZED", reason_of(error)) from None
        vhost_user = context.vhost_users.enter(user, context.vhosts[vhost])
        topology = vhost_user.access.topology
        identity = self._identity
        identity.user, identity.vhost = user, vhost
        counts = ChannelCounts(context.counts, topology, is_internal)
        tracing = ChannelTracing(context.trace, CHANNEL_NUMBER, identity)
        tap = FirehoseTap(context, self._connection, CHANNEL_NUMBER, user, topology)
        entered = self._entered = Entered(vhost_user, counts, tracing, tap)
        if not is_internal:
            context.open_connections[self._connection] = OpenConnection(
                peer,
                identity,
                vhost_user.access,
                {CHANNEL_NUMBER: self._connection},
                self._traffic,
                {CHANNEL_NUMBER: counts},
                self._reading,
            )
            context.counts.churned("connection_created")
            self._traffic.count_octets = partial(context.counts.count_octets, topology)
        context.unopened.discard(self._connection)
        return entered

    def leave(self) -> None:
        """The connection ends."""
        context = self._context
        context.unopened.discard(self._connection)
        if context.open_connections.pop(self._connection, None) is not None:
            context.counts.churned("connection_closed")
            self._traffic.count()
        entered, self._entered = self._entered, None
        if entered is not None:
            entered.counts.end()
            context.vhost_users.leave(entered.vhost_user)
