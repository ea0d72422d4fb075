"""The state that all connections of one user to one vhost share: permissions and kept routes.

Made for the first of them and dropped with the last. What it keeps are answers to questions that
clients make up, names and routing keys, so each connection with its own could fill the memory.
"""

from __future__ import annotations

from functools import partial

from ..topology.topology import WRITE, Topology
from ..users.access import Access
from ..users.accounts import Accounts
from .routes import RouteMemory, Routes


class VhostUser:
    """A user in a vhost, while he is connected."""

    __slots__ = ("access", "connection_count", "routes")

    def __init__(self, accounts: Accounts, user: str, topology: Topology, memory: RouteMemory):
        self.access = Access(accounts, user, topology)
        may_write = partial(self.access.check, WRITE, "exchange")
        may_write_topic = partial(self.access.check_topic, WRITE)
        self.routes = Routes(topology.table, may_write, memory, may_write_topic)
        self.connection_count = 0


class VhostUsers:
    """Those of a node."""

    def __init__(self, accounts: Accounts, routes_kept_bytes_max: int) -> None:
        self._accounts = accounts
        self.route_memory = RouteMemory(routes_kept_bytes_max)
        self._connected: dict[tuple[str, Topology], VhostUser] = {}

    def enter(self, user: str, topology: Topology) -> VhostUser:
        """A connection opens the vhost; it must `leave` when it ends."""
        key = user, topology
        found = self._connected.get(key)
        if found is None:
            found = VhostUser(self._accounts, user, topology, self.route_memory)
            self._connected[key] = found
        found.connection_count += 1
        return found

    def leave(self, vhost_user: VhostUser) -> None:
        """One of its connections has ended."""
        vhost_user.connection_count -= 1
        if not vhost_user.connection_count:
            del self._connected[vhost_user.access.user, vhost_user.access.topology]
            vhost_user.routes.close()

    def connections_to(self, topology: Topology) -> int:
        """How many connections have this vhost open."""
        return sum(
            each.connection_count
            for (_, entered), each in self._connected.items()
            if entered is topology
        )

    def connections_of(self, user: str) -> int:
        """How many connections a user has, to all vhosts."""
        return sum(
            each.connection_count for (name, _), each in self._connected.items() if name == user
        )

    def __len__(self) -> int:
        return len(self._connected)
