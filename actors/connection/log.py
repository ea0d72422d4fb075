"""Reports on one connection: a line in the service log, and an event while the trace is on.

One line when it opens and one when it ends, one for each error; the peer is in all of them. A
connection of the management API's own has lines for our faults only: the API logs its requests.
"""

from __future__ import annotations

from typing import Final

from ...amqp_frames.errors import AmqpError
from ...core.connection.handshake import ClientIdentity
from ...core.connection.peer import Peer
from ...core.users.login_results import RefusedError
from ...logs.secrets import masked
from ..node_context import NodeContext

# What the trace is told of, too; a channel tells of its own end.
_TRACED: Final = frozenset(
    [
        "connection.opened",
        "connection.refused",
        "connection.error",
        "connection.failed",
        "connection.closed",
    ]
)


class ConnectionLog:
    """Of one reader. `handshake` knows who it is as soon as that is known."""

    def __init__(self, context: NodeContext, peer: Peer, handshake: ClientIdentity) -> None:
        self._log = context.runtime.log.bind(peer=peer.name)
        self._is_quiet = peer.is_internal
        self._trace = context.trace
        self._peer_name = peer.name
        self._handshake = handshake

    def info(self, event: str, **fields: object) -> None:
        """Report a step that went as it should."""
        if not self._is_quiet:
            self._log.info(event, **fields)
        self.tell(event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        """The client's fault, or the network's."""
        if not self._is_quiet:
            self._log.warning(event, **fields)
        self.tell(event, **fields)

    def fault_of_client(self, error: AmqpError, was_running: bool) -> None:
        """The client's fault ends the connection; the log alone has the error's `reason`, too."""
        event = "connection.error" if was_running else "connection.refused"
        reason = {"reason": error.reason} if isinstance(error, RefusedError) else {}
        self.warning(event, error=str(error), user=self._handshake.user, **reason)

    def error(self, event: str, **fields: object) -> None:
        """Report an error of our own."""
        self._log.error(event, **fields)
        self.tell(event, **fields)

    def tell(self, event: str, **fields: object) -> None:
        """Tell the trace alone."""
        trace, user = self._trace, self._handshake.user
        if not trace.is_on or not trace.filter.wants(user=user, connection=self._peer_name):
            return
        if event in _TRACED:
            shown: dict[str, object] = {"user": user}
            if event == "connection.opened":
                shown["vhost"] = self._handshake.vhost
                shown["client"] = self._handshake.connection_name
            else:
                why = fields.get("reason") or fields.get("error") or fields.get("actor")
                shown["reason"] = masked(str(why))
            trace.write(event, "reader", connection=self._peer_name, **shown)
        elif event in _FLOW:
            trace.write(event, "reader", connection=self._peer_name, user=user, **fields)


_FLOW: Final = frozenset(
    ["flow.paused", "flow.resumed", "connection.blocked", "connection.unblocked"]
)
