"""Writes a definitions file: what a broker has, in RabbitMQ's JSON.

The exchanges that every vhost has are left out, and so are exclusive queues, which are gone with
their connections, and the bindings to them. RabbitMQ cannot read a password hash made by scrypt:
such a user is written without one, and its name is in `users_without_password_hash`. An import
leaves the password of a user that is there, and a user that is not can log in only after somebody
has set a password.

A file for RabbitMQ has nothing that RabbitMQ refuses or would not understand: no names that begin
with `amq.leveret.`, no arguments and policy keys of Leveret's own, no such list, and not
Leveret's version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..definitions import (
    CLASSIC,
    OWN_QUEUE_ARGUMENTS,
    TO_EXCHANGE,
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
    queue_type_of,
)
from ..exchanges.table import PREDECLARED
from ..json_tables import plain_table
from ..parameters.parameters import NODE_WIDE, OPERATOR_POLICY, POLICY, Parameter
from ..policies.policy import OWN_KEYS
from ..topology.topology import Topology, Vhosts
from ..users.accounts import Accounts, User, VhostMetadata
from ..users.password_hash import rabbitmq_hash
from .document import SECTIONS

OWN_PREFIX: Final = "amq.leveret."
OWN_VERSION: Final = "leveret_version"
WITHOUT_HASH: Final = "users_without_password_hash"
_PREDECLARED: Final = frozenset(name for name, _ in PREDECLARED)

Row = dict[str, Any]


class DefinitionsWriter:
    """The parts of a file: `sections` are their names, `rows` the items of one, `head` the rest."""

    def __init__(
        self,
        accounts: Accounts,
        vhosts: Vhosts,
        *,
        vhost: str | None = None,
        for_rabbitmq: bool = False,
    ) -> None:
        """With `vhost`, which is there, a file of that vhost alone."""
        self._accounts = accounts
        self._vhost = vhost
        self._for_rabbitmq = for_rabbitmq
        self._topologies = tuple(vhosts) if vhost is None else (vhosts[vhost],)
        self.sections = SECTIONS if vhost is None else _OF_ONE_VHOST

    def head(self, server_version: str, product: str, version: str) -> Row:
        """What stands before the sections.

        Product and its version are those that clients are told, as in the API's overview.
        """
        found: Row = {"rabbit_version": server_version}
        if self._vhost is None:
            found["rabbitmq_version"] = server_version
            found["product_name"], found["product_version"] = product, server_version
            if not self._for_rabbitmq:
                found[OWN_VERSION] = version
                found[WITHOUT_HASH] = self.users_without_hash()
        return found

    def users_without_hash(self) -> list[str]:
        """The names of those whose passwords RabbitMQ cannot check."""
        users = self._accounts.users.values()
        return [user.name for user in users if rabbitmq_hash(user.password_hash) is None]

    def rows(self, section: str) -> Iterator[Row]:
        """The items of a section; queues, exchanges and bindings that come or go may be missed."""
        accounts = self._accounts
        match section:
            case "users":
                return map(user_row, tuple(accounts.users.values()))
            case "vhosts":
                return (_vhost_row(*each) for each in tuple(accounts.vhosts.items()))
            case "permissions":
                return (each._asdict() for each in tuple(accounts.permissions.values()))
            case "topic_permissions":
                of_users = tuple(accounts.topic_permissions.values())
                return (each._asdict() for topics in of_users for each in topics.values())
            case "global_parameters":
                of_node = accounts.parameters.of(NODE_WIDE)
                return ({"name": each.name, "value": each.value} for each in of_node)
            case "parameters":
                return self._parameters()
            case "policies":
                return self._policies()
            case "exchanges":
                return self._exchanges()
            case "queues":
                return self._queues()
        assert section == "bindings", section
        return self._bindings()

    # --- Parameters

    def _parameters(self) -> Iterator[Row]:
        for each in tuple(self._accounts.parameters):
            if each.component in (NODE_WIDE, POLICY) or self._vhost not in (None, each.vhost):
                continue
            value = each.value
            if each.component == OPERATOR_POLICY:
                value = self._policy(each)
                if value is None:
                    continue
            yield each._asdict() | {"value": value}

    def _policies(self) -> Iterator[Row]:
        for each in self._accounts.parameters.of(POLICY, self._vhost):
            value = self._policy(each)
            if value is not None:
                yield {"vhost": each.vhost, "name": each.name, **value}

    def _policy(self, parameter: Parameter) -> Row | None:
        """The policy; None if RabbitMQ would find nothing in it."""
        value: Any = parameter.value
        if not self._for_rabbitmq:
            return dict(value)
        definition: Mapping[str, Any] = value["definition"]
        kept = {key: each for key, each in definition.items() if key not in OWN_KEYS}
        return {**value, "definition": kept} if kept else None

    # --- Topology

    def _exchanges(self) -> Iterator[Row]:
        for topology in self._topologies:
            for exchange in tuple(topology.table.exchanges()):
                if self._has_exchange(exchange.definition):
                    yield self._placed(topology, _exchange_row(exchange.definition))

    def _has_exchange(self, exchange: ExchangeDefinition) -> bool:
        return exchange.name not in _PREDECLARED and self._may_name(exchange.name)

    def _queues(self) -> Iterator[Row]:
        for topology in self._topologies:
            for queue in tuple(topology.table.queues()):
                if self._has_queue(queue):
                    yield self._placed(topology, self._queue_row(queue))

    def _has_queue(self, queue: QueueDefinition) -> bool:
        return not queue.exclusive and self._may_name(queue.name)

    def _may_name(self, name: str) -> bool:
        return not (self._for_rabbitmq and name.startswith(OWN_PREFIX))

    def _queue_row(self, queue: QueueDefinition) -> Row:
        arguments = queue.arguments
        queue_type = queue_type_of(arguments)
        if self._for_rabbitmq:
            own = OWN_QUEUE_ARGUMENTS
            if queue_type == CLASSIC:
                # RabbitMQ has it for quorum queues only.
                own |= {"x-delivery-limit"}
            arguments = {name: each for name, each in arguments.items() if name not in own}
        return {
            "name": queue.name,
            "durable": queue.durable,
            "auto_delete": queue.auto_delete,
            "type": queue_type,
            "arguments": plain_table(arguments),
        }

    def _bindings(self) -> Iterator[Row]:
        for topology in self._topologies:
            for exchange in tuple(topology.table.exchanges()):
                for binding in tuple(exchange.bindings.values()):
                    if self._has_binding(topology, binding):
                        yield self._placed(topology, _binding_row(binding))

    def _has_binding(self, topology: Topology, binding: BindingDefinition) -> bool:
        if binding.is_hidden:
            return False
        if not (self._may_name(binding.source) and self._may_name(binding.destination)):
            return False
        if binding.destination_kind == TO_EXCHANGE:
            return True
        queue = topology.table.find_queue(binding.destination)
        return queue is not None and not queue.exclusive

    def _placed(self, topology: Topology, row: Row) -> Row:
        """A file of one vhost does not name it."""
        return row if self._vhost is not None else row | {"vhost": topology.vhost}


# RabbitMQ's.
_OF_ONE_VHOST: Final = ("parameters", "policies", "queues", "exchanges", "bindings")


def user_row(user: User) -> Row:
    """A user; of hashes those that RabbitMQ can read, which a client may send back."""
    row: Row = {"name": user.name, "tags": list(user.tags), "limits": dict(user.limits)}
    found = rabbitmq_hash(user.password_hash)
    if found is not None:
        row["password_hash"], row["hashing_algorithm"] = found
    return row


def _vhost_row(name: str, metadata: VhostMetadata) -> Row:
    described: Row = {"description": metadata.description, "tags": list(metadata.tags)}
    if metadata.default_queue_type:
        described["default_queue_type"] = metadata.default_queue_type
    return {"name": name, **described, "metadata": described}


def _exchange_row(exchange: ExchangeDefinition) -> Row:
    return {
        "name": exchange.name,
        "type": exchange.type_name,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": plain_table(exchange.arguments),
    }


def _binding_row(binding: BindingDefinition) -> Row:
    return {
        "source": binding.source,
        "destination": binding.destination,
        "destination_type": binding.destination_kind,
        "routing_key": binding.routing_key,
        "arguments": plain_table(binding.arguments),
    }
