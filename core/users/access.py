"""The permissions of one connection in the vhost that it opened.

A permission is three patterns over the names of exchanges and queues: `configure` to declare and
delete, `write` to put something in, `read` to take something out. As in RabbitMQ a pattern is
searched for in the name, not matched against all of it, and an empty one fits the empty name only;
the default exchange is called amq.default. Compiled patterns and results are kept until accounts
change.

RabbitMQ's channels ask for this access, method by method:

    exchange.declare, delete      configure the exchange; not if passive
    queue.declare, delete         configure the queue; not if passive
    exchange.bind, unbind         write the destination, read the source
    queue.bind, unbind            write the queue, read the exchange
    queue.purge, basic.get, basic.consume    read the queue (actors/channel/)
    basic.publish                 write the exchange (core/publishing/routes.py)

A new exchange with an alternate needs to read it and write the alternate; a new queue with a
dead-letter exchange, to read the queue and write that exchange. Where RabbitMQ reports a mistake in
a method before it checks the permission, the check leaves the method to Topology, which refuses it.
"""

from __future__ import annotations

from typing import Any, Final

from ...amqp_frames.constants import ACCESS_REFUSED
from ...amqp_frames.errors import SoftError
from ...amqp_frames.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)
from ...amqp_frames.values.field_table import text_of
from ..definitions import resource
from ..exchanges.table import BUILT_TYPES
from ..topology.topology import RESERVED_PREFIX, Plan, Topology, stripped
from .accounts import IMPERSONATOR, Accounts
from .permission_patterns import compiled_pattern

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


_ALTERNATE = "alternate-exchange"
_DEAD_LETTER = "x-dead-letter-exchange"


def check_permitted(access: Access, method: Method) -> None:
    """403 if the method needs access that the user has not; names of queues are filled in."""
    match method:
        case QueueDeclare():
            name = stripped(method.queue)
            # A name that the broker gives is looked at when it is given.
            if not method.passive and name and not name.startswith(RESERVED_PREFIX):
                access.check(CONFIGURE, "queue", name)
        case QueueDelete():
            access.check(CONFIGURE, "queue", stripped(method.queue))
        case ExchangeDeclare():
            name = stripped(method.exchange)
            if not method.passive and name and method.type in BUILT_TYPES:
                access.check(CONFIGURE, "exchange", name)
        case ExchangeDelete():
            name = stripped(method.exchange)
            if name and not name.startswith(RESERVED_PREFIX):
                access.check(CONFIGURE, "exchange", name)
        case QueueBind() | QueueUnbind():
            _check_binding(access, "queue", stripped(method.queue), stripped(method.exchange))
        case ExchangeBind() | ExchangeUnbind():
            destination, source = stripped(method.destination), stripped(method.source)
            _check_binding(access, "exchange", destination, source)


def _check_binding(access: Access, kind: str, destination: str, source: str) -> None:
    access.check(WRITE, kind, destination)
    if source and destination:
        access.check(READ, "exchange", source)


def check_planned(access: Access, method: Method, plan: Plan) -> None:
    """403 for what a declaration would make and the user may not; nothing has changed yet."""
    match method:
        case QueueDeclare() if plan.queue is not None:
            name = plan.queue.name
            # Such a name is the broker's own: it refuses those that clients give.
            if not method.passive and name.startswith(RESERVED_PREFIX):
                access.check(CONFIGURE, "queue", name)
            dead_letter = method.arguments.get(_DEAD_LETTER)
            if plan.changes and dead_letter is not None:
                access.check(READ, "queue", name)
                access.check(WRITE, "exchange", text_of(dead_letter) or "")
        case ExchangeDeclare() if plan.changes and plan.exchange is not None:
            alternate = method.arguments.get(_ALTERNATE)
            if alternate is not None:
                access.check(READ, "exchange", plan.exchange.name)
                access.check(WRITE, "exchange", text_of(alternate) or "")
