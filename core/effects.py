"""What a queue's rules ask of its actor: a call says what must be done, and does none of it."""

from __future__ import annotations

from array import array

from ..amqp_frames.batch import Indexes
from .consumers import Consumer
from .in_flight import Delivery
from .span import Span

EntryRange = tuple[int, int]


class Effects:
    """What a queue's actor must do after a call, in the order of the fields."""

    __slots__ = (
        "_last_runs",
        "appended",
        "confirmed",
        "dead",
        "deadlines",
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
        # "maxlen" or "delivery_limit". Not settled until the dead letters are safe. Of a queue
        # without one, those that are traced: they are settled, and only to be told of.
        self.dead: list[tuple[Span, str]] = []
        # Indexes that are confirmed at once.
        self.confirmed: Indexes | None = None
        # Indexes that the queue does not take: their publisher gets a nack.
        self.rejected: Indexes | None = None
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
