"""Exchanges, queues and bindings as data: their definitions, their arguments, and changes to them.

A definition is made once, by Topology, and then shared: the routing table hands out the
QueueDefinition itself, so a channel compares and hashes queues by identity, and a name declared
again is another definition with another queue_id. All of it is fixed but `QueueDefinition.handle`,
which the broker sets when the queue has an actor, `QueueDefinition.is_paused` and a hidden queue's
name, which the table sets, and the arguments in effect, which the table sets, too: they are those
of the declaration until a change replaces them.

A Change is one step of a plan (topology.py). The table applies all of a plan's changes; the
catalog is told the durable ones.

Which arguments a declaration or a consumer may have follows from three rules, in this order:
1. what RabbitMQ refuses is refused with its words: a bad value, or an argument of another queue
   type;
2. what RabbitMQ knows and Leveret has not built is refused as "not implemented", so that no
   client believes it has a limit or a time-out that it has not;
3. what RabbitMQ does not know, or knows and no longer heeds, is ignored, as RabbitMQ does.

Where RabbitMQ 3.10 and 4.3 differ, the more lenient rule counts. Facts from
rabbit_amqqueue:declare_args and the queue types' capabilities().

Each queue type has arguments and properties of its own. A quorum queue on one node is a durable
queue: where RabbitMQ replicates a message to a majority before it confirms, Leveret syncs it before
it confirms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Final, NamedTuple

from ..amqp_frames.constants import PRECONDITION_FAILED, SHORT_STRING_BYTES_MAX
from ..amqp_frames.errors import SoftError
from ..amqp_frames.values.field_table import (
    INTEGER_KINDS,
    Field,
    FieldValue,
    Table,
    encode_text,
)
from .erlang_terms import as_text

# The largest `x-dedup-window`, unless the settings say otherwise, and the most that the windows of
# all queues of a node may remember together.
DEDUP_WINDOW_MAX: Final = 10_000_000
DEDUP_IDENTITIES_MAX: Final = 20_000_000

# Publishes to this exchange are commands about deliveries; every vhost has it.
DELIVERY_EXCHANGE: Final = "amq.leveret.delivery"
# Copies of what traced vhosts publish and deliver: core/publishing/firehose.py.
FIREHOSE_EXCHANGE: Final = "amq.rabbitmq.trace"
# Queues whose names begin so are the broker's own: core/nsq/topics.py.
HIDDEN_PREFIX: Final = "amq.leveret.nsq."

_DOUBLE = Struct(">d")


class AppliedPolicies(NamedTuple):
    """The policies that apply to a queue or an exchange, for reports: names, and what they say.

    `definition` is what both together ask for, by RabbitMQ's keys, before the own arguments count.
    """

    policy: str | None = None
    operator_policy: str | None = None
    definition: Mapping[str, Any] = {}


NO_POLICIES: Final = AppliedPolicies()


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
    # Those that hold: its own and its policies' together.
    effective: Table = field(init=False, repr=False)
    policies: AppliedPolicies = field(init=False, repr=False, default=NO_POLICIES)
    # Of messages that it got and passed on, once there were any (core/statistics).
    counts: Any = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        self.effective = self.arguments

    def __str__(self) -> str:
        return resource("exchange", self.name, self.vhost)


# A queue of any type that has one of these counts deliveries in a header, as quorum queues do.
COUNTING: Final = frozenset({"x-delivery-limit", "x-in-flight-timeout", "x-requeue-delay"})


@dataclass(slots=True, eq=False)
class QueueDefinition:
    """A queue as it was declared.

    `durable` is what it comes to: an exclusive queue dies with its connection, so it is never
    durable, whatever its declaration said.
    `owner` is the connection that declared it exclusive, by any identity that can be hashed.
    `handle` is the broker's: how the queue is reached, by whatever core/ does not know. `rules` are
    the queue's own, for reports that read its counts on the event loop; None once it is deleted.
    """

    name: str
    queue_id: int
    durable: bool
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Table = field(default_factory=dict)
    owner: object | None = None
    vhost: str = "/"
    handle: Any = None
    rules: Any = field(default=None, repr=False)
    # Of its messages, once there were any (core/statistics).
    counts: Any = field(default=None, repr=False)
    # It delivers nothing until it is resumed.
    is_paused: bool = False
    # The arguments in effect; a declaration is compared with `arguments`.
    effective: Table = field(init=False, repr=False)
    policies: AppliedPolicies = field(init=False, repr=False, default=NO_POLICIES)
    is_quorum: bool = field(init=False, repr=False)
    # Is a redelivered message given the header x-delivery-count?
    counts_deliveries: bool = field(init=False, repr=False)
    # How long a consumer may take to ack; None: as long as it likes.
    consumer_timeout_ms: int | None = field(init=False, repr=False)
    # How long a delivery may be in flight without a time of its consumer; None: for ever.
    in_flight_timeout_ms: int | None = field(init=False, repr=False)
    # How many identities it remembers at most.
    dedup_window: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        queue_type = self.arguments.get("x-queue-type")
        self.is_quorum = queue_type is not None and queue_type.value == "quorum"
        self.put_in_effect(self.arguments)

    def put_in_effect(self, arguments: Table, policies: AppliedPolicies = NO_POLICIES) -> None:
        """Have these arguments, which were checked, be in effect; by these policies.

        The queue's actor learns them by SetArguments.
        """
        self.effective = arguments
        self.policies = policies
        self.consumer_timeout_ms = self._number("x-consumer-timeout")
        self.in_flight_timeout_ms = self._number("x-in-flight-timeout")
        self.dedup_window = self._number("x-dedup-window") or 0
        self.counts_deliveries = self.is_quorum or not COUNTING.isdisjoint(arguments)

    @property
    def is_hidden(self) -> bool:
        """Is it the broker's own? Nobody finds it by its name, and no listing shows it."""
        return self.name.startswith(HIDDEN_PREFIX)

    def _number(self, name: str) -> int | None:
        argument = self.effective.get(name)
        value = None if argument is None else argument.value
        return value if isinstance(value, int) else None

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

    @property
    def is_hidden(self) -> bool:
        """Does it lead to a hidden queue, so that no listing shows it?"""
        return self.destination_kind == TO_QUEUE and self.destination.startswith(HIDDEN_PREFIX)


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
    """The fields that two declarations of one binding have in common."""
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


