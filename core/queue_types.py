"""The types a queue can have, and which arguments and properties belong to which.

A quorum queue on one node is a durable queue: what RabbitMQ replicates to a majority before it
confirms is here synced before it is confirmed. Facts from the queue types' capabilities() in
RabbitMQ 3.10 and 4.3, of which the more lenient counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..amqp_frames.constants import PRECONDITION_FAILED
from ..amqp_frames.errors import SoftError
from ..amqp_frames.field_table import Table
from .definitions import QueueDefinition

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
