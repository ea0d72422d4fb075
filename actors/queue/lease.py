"""The lease of a queue with `x-expires`: unused for that long, the queue is deleted.

As in RabbitMQ a queue is in use while it has a consumer. A declaration that finds it and a
basic.get renew the lease, and so does the last consumer when it leaves, and a start of the broker.
Publishing and purging do not count as use.
"""

from __future__ import annotations

from typing import Final

from ...amqp_frames.values.field_table import Table
from ...core.definitions import QueueDefinition
from ..messages import QueueUnused, Ref, WakeAt
from ..node_context import NodeContext
from ..runtime.runtime import tell

# What the queue is woken with.
LEASE_ENDS: Final = "lease ends"


class QueueLease:
    """One queue's lease; one that never ends if its arguments set no time."""

    def __init__(self, context: NodeContext, definition: QueueDefinition, actor: Ref) -> None:
        self._seconds = _lease_seconds(definition.effective)
        self._context = context
        self._definition = definition
        self._actor = actor
        # On the scheduler's clock.
        self._ends_at = 0.0
        # There is one wish at a time, unless the lease has got shorter; when it is granted, the
        # lease is looked at again.
        self._is_awaited = False
        self._awaited_at = 0.0

    def change(self, arguments: Table) -> None:
        """Last as long as these arguments say, from now on, if that is another time."""
        seconds = _lease_seconds(arguments)
        if seconds != self._seconds:
            self._seconds = seconds
            self.renew()

    def renew(self) -> None:
        """The queue is used, or no longer is, from now on."""
        if self._seconds is not None:
            self._ends_at = self._now() + self._seconds
            if not self._is_awaited or self._ends_at < self._awaited_at:
                self._wait()

    def check(self, consumer_count: int) -> None:
        """The time of the wish has come: is it the end?"""
        self._is_awaited = False
        if consumer_count:
            # The last of them renews it.
            return
        if self.is_over():
            tell(self._context.broker, QueueUnused(self._definition, has_expired=True))
        elif self._seconds is not None:
            self._wait()

    def is_over(self) -> bool:
        """Has the queue been unused for too long? Of one without consumers."""
        return self._seconds is not None and self._now() >= self._ends_at

    def _wait(self) -> None:
        self._is_awaited = True
        self._awaited_at = self._ends_at
        tell(self._context.ticker, WakeAt(self._ends_at, self._actor, LEASE_ENDS))

    def _now(self) -> float:
        return self._context.runtime.scheduler.time()


def _lease_seconds(arguments: Table) -> float | None:
    expires = arguments.get("x-expires")
    if expires is None:
        return None
    assert isinstance(expires.value, int)
    return expires.value / 1000
