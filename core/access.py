"""What one connection may do in the vhost that it opened.

A permission is three patterns (permission_patterns.py) over the names of exchanges and queues:
`configure` to declare and delete, `write` to put something in, `read` to take something out. As in
RabbitMQ a pattern is searched for in the name, not matched against all of it, and an empty one fits
the empty name only; the default exchange is called amq.default. What was found is kept until
accounts change.
"""

from __future__ import annotations

from typing import Final

from ..amqp_frames.constants import ACCESS_REFUSED
from ..amqp_frames.errors import SoftError
from .accounts import IMPERSONATOR, Accounts
from .definitions import resource
from .permission_patterns import fits
from .topology import Topology

CONFIGURE: Final = "configure"
WRITE: Final = "write"
READ: Final = "read"

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
        self._patterns: dict[str, str] = {}

    def check(self, wanted: str, kind: str, name: str) -> None:
        """403 unless the user may configure, write or read the "queue" or "exchange"."""
        if self._version != self._accounts.version or len(self._allowed) > ANSWERS_KEPT_MAX:
            self._forget()
        asked = wanted, kind, name
        if asked not in self._allowed:
            if kind == "exchange" and not name:
                name = DEFAULT_EXCHANGE_NAME
            pattern = self._patterns.get(wanted)
            if pattern is None or not fits(pattern, name):
                named = resource(kind, name, self.topology.vhost)
                text = f"{wanted} access to {named} refused for user '{self.user}'"
                raise AccessRefusedError(ACCESS_REFUSED, text)
            self._allowed.add(asked)

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
            self._patterns = dict(zip((CONFIGURE, WRITE, READ), permission[2:], strict=True))