class RenameQueue(NamedTuple):
    """A hidden queue has this name from now on; bindings change in changes around this one."""

    queue: QueueDefinition
    name: str


class PauseQueue(NamedTuple):
    """The queue is paused from now on, or no longer."""

    queue: QueueDefinition
    is_paused: bool


class ReplaceQueueArguments(NamedTuple):
    """The queue has these arguments in effect from now on; its declaration stays."""

    queue: QueueDefinition
    arguments: Table
    policies: AppliedPolicies = NO_POLICIES


class ReplaceExchangeArguments(NamedTuple):
    """The exchange has these arguments in effect from now on; its declaration stays."""

    exchange: ExchangeDefinition
    arguments: Table
    policies: AppliedPolicies = NO_POLICIES


class AddBinding(NamedTuple):
    """The binding is new; its source and its destination are there."""

    binding: BindingDefinition


class RemoveBinding(NamedTuple):
    """The binding goes."""

    binding: BindingDefinition


Change = (
    AddExchange
    | RemoveExchange
    | AddQueue
    | RemoveQueue
    | RenameQueue
    | PauseQueue
    | ReplaceQueueArguments
    | ReplaceExchangeArguments
    | AddBinding
    | RemoveBinding
)


# Leveret's own; RabbitMQ knows none of them and ignores them.
_OWN_QUEUE_ARGUMENTS: Final = (
    "x-dedup-window",
    "x-dedup-age-ms",
    "x-in-flight-timeout",
    "x-max-consumers",
    "x-requeue-delay",
    "x-requeue-delay-max",
)
# The arguments that queues can have, in the order in which a second declaration is compared with
# them. `_QUEUE_CHECKS` has the check of each one's value. Modes, locators, the size of a group and
# the share in memory have no effect in RabbitMQ 4 or on a single node, so they are accepted. The
# strategy of dead letters is always at-least-once.
QUEUE_ARGUMENTS: Final = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    "x-queue-type",
    "x-quorum-initial-group-size",
    "x-delivery-limit",
    "x-queue-master-locator",
    "x-queue-leader-locator",
    "x-consumer-timeout",
    *_OWN_QUEUE_ARGUMENTS,
)
OWN_QUEUE_ARGUMENTS: Final = frozenset(_OWN_QUEUE_ARGUMENTS)
# What quorum queues have in RabbitMQ 4.3 besides.
QUORUM_UNBUILT: Final = (
    "x-consumer-disconnected-timeout",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
)
CLASSIC: Final = "classic"
QUORUM: Final = "quorum"

