"""Counts of a channel, added as its actor adds them (actors/channel)."""

from __future__ import annotations

from leveret.core.definitions import QueueDefinition
from leveret.core.statistics.channel_counts import ChannelCounts


def told_one(counts: ChannelCounts, key: bytes, queue: QueueDefinition, count: int) -> None:
    """All of a batch, which has one key, went to one queue."""
    if queue is counts.run_queue and key == counts.run_key:
        counts.run_count += count
    else:
        counts.begin_run(key, queue, count)


def delivered(
    counts: ChannelCounts, queue: QueueDefinition, count: int, redelivered: int, *, no_ack: bool
) -> None:
    """A consumer got messages."""
    from_queue = counts.delivered.get(queue) or counts.begin_queue(queue)
    if no_ack:
        from_queue.deliver_no_ack += count
    else:
        from_queue.deliver += count
    from_queue.redeliver += redelivered


def acked(counts: ChannelCounts, queue: QueueDefinition, count: int) -> None:
    """The client has acknowledged messages."""
    (counts.delivered.get(queue) or counts.begin_queue(queue)).ack += count
