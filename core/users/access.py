"""The permissions of one connection in the vhost that it opened.

A permission is three patterns over the names of exchanges and queues: `configure` to declare and
delete, `write` to put something in, `read` to take something out. As in RabbitMQ a pattern is
searched for in the name, not matched against all of it, and an empty one fits the empty name only;
the default exchange is called amq.default. Compiled patterns and results are kept until accounts
change.

core/topology/topology.py says which access a command needs, the channel (actors/channel/) that
queue.purge, basic.get and basic.consume read the queue, and core/publishing/routes.py that
basic.publish writes the exchange.
"""

from __future__ import annotations

from typing import Any, Final

from ...amqp_frames.constants import ACCESS_REFUSED
from ...amqp_frames.errors import SoftError
from ..definitions import resource
from ..patterns import compiled_pattern, literal_pattern
from ..topology.topology import CONFIGURE, READ, WRITE, Topology
from .accounts import IMPERSONATOR, Accounts

DEFAULT_EXCHANGE_NAME: Final = "amq.default"
# Answers kept; past this they are found anew.
ANSWERS_KEPT_MAX: Final = 1000


class AccessRefusedError(SoftError):
    """403: the user's permissions do not allow it."""


class Access:
    """A user in a vhost; made when the connection opens it."""

    def __init__(self, accounts: Accounts, user: str, topology: Topology) -> None:
        self.user = user
        self.topology = topology
        self._accounts = accounts
        self._version = -1
        # (what for, kind, name) -> may the user? Without those that may not: they are rare.
        self._allowed: set[tuple[str, str, str]] = set()
        # Compiled, by what for.
        self._patterns: dict[str, Any] = {}

    def check(self, wanted: str, kind: str, name: str) -> None:
        """403 unless the user may configure, write or read the "queue" or "exchange"."""
        if self._version != self._accounts.version or len(self._allowed) > ANSWERS_KEPT_MAX:
            self._forget()
        asked = wanted, kind, name
        if asked not in self._allowed:
            if kind == "exchange" and not name:
                name = DEFAULT_EXCHANGE_NAME
            pattern = self._patterns.get(wanted)
            if not fits(pattern, name):
                named = resource(kind, name, self.topology.vhost)
                text = f"{wanted} access to {named} refused for user '{self.user}'"
                raise AccessRefusedError(ACCESS_REFUSED, text)
            self._allowed.add(asked)

    def check_topic(self, wanted: str, exchange: str, routing_key: str) -> None:
        """403 unless the user may write or read this routing key of the exchange.

        As in RabbitMQ only topic exchanges have such permissions, and without one all keys are
        free. In a pattern {username} and {vhost} stand for these, literally. RabbitMQ's
        {client_id} is MQTT's.
        """
        topology = self.topology
        of_user = self._accounts.topic_permissions.get((self.user, topology.vhost))
        permission = of_user.get(exchange) if of_user is not None else None
        if permission is None:
            return
        found = topology.table.find_exchange(exchange)
        if found is None or found.definition.type_name != "topic":
            return
        pattern = permission.write if wanted == WRITE else permission.read
        for variable, value in (("{username}", self.user), ("{vhost}", topology.vhost)):
            pattern = pattern.replace(variable, literal_pattern(value))
        if not fits(compiled_pattern(pattern), routing_key):
            named = resource("exchange", exchange, topology.vhost)
            text = f"access to topic '{routing_key}' in {named} refused for user '{self.user}'"
            raise AccessRefusedError(ACCESS_REFUSED, text)

    def may_impersonate(self) -> bool:
        """May the user's messages name another user?"""
        user = self._accounts.users.get(self.user)
        return user is not None and IMPERSONATOR in user.tags

    def _forget(self) -> None:
        self._version = self._accounts.version
        self._allowed.clear()
        permission = self._accounts.permissions.get((self.user, self.topology.vhost))
        self._patterns = {}
        if permission is not None:
            compiled = map(compiled_pattern, permission[2:])
            self._patterns = dict(zip((CONFIGURE, WRITE, READ), compiled, strict=True))


def fits(pattern: Any, name: str) -> bool:
    """Is the compiled pattern found in the name? None is in no name."""
    octets = name.encode("utf-8", "surrogateescape")
    return pattern is not None and pattern.search(octets) is not None
