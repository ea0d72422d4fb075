"""The part of a queue with a delivery limit: how often a message may come back."""

from __future__ import annotations

from typing import ClassVar

from ...amqp_frames.values.field_table import Table
from ..definitions import delivery_limit
from .parts import DELIVERY_LIMIT, Judge


class DeliveryLimit(Judge):
    """A message that was delivered more often than `attempts_max` leaves when it comes back."""

    __slots__ = ("_attempts_max",)

    name: ClassVar[str] = "attempts"
    reason: ClassVar[str] = DELIVERY_LIMIT

    def __init__(self, attempts_max: int) -> None:
        self._attempts_max = attempts_max

    def refuses(self, attempts: int) -> bool:
        """Is the limit exceeded?"""
        return attempts > self._attempts_max


def attempts_part(arguments: Table) -> DeliveryLimit | None:
    """The part that `x-delivery-limit`, or the type of the queue, asks for."""
    limit = delivery_limit(arguments)
    return None if limit is None else DeliveryLimit(limit)
