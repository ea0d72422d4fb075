"""A queue that NSQ empties: ready, deferred and timed messages go, and credit comes back."""

from __future__ import annotations

from batches import delivered_to, numbered
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.construction import make_queue
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.rules import Effects, MessageQueue


def queue_with_consumer(timeout_ms: int | None) -> tuple[MessageQueue, Consumer]:
    queue = make_queue("q", True, table_of({}), 1 << 30)
    credit = ChannelCredit()
    consumer = Consumer("c", b"\1t", 2, credit, False, False, in_flight_timeout_ms=timeout_ms)
    queue.add_consumer(consumer)
    return queue, consumer


def test_ready_deferred_and_timed_messages_go_and_room_comes_with_the_answer() -> None:
    queue, consumer = queue_with_consumer(timeout_ms=1000)
    first = Effects()
    queue.publish(numbered(4), range(4), first)
    queue.publish(numbered(1), range(1), first, delays_ms=500)
    (delivery,) = delivered_to(first, consumer)
    assert queue.counts() == (2, 1, 2)
    assert queue.deferred_count == 1
    effects = Effects()
    assert queue.empty(effects) == [("c", delivery, 0, 2)]
    assert queue.counts() == (0, 1, 0)
    assert queue.deferred_count == 0
    assert sorted(effects.settled_entries) == [(1, 2), (3, 4), (5, 5)]
    assert queue.held_bytes == 0
    # Nothing of it comes back, and the channel's late answer frees the consumer.
    queue.uptime_ms = 5000
    late = Effects()
    queue.expire(late)
    assert (late.timed_out, late.delivered) == (None, [])
    queue.settle("c", [(delivery, 0, 2)], late)
    assert late.settled_entries == []
    assert consumer.in_flight == 0
    again = Effects()
    queue.publish(numbered(1), range(1), again)
    assert len(delivered_to(again, consumer)) == 1


def test_messages_without_a_time_stay_with_their_consumer() -> None:
    queue, consumer = queue_with_consumer(timeout_ms=None)
    first = Effects()
    queue.publish(numbered(3), range(3), first)
    (delivery,) = delivered_to(first, consumer)
    effects = Effects()
    assert queue.empty(effects) == []
    assert effects.settled_entries == [(3, 3)]
    queue.settle("c", [(delivery, 0, 2)], effects)
    assert effects.settled_entries == [(3, 3), (1, 2)]
