"""What a vhost is made of, as data: exchanges, queues, bindings, and the changes to them.

A definition is made once, by Topology, and then shared: the routing table hands out the
QueueDefinition itself, so a channel compares and hashes queues by identity, and a name declared
again is another definition with another queue_id. All of it is fixed but `QueueDefinition.handle`,
which the broker sets when the queue has an actor.

A Change is one step of a plan (topology.py). The table applies all of a plan's changes; the
catalog is told the durable ones. `is_durable` draws that line in one place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final, NamedTuple

from ..amqp_frames.values.field_table import Field, FieldValue, Table, decode_text

# The largest `x-dedup-window`, unless the settings say otherwise.
DEDUP_WINDOW_MAX: Final = 10_000_000

_DOUBLE = Struct(">d")


@dataclass(slots=True, eq=False)
class ExchangeDefinition:
    """An exchange as it was declared. `type_name` is its type as on the wire: "topic"."""

    name: str
    type_name: str
    durable: bool
    auto_delete: bool = False
    internal: bool = False
    arguments: Table = field(default_factory=dict)
    vhost: str = "/"

    def __str__(self) -> str:
        return resource("exchange", self.name, self.vhost)


@dataclass(slots=True, eq=False)
class QueueDefinition:
    """A queue as it was declared.

    `durable` is what it comes to: an exclusive queue dies with its connection, so it is never
    durable, whatever its declaration said.
    `owner` is the connection that declared it exclusive, by any identity that can be hashed.
    `handle` is the broker's: how the queue is reached.
    """

    name: str
    queue_id: int
    durable: bool
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Table = field(default_factory=dict)
    owner: object | None = None
    vhost: str = "/"
    handle: object | None = None
    is_quorum: bool = field(init=False, repr=False)
    # How long a consumer may take to ack; None: as long as it likes.
    consumer_timeout_ms: int | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        timeout = self.arguments.get("x-consumer-timeout")
        is_number = timeout is not None and isinstance(timeout.value, int)
        self.consumer_timeout_ms = timeout.value if is_number else None  # type: ignore[union-attr,assignment]
        queue_type = self.arguments.get("x-queue-type")
        self.is_quorum = queue_type is not None and queue_type.value == "quorum"

    def __str__(self) -> str:
        return resource("queue", self.name, self.vhost)


# What a binding leads to.
Destination = QueueDefinition | ExchangeDefinition
TO_QUEUE: Final = "queue"
TO_EXCHANGE: Final = "exchange"


@dataclass(slots=True, eq=False)
class BindingDefinition:
    """From `source`, an exchange, to a queue or an exchange. Durable if both ends are."""

    source: str
    destination: str
    routing_key: str
    durable: bool
    arguments: Table = field(default_factory=dict)
    vhost: str = "/"
    # What the destination is: a queue and an exchange may have the same name.
    destination_kind: str = TO_QUEUE
    identity: BindingIdentity = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.identity = binding_identity(
            self.source,
            self.destination,
            self.routing_key,
            self.arguments,
            self.destination_kind,
        )


# Bindings are the same if source, destination, key and arguments are: types and values, in any
# order.
BindingIdentity = tuple[str, str, str, str, object]


def binding_identity(
    source: str,
    destination: str,
    routing_key: str,
    arguments: Table,
    destination_kind: str = TO_QUEUE,
) -> BindingIdentity:
    """What two declarations of one binding have in common."""
    frozen = _frozen_table(arguments) if arguments else ()
    return source, destination_kind, destination, routing_key, frozen


def _frozen_table(table: Table) -> tuple[object, ...]:
    return tuple(sorted((name, value.kind, _frozen(value.value)) for name, value in table.items()))


def _frozen(value: FieldValue) -> object:
    if isinstance(value, dict):
        return _frozen_table(value)
    if isinstance(value, list):
        return tuple((item.kind, _frozen(item.value)) for item in value)
    if isinstance(value, float):
        # By its octets: NaN is the same as itself, 0.0 is not -0.0.
        return _DOUBLE.pack(value)
    return value


def resource(kind: str, name: str, vhost: str) -> str:
    """How error texts speak of an exchange or a queue: "queue 'q' in vhost '/'"."""
    return f"{kind} '{name}' in vhost '{vhost}'"


class AddExchange(NamedTuple):
    """The exchange is new."""

    exchange: ExchangeDefinition


class RemoveExchange(NamedTuple):
    """The exchange goes; its bindings went in changes before this one."""

    exchange: ExchangeDefinition


class AddQueue(NamedTuple):
    """The queue is new, reachable through the default exchange."""

    queue: QueueDefinition


class RemoveQueue(NamedTuple):
    """The queue goes; its bindings went in changes before this one."""

    queue: QueueDefinition


class AddBinding(NamedTuple):
    """The binding is new; its source and its destination are there."""

    binding: BindingDefinition


class RemoveBinding(NamedTuple):
    """The binding goes."""

    binding: BindingDefinition


Change = AddExchange | RemoveExchange | AddQueue | RemoveQueue | AddBinding | RemoveBinding


def is_durable(change: Change) -> bool:
    """Whether the change must outlive the process, and so goes to the catalog."""
    return change[0].durable


def name_of(field: Field | None) -> str | None:
    """A longstr as the names of queues and exchanges are kept: any octets in a str."""
    if field is None or field.kind != "longstr":
        return None
    value = field.value
    return decode_text(value) if isinstance(value, bytes) else str(value)
