"""The deliveries of a channel that its client has not acknowledged, with all that depends on them.

Delivery tags ascend from 1 over all consumers of the channel, basic.get and direct replies. A
delivery that awaits its ack is held under its tags (unacked.py), has a deadline if its queue sets
one (ack_timeouts.py), and takes up credit of the channel until its messages return to their queue,
settled or not (core/connection/channel_credit.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...amqp_frames.errors import SoftError
from ...amqp_frames.messages.batch import Acks
from ...amqp_frames.methods import BasicAck
from ..connection.channel_credit import ChannelCredit
from ..queue.in_flight import Delivery
from .ack_timeouts import AckTimeouts
from .unacked import Part, Unacked, runs_of_tags


class Returned(NamedTuple):
    """Parts by the queue that they return to, and the queues to be offered the freed credit."""

    by_queue: dict[object, list[Part]]
    offered: Sequence[object]


class Outstanding:
    """The deliveries of one channel, numbered, held and returned."""

    __slots__ = ("_credit", "_next_delivery_tag", "_unacked", "timeouts")

    def __init__(self, channel_number: int, credit: ChannelCredit) -> None:
        self._credit = credit
        self._next_delivery_tag = 1
        self._unacked = Unacked()
        self.timeouts = AckTimeouts(channel_number, self._unacked)

    def __len__(self) -> int:
        """How many messages the client has neither acked nor given back."""
        return self._unacked.count

    def number(self, message_count: int) -> int:
        """Assign consecutive delivery tags; return the first."""
        first_tag = self._next_delivery_tag
        self._next_delivery_tag += message_count
        return first_tag

    def hold(self, delivery: Delivery) -> int:
        """Number a delivery and hold it until it is acknowledged; return its first tag."""
        first_tag = self.number(len(delivery.span))
        self._unacked.add(first_tag, delivery)
        return first_tag

    def remove(self, delivery_tag: int, multiple: bool) -> list[Part]:
        """Hold no longer what an ack, nack or reject names; 406 for a tag that is not held."""
        return self._unacked.remove(delivery_tag, multiple)

    def remove_acked(self, acks: Acks) -> tuple[list[Part], SoftError | None]:
        """Hold no longer what a run of basic.ack names, up to the first tag that is not held.

        The error, 406, is that tag's: the acks before it are valid.
        """
        parts: list[Part] = []
        try:
            for first, last, multiple in runs_of_tags(acks.tags, acks.multiples):
                if multiple:
                    parts += self._unacked.remove(first, True)
                else:
                    parts += self._unacked.remove_range(first, last)
        except SoftError as error:
            error.class_id, error.method_id = BasicAck.class_id, BasicAck.method_id
            return parts, error
        return parts, None

    def remove_all(self) -> list[Part]:
        """Hold nothing any longer: basic.recover returns all to the queues."""
        self.timeouts.forget_returning()
        return self._unacked.remove_all()

    def hold_again(self, parts: list[Part]) -> None:
        """A transaction was rolled back: its acknowledgements never were."""
        self._unacked.put_back(parts)

    def return_parts(self, parts: list[Part]) -> Returned:
        """Return parts that are held no longer to their queues, and free their credit.

        Each queue gets its parts in one go: a consumer would be handed a first part again before
        messages that belong before it have come back.
        """
        by_queue: dict[object, list[Part]] = {}
        count = 0
        for part in parts:
            delivery, low, high = part
            if delivery.consumer is not None:
                count += high - low
            by_queue.setdefault(delivery.queue, []).append(part)
        return Returned(by_queue, self._credit.release(count))