_CLASSIC_ONLY: Final = frozenset(
    {"x-max-priority", "x-queue-mode", "x-queue-version", "x-queue-master-locator"}
)
_QUORUM_ONLY: Final = frozenset(
    {
        "x-dead-letter-strategy",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-quorum-initial-group-size",
        *QUORUM_UNBUILT,
    }
)
_STREAM_ONLY: Final = frozenset(
    {
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-stream-filter-size-bytes",
        "x-initial-cluster-size",
    }
)
# The arguments that a queue of each type cannot have.
OTHER_TYPES_ARGUMENTS: Final[Mapping[str, frozenset[str]]] = {
    CLASSIC: _QUORUM_ONLY | _STREAM_ONLY,
    QUORUM: _CLASSIC_ONLY | _STREAM_ONLY,
}
# How texts speak of them.
TYPE_NAMES: Final = {CLASSIC: "rabbit_classic_queue", QUORUM: "rabbit_quorum_queue"}


def queue_type_of(arguments: Table) -> str:
    """The type that arguments, which were checked, ask for."""
    argument = arguments.get("x-queue-type")
    return CLASSIC if argument is None else str(argument.value)


def check_server_named(arguments: Table) -> None:
    """406 if a queue with these arguments cannot have a name that the broker makes up."""
    argument = arguments.get("x-queue-type")
    if argument is not None and argument.value == QUORUM:
        text = f"Cannot declare a server-named queue for type {TYPE_NAMES[QUORUM]}"
        raise SoftError(PRECONDITION_FAILED, text)


def check_queue_properties(queue: QueueDefinition) -> None:
    """406 for a property that a queue of its type, with arguments that it can have, cannot have."""
    if queue_type_of(queue.arguments) == CLASSIC:
        return
    for name, is_wrong in (
        ("auto-delete", queue.auto_delete),
        ("exclusive-owner", queue.exclusive),
        ("non-durable", not queue.durable),
    ):
        if is_wrong:
            raise SoftError(PRECONDITION_FAILED, f"invalid property '{name}' for {queue}")


def delivery_limit(arguments: Table) -> int | None:
    """How often a message may come back before it leaves; None: for ever.

    A negative number means for ever in RabbitMQ 4.
    """
    argument = arguments.get("x-delivery-limit")
    if argument is None:
        return None
    assert isinstance(argument.value, int)
    return argument.value if argument.value >= 0 else None


EXCHANGE_ARGUMENTS: Final = ("alternate-exchange",)

_STREAM_CONSUMERS: Final = frozenset(
    {"x-consumer-timeout", "x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"}
)
# The arguments that a consumer of a queue of each type cannot have.
_OTHER_CONSUMERS: Final[Mapping[str, frozenset[str]]] = {
    CLASSIC: _STREAM_CONSUMERS,
    QUORUM: _STREAM_CONSUMERS | {"x-cancel-on-ha-failover"},
}
# Ten years.
EXPIRY_MS_MAX: Final = 315_360_000_000
_PRIORITY_MAX: Final = 255


def not_implemented(argument: str, named: str) -> SoftError:
    """The refusal of what RabbitMQ knows and Leveret has not built yet."""
    return _invalid(argument, named, "not implemented")


def check_queue_arguments(
    named: str, arguments: Table, dedup_window_max: int = DEDUP_WINDOW_MAX
) -> None:
    """Raise if a queue cannot be made with these. `named` is it as texts speak of it."""
    if not arguments:
        return
    dead_letter = arguments.get("x-dead-letter-exchange")
    _check_exchange_name("x-dead-letter-exchange", dead_letter, named)
    queue_type = arguments.get("x-queue-type")
    if queue_type is not None:
        _check_queue_type(queue_type, named)
    type_name = queue_type_of(arguments)
    others = OTHER_TYPES_ARGUMENTS[type_name]
    own = {name: value for name, value in arguments.items() if name not in others}
    _check_values(own, _QUEUE_CHECKS, named)
    window = arguments.get("x-dedup-window")
    if window is not None and _number(window) > dedup_window_max:
        raise _invalid("x-dedup-window", named, f"{{max_value_exceeded,{_number(window)}}}")
    _check_queue_types(arguments, others, named, TYPE_NAMES[type_name])
    for name in QUORUM_UNBUILT:
        if name in arguments:
            raise not_implemented(name, named)


