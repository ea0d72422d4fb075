"""The lease of a queue with `x-expires`: unused for that long, it is deleted.

As in RabbitMQ a queue is in use while it has a consumer; a declaration that finds it and a
basic.get renew the lease, and so does the going of the last consumer and a start of the broker.
What is published or purged is no use of it.
"""

from __future__ import annotations

from typing import Final

from ..core.definitions import QueueDefinition
from .messages import QueueUnused, Ref, WakeAt
from .node_context import NodeContext
from .runtime import tell

# What the queue is woken with.
LEASE_ENDS: Final = "lease ends"


class QueueLease:
    """One queue's lease; one that never ends if its arguments set no time."""

    def __init__(self, context: NodeContext, definition: QueueDefinition, actor: Ref) -> None:
        expires = definition.arguments.get("x-expires")
        self._seconds: float | None = None
        if expires is not None:
            assert isinstance(expires.value, int)
            self._seconds = expires.value / 1000
        self._context = context
        self._definition = definition
        self._actor = actor
        # On the scheduler's clock.
        self._ends_at = 0.0
        # There is one wish at a time; when it is granted, it is seen what has happened since.
        self._is_awaited = False

    def renew(self) -> None:
        """The queue is used, or no longer is, from now on."""
        if self._seconds is not None:
            self._ends_at = self._now() + self._seconds
            if not self._is_awaited:
                self._wait()

    def woken(self, consumer_count: int) -> None:
        """The time of the wish has come: is it the end?"""
        self._is_awaited = False
        if consumer_count:
            # The last of them renews it.
            return
        if self.is_over():
            tell(self._context.broker, QueueUnused(self._definition, has_expired=True))
        else:
            self._wait()

    def is_over(self) -> bool:
        """Has the queue been unused for too long? Of one without consumers."""
        return self._seconds is not None and self._now() >= self._ends_at

    def _wait(self) -> None:
        self._is_awaited = True
        tell(self._context.ticker, WakeAt(self._ends_at, self._actor, LEASE_ENDS))

    def _now(self) -> float:
        return self._context.runtime.scheduler.time()
