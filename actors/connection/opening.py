"""The opening of a connection: protocol header, handshake, login.

Runs inside the reader's actor. A login may take a while, because passwords are checked elsewhere
(`logins.py`): until the answer is there, the input that a client sends ahead of it is held back,
and its socket is not read.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ...amqp_frames.constants import NOT_ALLOWED, PROTOCOL_HEADER, RESOURCE_ERROR
from ...amqp_frames.decoder import Event, MethodFrame
from ...amqp_frames.errors import HardError
from ...core.connection.handshake import Handshake, refusal
from ...core.connection.peer import Peer
from ...core.connection.phase import ConnectionPhase, Phase
from ...core.connection.reading_time import ReadingTime
from ...core.parameters.limits import user_limits
from ...core.publishing.vhost_users import VhostUser
from ...core.statistics.channel_counts import ChannelCounts
from ...core.statistics.traffic import Traffic
from ...core.users.login_attempts import AMQP
from ..messages import LogIn, Ref
from ..node_context import NodeContext, OpenConnection
from ..runtime.runtime import tell
from .admission import check_admission

# What a client may send ahead of the answer to its login, in events: one read brings tens of
# thousands of small frames, each of which takes ten times its octets in memory.
HELD_BACK_MAX: Final = 1_000
# And in octets of methods: in memory a table may be a hundred times its own.
HELD_BACK_METHODS_BYTES_MAX: Final = 16_384


class Opening:
    """State of a connection that is being opened; `reader` is the actor it belongs to."""

    def __init__(
        self, context: NodeContext, peer: Peer, phase: ConnectionPhase, reader: Ref
    ) -> None:
        self._context = context
        self._peer = peer
        self._phase = phase
        self._reader = reader
        self._header = b""
        self._held_back: list[Event] = []
        self._held_back_bytes = 0
        # The connection's channels by number; None while a channel.close waits for its close-ok.
        self.channels: dict[int, Ref | None] = {}
        self.channel_counts: dict[int, ChannelCounts] = {}
        self.traffic = Traffic()
        # Not read for longer than a round of the event loop; `ConnectionFlow` tells it.
        self.reading = ReadingTime()
        self.is_internal = peer.is_internal
        # Once a vhost is open.
        self.vhost_user: VhostUser | None = None
        self.handshake = Handshake(
            context.limits, context.server_names, self._log_in, self._open, peer, phase
        )

    def note_progress(self) -> None:
        """The client has sent its next part of the handshake, and must send another."""
        if self._phase.now is not Phase.SECURING:
            self._context.unopened.note_progress(
                self._reader, self._context.runtime.scheduler.time()
            )

    def release(self) -> None:
        """The connection has ended."""
        self._context.unopened.discard(self._reader)
        # It refers to what it asks here.
        del self.handshake
        if self.vhost_user is not None:
            self._context.vhost_users.leave(self.vhost_user)
            if not self._peer.is_internal:
                self._context.counts.churned("connection_closed")
                self.traffic.count()

    def read_header(self, data: bytes) -> bytes | None:
        """Collect the protocol header; None until it is whole, then the bytes behind it.

        ValueError if the header does not ask for this protocol.
        """
        self._header += data
        if len(self._header) < len(PROTOCOL_HEADER):
            return None
        reason = refusal(self._header)
        if reason is not None:
            raise ValueError(reason)
        # The connection does not keep the read that it came in.
        header, self._header = self._header, b""
        return header[len(PROTOCOL_HEADER) :]

    def _log_in(self, user: str, password: str | None) -> None:
        self._context.unopened.is_served(self._reader)
        # A user of the API has logged in there.
        protocol = "" if self._peer.is_internal else AMQP
        login = LogIn(self._reader, self._peer.host, user, password, protocol)
        tell(self._context.logins, login)

    def _open(self, user: str, vhost: str) -> None:
        is_internal = self._peer.is_internal
        check_admission(self._context, user, vhost, is_internal=is_internal)
        vhost_user = self._context.vhost_users.enter(user, self._context.vhosts[vhost])
        if not is_internal:
            self._context.open_connections[self._reader] = OpenConnection(
                self._peer,
                self.handshake,
                vhost_user.access,
                self.channels,
                self.traffic,
                self.channel_counts,
                self.reading,
            )
            self._context.counts.churned("connection_created")
            self.traffic.count_octets = partial(
                self._context.counts.count_octets, vhost_user.access.topology
            )
        self.vhost_user = vhost_user
        self._context.unopened.discard(self._reader)

    def check_channel(self) -> None:
        """530 if the user has as many channels as he may, on all his connections together."""
        assert self.vhost_user is not None
        user = self.vhost_user.access.user
        known = self._context.accounts.users.get(user)
        if known is None or not known.limits:
            return
        limit = user_limits(known.limits).channels_max
        connections = self._context.open_connections.values()
        if limit is not None and limit <= sum(
            len(each.channels) for each in connections if each.access.user == user
        ):
            text = f"number of channels opened for user '{user}' has reached the maximum allowed "
            raise HardError(NOT_ALLOWED, f"{text}user limit of ({limit})")

    def holds_back(self, event: Event) -> bool:
        """Keep an event while the login is not decided; false if it can be handled now.

        HardError if the kept events are more than any client needs.
        """
        if self._phase.now is Phase.SECURING:
            if isinstance(event, MethodFrame):
                self._held_back_bytes += event.frame_bytes
            is_too_much = self._held_back_bytes > HELD_BACK_METHODS_BYTES_MAX
            if is_too_much or len(self._held_back) == HELD_BACK_MAX:
                self._held_back.clear()
                raise HardError(RESOURCE_ERROR, "too many frames ahead of the login's answer")
            self._held_back.append(event)
            return True
        return False

    def held_back(self) -> list[Event]:
        """The events that arrived before the login was decided, to be handled now."""
        events, self._held_back = self._held_back, []
        return events