def check_exchange_arguments(named: str, arguments: Table) -> None:
    """Raise if an exchange cannot be made with these."""
    for name in EXCHANGE_ARGUMENTS:
        _check_exchange_name(name, arguments.get(name), named)


def check_consumer_arguments(named: str, arguments: Table, quorum: bool = False) -> None:
    """Raise if a queue, named as texts speak of it, cannot be consumed from with these."""
    queue_type = QUORUM if quorum else CLASSIC
    others = _OTHER_CONSUMERS[queue_type]
    own = {name: value for name, value in arguments.items() if name not in others}
    _check_values(own, _CONSUMER_CHECKS, named)
    _check_queue_types(arguments, others, named, TYPE_NAMES[queue_type])


def consumer_priority(arguments: Table) -> int:
    """The `x-priority` of a consumer whose arguments were checked; 0 without it, as in RabbitMQ."""
    argument = arguments.get("x-priority")
    return 0 if argument is None else _number(argument)


def consumer_in_flight_timeout(arguments: Table) -> int | None:
    """The `x-in-flight-timeout` of a consumer whose arguments were checked, in ms, or None."""
    argument = arguments.get("x-in-flight-timeout")
    return None if argument is None else _number(argument)


def _check_exchange_name(name: str, argument: Field | None, named: str) -> None:
    if argument is not None and argument.kind != "longstr":
        raise SoftError(
            PRECONDITION_FAILED, f"invalid type '{argument.kind}' for arg '{name}' in {named}"
        )


def _check_queue_type(argument: Field, named: str) -> None:
    if argument.kind != "longstr":
        raise _invalid("x-queue-type", named, _unacceptable(argument))
    if argument.value == "stream":
        raise not_implemented("x-queue-type", named)
    if argument.value not in (CLASSIC, QUORUM):
        text = _text(argument)
        raise _invalid("x-queue-type", named, f"\"unsupported queue type '{text}'\"")


def _check_values(arguments: Table, checks: Mapping[str, _Check], named: str) -> None:
    for name, check in checks.items():
        argument = arguments.get(name)
        reason = None if argument is None else check(argument, arguments)
        if reason is not None:
            raise _invalid(name, named, reason)


def _check_queue_types(arguments: Table, others: frozenset[str], named: str, kind: str) -> None:
    for name in arguments:
        if name in others:
            text = f"invalid arg '{name}' for {named} of queue type {kind}"
            raise SoftError(PRECONDITION_FAILED, text)


def _invalid(name: str, named: str, reason: str) -> SoftError:
    return SoftError(PRECONDITION_FAILED, f"invalid arg '{name}' for {named}: {reason}")


# --- Values. Each returns the fault, as RabbitMQ prints it, or None. A check also sees the other
# arguments, for those that need each other.

_Check = Callable[[Field, Table], str | None]


def _integer(argument: Field, _arguments: Table) -> str | None:
    if argument.kind in INTEGER_KINDS:
        return None
    return f'"expected integer, got {argument.kind}"'


def _not_negative(argument: Field, arguments: Table) -> str | None:
    reason = _integer(argument, arguments)
    if reason is None and _number(argument) < 0:
        return f"{{value_negative,{_number(argument)}}}"
    return reason


def _message_ttl(argument: Field, arguments: Table) -> str | None:
    reason = _not_negative(argument, arguments)
    if reason is None and _number(argument) > EXPIRY_MS_MAX:
        return f"{{value_too_large,{_number(argument)}}}"
    return reason


def _expires(argument: Field, arguments: Table) -> str | None:
    reason = _message_ttl(argument, arguments)
    return "{value_zero,0}" if reason is None and argument.value == 0 else reason


def _positive(argument: Field, arguments: Table) -> str | None:
    reason = _not_negative(argument, arguments)
    return "{value_zero,0}" if reason is None and argument.value == 0 else reason


def _dedup_age(argument: Field, arguments: Table) -> str | None:
    reason = _expires(argument, arguments)
    is_alone = reason is None and "x-dedup-window" not in arguments
    return "dedup_age_but_no_window_defined" if is_alone else reason


