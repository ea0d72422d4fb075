"""Tells queues and channels that wait for room, in a credit or an outlet, that there is some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ...core.connection.channel_credit import ChannelCredit
from ...core.connection.outlet import Outlet
from ...core.definitions import QueueDefinition
from ..messages import CreditOffered, OutletOpened, Ref
from .runtime import tell


def offer_credit(channel: Ref, credit: ChannelCredit, queues: Sequence[object]) -> None:
    """Tell these queues what they are offered; a queue that has ended leaves it to the others."""
    offered = list(queues)
    for queue in offered:
        actor = cast("QueueDefinition", queue).handle
        if not tell(cast("Ref", actor), CreditOffered(channel, credit)):
            offered += credit.forget(queue)


def tell_opened(outlet: Outlet) -> None:
    """If the outlet is open again: the queues look at their consumers, the channels at their get.

    A queue waits by its definition, a channel by its reference.
    """
    for waiting in outlet.opened():
        actor = waiting.handle if isinstance(waiting, QueueDefinition) else waiting
        tell(cast("Ref", actor), OutletOpened())
