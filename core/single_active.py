"""The consumers of a queue with `x-single-active-consumer`: one receives, the others stand by.

As in RabbitMQ 3.10: the first to come is active, and stays so whatever priority comes after it.
When it goes, by cancel or with its channel, the next is that of the highest `x-priority`, and of
those the oldest. What the old one holds stays with its channel until that gives it back or ends.
"""

from __future__ import annotations

from .consumers import Consumer, Consumers


class SingleActiveConsumers(Consumers):
    """Consumers of which only `active` is ever next; None if there is none."""

    __slots__ = ("active",)

    def __init__(self, window_bytes_max: int, queue: object = None) -> None:
        super().__init__(window_bytes_max, queue)
        self.active: Consumer | None = None

    def is_refused(self, consumer: Consumer) -> bool:
        """Exclusive consumers are refused, even the first."""
        return consumer.exclusive

    def add(self, consumer: Consumer) -> None:
        """It is active if it is the first, else it waits."""
        self._by_key[consumer.channel, consumer.consumer_tag] = consumer
        if self.active is None:
            self.active = consumer

    def remove(self, channel: object, consumer_tag: bytes) -> Consumer | None:
        """Take one out, if it is there; the active one hands over."""
        consumer = self._by_key.pop((channel, consumer_tag), None)
        if consumer is not None and consumer is self.active:
            # The first of the highest: max() keeps the order of registration among equals.
            self.active = max(self._by_key.values(), key=_priority, default=None)
        return consumer

    def changed(self, consumer: Consumer) -> None:
        """Nothing to note: the active one is looked at anew each time."""

    def channel_changed(self, channel: object) -> None:
        """Nothing to note, either."""

    def all_changed(self) -> None:
        """Nor here."""

    def next(self) -> tuple[Consumer, int, int] | None:
        """The active one, if it has room, chosen among itself."""
        active = self.active
        if active is None or active.window_bytes >= self._window_bytes_max:
            return None
        room = active.room()
        if room <= 0 or active.channel_credit.outlet.outlet.is_closed(self._queue):
            return None
        return active, room, 1


def _priority(consumer: Consumer) -> int:
    return consumer.priority