def _requeue_delay_max(argument: Field, arguments: Table) -> str | None:
    reason = _expires(argument, arguments)
    if reason is not None:
        return reason
    delay = arguments.get("x-requeue-delay")
    if delay is None:
        return "requeue_delay_max_but_no_requeue_delay_defined"
    # The delay itself is checked first.
    is_less = _number(argument) < _number(delay)
    return f"{{requeue_delay_max_below_requeue_delay,{_number(argument)}}}" if is_less else None


def _priority(argument: Field, arguments: Table) -> str | None:
    reason = _not_negative(argument, arguments)
    if reason is None and _number(argument) > _PRIORITY_MAX:
        return f"{{max_value_exceeded,{_number(argument)}}}"
    return reason


def _dead_letter_routing_key(argument: Field, arguments: Table) -> str | None:
    if argument.kind != "longstr":
        return _unacceptable(argument)
    # RabbitMQ takes any length, and closes the connection that gets such a dead letter, 541.
    if len(encode_text(_text(argument))) > SHORT_STRING_BYTES_MAX:
        return f"{{max_length_exceeded,{SHORT_STRING_BYTES_MAX}}}"
    return None if "x-dead-letter-exchange" in arguments else "routing_key_but_no_dlx_defined"


def _one_of(reason: str, *values: str) -> _Check:
    def check(argument: Field, _arguments: Table) -> str | None:
        if argument.kind != "longstr":
            return _unacceptable(argument)
        return None if argument.value in values else reason

    return check


def _queue_mode(argument: Field, _arguments: Table) -> str | None:
    if argument.kind != "longstr":
        return _unacceptable(argument)
    known = argument.value in ("default", "lazy")
    return None if known else f"\"unsupported queue mode '{_text(argument)}'\""


def _queue_version(argument: Field, arguments: Table) -> str | None:
    reason = _not_negative(argument, arguments)
    if reason is None and argument.value not in (1, 2):
        return f"\"unsupported queue version '{_number(argument)}'\""
    return reason


def _boolean(argument: Field, _arguments: Table) -> str | None:
    return None if argument.kind == "bool" else _unacceptable(argument)


def _unacceptable(argument: Field) -> str:
    return f"{{unacceptable_type,{argument.kind}}}"


def _number(argument: Field) -> int:
    assert isinstance(argument.value, int)
    return argument.value


def _text(argument: Field) -> str:
    assert isinstance(argument.value, str | bytes)
    return as_text(argument.value)


# In RabbitMQ's order, so that of two mistakes the same one is told.
_QUEUE_CHECKS: Final[Mapping[str, _Check]] = {
    "x-expires": _expires,
    "x-message-ttl": _message_ttl,
    "x-dead-letter-routing-key": _dead_letter_routing_key,
    "x-dead-letter-strategy": _one_of("invalid_dlx_strategy", "at-most-once", "at-least-once"),
    "x-max-length": _not_negative,
    "x-max-length-bytes": _not_negative,
    "x-max-in-memory-length": _not_negative,
    "x-max-in-memory-bytes": _not_negative,
    "x-consumer-timeout": _not_negative,
    "x-max-priority": _priority,
    "x-overflow": _one_of("invalid_overflow", "drop-head", "reject-publish", "reject-publish-dlx"),
    "x-queue-mode": _queue_mode,
    "x-queue-version": _queue_version,
    "x-single-active-consumer": _boolean,
    "x-quorum-initial-group-size": _positive,
    # RabbitMQ takes anything here; a value that is no number would be no limit.
    "x-delivery-limit": _integer,
    "x-queue-leader-locator": _one_of(
        "invalid_queue_locator_arg",
        "client-local",
        "balanced",
        "random",
        "least-leaders",
        "min-masters",
    ),
    "x-dedup-window": _positive,
    "x-dedup-age-ms": _dedup_age,
    "x-in-flight-timeout": _expires,
    "x-max-consumers": _positive,
    "x-requeue-delay": _expires,
    "x-requeue-delay-max": _requeue_delay_max,
}
_CONSUMER_CHECKS: Final[Mapping[str, _Check]] = {
    "x-priority": _integer,
    "x-cancel-on-ha-failover": _boolean,
    "x-in-flight-timeout": _expires,
}
