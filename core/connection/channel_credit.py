"""The global prefetch of one channel: how much its consumers, on every queue, may hold together.

`basic.qos` with the global flag sets the limit; 0 means that there is none. The queues that
deliver to the channel reserve credit here, and the channel releases it when its client acks,
rejects or requeues. Only the methods of this class change the counts, and all of them run on the
event loop's thread, so that a queue's question and its reservation are one step.

Freed credit goes round. A queue that has a message and finds no credit waits. Credit that becomes
free is divided evenly among the queues that wait, and offered to them. A rest that does not divide,
as a single free message, goes to the queues that had such a turn longest ago or never, and of those
to the ones that have waited longest. A queue with an offer waits no longer, and asks again when it
has used up its offer. An offer that a queue cannot use comes back (`return_unused`) and is offered
on.
So while a queue waits, no credit is free for a queue that comes later, and a busy queue does not
starve the channel's others.

RabbitMQ's limiter wakes the queues that it has refused in a random order and lets them compete; the
shares are the same in the long run.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from typing import Final

from .outlet import NodeOutlet, Outlet, OutletShare
from .reading_time import ReadingTime

UNLIMITED: Final = 1 << 62


class ChannelCredit:
    """One channel's credit; queues are named by what stands for them in their deliveries.

    `release`, `set_limit`, `return_unused` and `forget` return the queues that have just been
    offered credit. The caller must tell each of them, and each must answer with `return_unused`
    when it has delivered what it could. `outlet` is the channel's part of what its connection may
    be handed.
    """

    __slots__ = (
        "_in_use",
        "_offered",
        "_offered_count",
        "_turn",
        "_turns",
        "_waiting",
        "limit",
        "outlet",
        "reading",
    )

    def __init__(
        self, outlet: OutletShare | None = None, reading: ReadingTime | None = None
    ) -> None:
        self.outlet = Outlet(UNLIMITED, NodeOutlet(UNLIMITED)).share() if outlet is None else outlet
        # When its connection is not read.
        self.reading = ReadingTime() if reading is None else reading
        # How many messages the consumers may hold together; 0 for no limit. Others may read it.
        self.limit = 0
        self._in_use = 0
        # Queue -> how many messages it has been offered and has not reserved.
        self._offered: dict[object, int] = {}
        self._offered_count = 0
        # In the order of asking.
        self._waiting: dict[object, None] = {}
        # Which queues have had a turn when credit did not divide, and the number of the last.
        self._turn = 0
        self._turns: dict[object, int] = {}

    @property
    def in_use(self) -> int:
        """How many messages they hold. Deliveries by basic.get do not count."""
        return self._in_use

    def is_used_up(self) -> bool:
        """Does the client hold the limit? Then consumers without acks get nothing, either."""
        return 0 < self.limit <= self._in_use

    def room(self, queue: object) -> int:
        """How many messages this queue may deliver now: its offer, and what nobody waits for."""
        if not self.limit:
            return UNLIMITED
        free = self.limit - self._in_use - self._offered_count
        return self._offered.get(queue, 0) + (free if free > 0 else 0)

    def wait(self, queue: object) -> None:
        """Have the queue, which has a message and found no room, offered credit in its turn."""
        self._waiting[queue] = None

    def reserve(self, queue: object, count: int) -> None:
        """Count messages that the queue delivers; its own offer is used up first."""
        self._in_use += count
        if self._offered:
            offered = self._offered.get(queue, 0)
            if offered:
                self._change_offer(queue, max(offered - count, 0))

    def release(self, count: int) -> Sequence[object]:
        """Free the credit of messages that the client acked, rejected or requeued."""
        self._in_use -= count
        return self._offer_round() if self._waiting else ()

    def set_limit(self, limit: int) -> Sequence[object]:
        """Change the limit. The client keeps messages in flight above a lower limit."""
        self.limit = limit
        # Offers were made under the old limit. Their queues come first.
        self._waiting = dict.fromkeys((*self._offered, *self._waiting))
        self._offered.clear()
        self._offered_count = 0
        return self._offer_round()

    def return_unused(self, queue: object) -> Sequence[object]:
        """The queue has delivered what it could: free the rest of its offer for the others."""
        if queue not in self._offered:
            return ()
        self._change_offer(queue, 0)
        return self._offer_round()

    def forget(self, queue: object) -> Sequence[object]:
        """The channel has no consumer on this queue any more."""
        self._waiting.pop(queue, None)
        self._turns.pop(queue, None)
        return self.return_unused(queue)

    def _change_offer(self, queue: object, offer: int) -> None:
        self._offered_count += offer - self._offered.pop(queue, 0)
        if offer:
            self._offered[queue] = offer

    def _offer_round(self) -> Sequence[object]:
        """Divide the free credit among the queues that wait; those that get none wait on."""
        waiting = self._waiting
        if not self.limit:
            offered = list(waiting)
            waiting.clear()
            return offered
        free = self.limit - self._in_use - self._offered_count
        if free <= 0 or not waiting:
            return ()
        share, rest = divmod(free, len(waiting))
        offers = dict.fromkeys(waiting, share) if share else {}
        for queue in nsmallest(rest, waiting, key=self._turn_of):
            offers[queue] = share + 1
            self._turn += 1
            self._turns[queue] = self._turn
        for queue, offer in offers.items():
            del waiting[queue]
            self._offered[queue] = self._offered.get(queue, 0) + offer
            self._offered_count += offer
        return list(offers)

    def _turn_of(self, queue: object) -> int:
        return self._turns.get(queue, 0)
