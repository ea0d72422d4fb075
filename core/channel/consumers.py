"""The consumers of one channel, their prefetch, and the queues that hold something of the channel.

Credit is AMQP's prefetch: per consumer, and with the global flag for the channel
(core/connection/channel_credit.py). Which messages a consumer gets is its queue's decision
(core/queue/consumers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...amqp_frames.constants import NOT_ALLOWED, NOT_IMPLEMENTED
from ...amqp_frames.errors import HardError
from ...amqp_frames.methods import BasicConsume, BasicQos
from ...amqp_frames.values.field_table import encode_short_string
from ..connection.channel_credit import ChannelCredit
from ..definitions import (
    QueueDefinition,
    check_consumer_arguments,
    consumer_in_flight_timeout,
    consumer_priority,
)
from ..queue.consumers import Consumer

# With so many queues a channel first looks which of those that it has used are still there.
QUEUES_USED_MIN: Final = 64


class ChannelConsumers:
    """The consumers of `channel`, by consumer tag; at most `count_max`, 0 for no limit."""

    __slots__ = (
        "_channel",
        "_count_max",
        "_credit",
        "_queues",
        "_queues_used",
        "_queues_used_max",
        "prefetch",
    )

    def __init__(self, channel: object, credit: ChannelCredit, count_max: int) -> None:
        self._channel = channel
        self._credit = credit
        self._count_max = count_max
        # Of consumers to come, as RabbitMQ has it.
        self.prefetch = 0
        self._queues: dict[str, QueueDefinition] = {}
        # Queues that hold consumers or deliveries of this channel, in the order of their use: a
        # channel that ends does the same again in a simulation.
        self._queues_used: dict[QueueDefinition, None] = {}
        self._queues_used_max = QUEUES_USED_MIN

    def __len__(self) -> int:
        return len(self._queues)

    def queue_of(self, tag: str) -> QueueDefinition | None:
        """The queue of the consumer with this tag; None if there is no such consumer."""
        return self._queues.get(tag)

    def set_prefetch(self, method: BasicQos) -> Sequence[object]:
        """Carry out basic.qos; returns the queues to be offered credit.

        HardError NOT_IMPLEMENTED for a limit in bytes.
        """
        if method.prefetch_size:
            raise HardError(NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
        if method.global_:
            return self._credit.set_limit(method.prefetch_count)
        self.prefetch = method.prefetch_count
        return ()

    def check_new(self, tag: str, reply_tag: str | None) -> None:
        """HardError if there can be no new consumer with this tag, or no new consumer at all.

        `reply_tag` is that of the channel's reply consumer, which is not counted here.
        """
        if tag in self._queues or tag == reply_tag:
            raise HardError(NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'")
        if self._count_max and len(self._queues) >= self._count_max:
            limit = self._count_max
            raise HardError(NOT_ALLOWED, f"reached maximum ({limit}) of consumers per channel")

    def add(self, tag: str, queue: QueueDefinition, method: BasicConsume) -> Consumer:
        """Note a new consumer of the queue; SoftError if its arguments are wrong.

        The caller calls `use` for the queue, and asks the queue to add the consumer.
        """
        check_consumer_arguments(str(queue), method.arguments, queue.is_quorum)
        consumer = Consumer(
            self._channel,
            encode_short_string(tag),
            self.prefetch,
            self._credit,
            method.no_ack,
            method.exclusive,
            consumer_priority(method.arguments),
            consumer_in_flight_timeout(method.arguments),
        )
        self._queues[tag] = queue
        return consumer

    def use(self, queue: QueueDefinition, is_there: Callable[[QueueDefinition], bool]) -> None:
        """Remember that the queue may hold something of the channel's.

        Forgets queues that were deleted meanwhile, because a channel that has used a queue once
        must not keep it in memory.
        """
        if queue not in self._queues_used:
            if len(self._queues_used) >= self._queues_used_max:
                self._queues_used = dict.fromkeys(filter(is_there, self._queues_used))
                self._queues_used_max = 2 * len(self._queues_used) + QUEUES_USED_MIN
            self._queues_used[queue] = None

    def forget(self, tag: str) -> tuple[QueueDefinition | None, Sequence[object]]:
        """Forget a consumer that its queue has removed; credit for it is the other queues'.

        Returns its queue, None if there is no such consumer, and the queues to be offered credit.
        """
        queue = self._queues.pop(tag, None)
        if queue is None or not self._credit.limit or queue in self._queues.values():
            return queue, ()
        return queue, self._credit.forget(queue)

    def release(self) -> tuple[list[QueueDefinition], dict[str, QueueDefinition]]:
        """The channel ends: the queues that may hold something of it, and its consumers."""
        released = list(self._queues_used), self._queues
        self._queues_used, self._queues = {}, {}
        return released
