"""Arguments of declarations and consumers: which are known, valid, and built.

Three rules, in this order:
1. what RabbitMQ refuses is refused with its words: a bad value, or an argument of another queue
   type;
2. what RabbitMQ knows and Leveret has not built is refused as "not implemented", so that no
   client believes it has a limit or a time-out that it has not;
3. what RabbitMQ does not know, or knows and no longer heeds, is ignored, as RabbitMQ does.

Where RabbitMQ 3.10 and 4.3 differ, the more lenient rule counts. Facts from
rabbit_amqqueue:declare_args and the queue types' capabilities().

The module also defines which arguments and properties belong to which queue type. A quorum queue on
one node is a durable queue: where RabbitMQ replicates a message to a majority before it confirms,
Leveret syncs it before it confirms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ...amqp_frames.constants import PRECONDITION_FAILED, SHORT_STRING_BYTES_MAX
from ...amqp_frames.errors import SoftError
from ...amqp_frames.values.field_table import Field, Table, encode_text
from ..definitions import DEDUP_WINDOW_MAX, QueueDefinition
from ..erlang_terms import as_text

# All that queues have, in the order in which a second declaration is compared with them.
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
    # Leveret's own; RabbitMQ knows neither and ignores them.
    "x-dedup-window",
    "x-dedup-age-ms",
)
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
        "x-delivery-limit",
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

# The modes, the locators, the size of a group and the share in memory change nothing in RabbitMQ 4
# or on a single node, so they are honoured. The strategy of dead letters is always at-least-once.
_BUILT: Final = frozenset(
    {
        "x-consumer-timeout",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-dead-letter-strategy",
        "x-dedup-age-ms",
        "x-dedup-window",
        "x-delivery-limit",
        "x-expires",
        "x-message-ttl",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-max-priority",
        "x-overflow",
        "x-queue-mode",
        "x-queue-version",
        "x-queue-type",
        "x-quorum-initial-group-size",
        "x-queue-master-locator",
        "x-queue-leader-locator",
        "x-single-active-consumer",
    }
)
_STREAM_CONSUMERS: Final = frozenset(
    {"x-consumer-timeout", "x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"}
)
# The arguments that a consumer of a queue of each type cannot have.
_OTHER_CONSUMERS: Final[Mapping[str, frozenset[str]]] = {
    CLASSIC: _STREAM_CONSUMERS,
    QUORUM: _STREAM_CONSUMERS | {"x-cancel-on-ha-failover"},
}

_INTEGER_KINDS: Final = frozenset(
    {"byte", "short", "signedint", "long", "unsignedbyte", "unsignedshort", "unsignedint"}
)
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
    for name in (*QUEUE_ARGUMENTS, *QUORUM_UNBUILT):
        if name in arguments and name not in _BUILT:
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
    if argument.kind in _INTEGER_KINDS:
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
}
_CONSUMER_CHECKS: Final[Mapping[str, _Check]] = {
    "x-priority": _integer,
    "x-cancel-on-ha-failover": _boolean,
}
