"""Who an NSQ client is, for lists of connections, the log and the trace."""

from __future__ import annotations

from ...amqp_frames.values.field_table import Table, table_of
from ..connection.handshake import Limits
from ..connection.peer import Peer

# What the API's lists say beside "AMQP 0-9-1".
PROTOCOL = "NSQ V2"


class NsqIdentity:
    """As much of a handshake as NSQ has (core/connection/handshake.py, `ClientIdentity`)."""

    __slots__ = (
        "client_properties",
        "connection_name",
        "limits",
        "mechanism",
        "peer_name",
        "protocol",
        "user",
        "vhost",
    )

    def __init__(self, peer: Peer) -> None:
        self.peer_name = peer.name
        self.protocol = PROTOCOL
        # How the user was found: "AUTH", or "" for the user of those who need none.
        self.mechanism = ""
        self.user = ""
        self.vhost = ""
        self.connection_name = ""
        self.client_properties: Table = {}
        self.limits = Limits(0, 1, 0)

    def identified(self, names: dict[str, str], heartbeat_ms: int) -> None:
        """IDENTIFY has named the client."""
        self.connection_name = names.get("client_id", "")
        known = {"product": names.get("user_agent", ""), "hostname": names.get("hostname", "")}
        if self.connection_name:
            known["connection_name"] = self.connection_name
        self.client_properties = table_of({key: value for key, value in known.items() if value})
        self.limits = Limits(0, 1, heartbeat_ms // 1000)
