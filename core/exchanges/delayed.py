"""Exchanges of type `x-delayed-message`, as RabbitMQ's plugin of this name has them.

Such an exchange routes as the type in its argument `x-delayed-type` does, and has its messages
deferred: for as many milliseconds as their header `x-delay` says. Here routing and deferral are two
things, unlike in the plugin, which stores a message and routes it when it is due. A message is
routed once, when it is published, and the queues defer it; so it is as safe as any other message,
and the publisher knows at once whether there is a queue for it.

A queue defers the messages that come to it through such an exchange, also on the way from exchange
to exchange or as an alternate. A queue that a message reaches both ways gets it once, at once.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ...amqp_frames.constants import PRECONDITION_FAILED
from ...amqp_frames.errors import SoftError
from ...amqp_frames.values.field_table import Table

DELAYED_TYPE: Final = "x-delayed-message"
DELAYED_ARGUMENT: Final = "x-delayed-type"


def routing_type(type_name: str, arguments: Table) -> str:
    """The type as which an exchange of this type routes; "" if its argument names none."""
    if type_name != DELAYED_TYPE:
        return type_name
    argument = arguments.get(DELAYED_ARGUMENT)
    is_name = argument is not None and isinstance(argument.value, str)
    return argument.value if is_name else ""  # type: ignore[union-attr,return-value]


def check_delayed_type(type_name: str, arguments: Table, known_types: Collection[str]) -> None:
    """406 for an exchange of type `x-delayed-message` that can route as no type; as the plugin."""
    if type_name != DELAYED_TYPE:
        return
    routes_as = routing_type(type_name, arguments)
    if not routes_as:
        text = f"Invalid argument, '{DELAYED_ARGUMENT}' must be an existing exchange type"
        raise SoftError(PRECONDITION_FAILED, text)
    if routes_as == DELAYED_TYPE:
        text = f"Invalid argument, '{DELAYED_TYPE}' can't be used for '{DELAYED_ARGUMENT}'"
        raise SoftError(PRECONDITION_FAILED, text)
    if routes_as not in known_types:
        raise SoftError(PRECONDITION_FAILED, f"unknown exchange type '{routes_as}'")
