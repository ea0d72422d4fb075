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
        # For each consumer, what it gets.
        self.delivered: dict[Consumer, list[Delivery]] = {}
        # Entry ids, first and last, for the journal's Deliver and Settle records.
        self.delivered_entries: list[EntryRange] = []
        self.settled_entries: list[EntryRange] = []
