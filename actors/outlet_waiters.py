"""Tells those that were passed over while a connection's outlet was closed."""

from __future__ import annotations

from typing import cast

from ..core.definitions import QueueDefinition
from ..core.outlet import Outlet
from .messages import CreditChanged, Ref
from .runtime import tell


def tell_opened(outlet: Outlet) -> None:
    """If the outlet is open again: the queues look at their consumers, the channels at their get.

    A queue waits by its definition, a channel by its reference.
    """
    for waiting in outlet.opened():
        actor = waiting.handle if isinstance(waiting, QueueDefinition) else waiting
        tell(cast("Ref", actor), CreditChanged())
