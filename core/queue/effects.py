"""The effects that a queue's rules return and its actor carries out."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

from ...amqp_frames.messages.batch import Indexes
from .consumers import Consumer
from .in_flight import Delivery
from .span import EntryRange, Span

# Why a message leaves its queue other than by an ack, as the `reason` of x-death.
REJECTED: Final = "rejected"
MAXLEN: Final = "maxlen"
EXPIRED: Final = "expired"
DELIVERY_LIMIT: Final = "delivery_limit"


class Deduplicated(NamedTuple):
    """The division of a publish by a window for duplicates; indexes ascend."""

    # Aligned with the appended messages: b"" for one that carries no identity. Empty if none does.
    identities: Sequence[bytes]
    # Until when they are remembered, in milliseconds since the epoch; 0: while there is room.
    until_ms: int
    # These repeat messages that are stored, or will be when the journal has all that it was told.
    repeats_stored: Indexes
    # These repeat transient messages.
    repeats_transient: Indexes


class Effects:
    """The effects of a call, which the queue's actor carries out in the order of the fields."""

    __slots__ = (
        "_last_runs",
        "appended",
        "confirmed",
        "dead",
        "deadlines",
        "deduplicated",
        "delivered",
        "delivered_entries",
        "rejected",
        "settled_entries",
    )

    def __init__(self) -> None:
        # Persistent messages for the journal: their indexes and entry ids, aligned.
        self.appended: tuple[Indexes, range | array[int]] | None = None
        # When these expire, in milliseconds since the epoch: one time for all, 0 for never, or
        # aligned with them.
        self.deadlines: int | array[int] = 0
        # Messages that left the queue for its dead-letter exchange, and why: "rejected", "expired",
        # "maxlen" or "delivery_limit". Not settled until the dead letters are safe. Those of a
        # queue without one are settled, and only told of in the trace.
        self.dead: list[tuple[Span, str]] = []
        # Indexes that are confirmed at once.
        self.confirmed: Indexes | None = None
        # Indexes that the queue does not take: their publisher gets a nack.
        self.rejected: Indexes | None = None
        # What the queue's window for duplicates found, if it has one.
        self.deduplicated: Deduplicated | None = None
        # What consumers get. To those of one channel in this order: it is the queue's.
        self.delivered: list[tuple[Consumer, list[Delivery]]] = []
        # The last of them of each channel, which its credit stands for.
        self._last_runs: dict[object, tuple[Consumer, list[Delivery]]] = {}
        # Entry ids, first and last, for the journal's Deliver and Settle records.
        self.delivered_entries: list[EntryRange] = []
        self.settled_entries: list[EntryRange] = []

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        """The consumer gets this, too."""
        run = self._last_runs.get(consumer.channel_credit)
        if run is None or run[0] is not consumer:
            run = self._last_runs[consumer.channel_credit] = (consumer, [])
            self.delivered.append(run)
        run[1].append(delivery)
