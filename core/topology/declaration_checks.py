"""The checks of every name and of every second declaration, each with its reply."""

from __future__ import annotations

from typing import Final

from ...amqp_frames.constants import ACCESS_REFUSED, NOT_FOUND, RESOURCE_LOCKED
from ...amqp_frames.errors import SoftError
from ...amqp_frames.values.field_table import Table
from ..definitions import ExchangeDefinition, QueueDefinition
from .arguments import EXCHANGE_ARGUMENTS, QUEUE_ARGUMENTS
from .equivalence import check_arguments, check_property

RESERVED_PREFIX: Final = "amq."
_WITHOUT_LINE_BREAKS: Final = str.maketrans("", "", "\r\n")


def stripped(name: str) -> str:
    """The name without CR and LF."""
    return name.translate(_WITHOUT_LINE_BREAKS)


def check_name(kind: str, name: str) -> None:
    """403 for a name that only the broker can give; `kind` is "queue" or "exchange"."""
    if name.startswith(RESERVED_PREFIX):
        raise SoftError(ACCESS_REFUSED, f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def check_not_default(exchange_name: str) -> None:
    """403 for the default exchange, which cannot be touched."""
    if not exchange_name:
        raise SoftError(ACCESS_REFUSED, "operation not permitted on the default exchange")


def check_access(queue: QueueDefinition, owner: object) -> None:
    """405 for another connection's exclusive queue."""
    if queue.exclusive and queue.owner != owner:
        raise _locked(queue)


def _locked(queue: QueueDefinition) -> SoftError:
    return SoftError(
        RESOURCE_LOCKED,
        f"cannot obtain exclusive access to locked {queue}. It could be originally declared on "
        "another connection or the exclusive property value does not match that of the original "
        "declaration.",
    )


def gone(queue: QueueDefinition, has_crashed: bool) -> SoftError:
    """404 for a queue that was there when it was looked up: deleted meanwhile, or down."""
    if has_crashed:
        return SoftError(NOT_FOUND, f"{queue} has crashed and failed to restart")
    return SoftError(NOT_FOUND, f"no {queue}")


def check_same_exchange(existing: ExchangeDefinition, declared: ExchangeDefinition) -> None:
    """406 for the first property that a second declaration has otherwise."""
    named = str(existing)
    check_property(named, "type", existing.type_name, declared.type_name)
    check_property(named, "durable", existing.durable, declared.durable)
    check_property(named, "auto_delete", existing.auto_delete, declared.auto_delete)
    check_property(named, "internal", existing.internal, declared.internal)
    check_arguments(named, existing.arguments, declared.arguments, EXCHANGE_ARGUMENTS)


def check_same_queue(
    existing: QueueDefinition,
    durable: bool,
    auto_delete: bool,
    arguments: Table,
    owner: object | None,
) -> None:
    """The same for a queue; `owner` is that of the declaration, None if not exclusive."""
    # Exclusive or not is part of it: 405 and not 406 if that differs.
    if existing.owner != owner:
        raise _locked(existing)
    named = str(existing)
    check_property(named, "durable", existing.durable, durable)
    check_property(named, "auto_delete", existing.auto_delete, auto_delete)
    check_arguments(named, existing.arguments, arguments, QUEUE_ARGUMENTS)
