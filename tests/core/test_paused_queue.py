"""A paused queue delivers nothing, and does everything else."""

from __future__ import annotations

from batches import numbered
from dashed import dashed
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.construction import make_queue
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.rules import Effects, MessageQueue

WINDOW = 1 << 30


def queue_with(**arguments: object) -> MessageQueue:
    named = dashed(arguments)
    return make_queue("q", True, table_of(named), WINDOW)


def consumer_on(
    queue: MessageQueue,
    channel: str = "c",
    prefetch: int = 0,
    credit: ChannelCredit | None = None,
    no_ack: bool = False,
) -> Consumer:
    consumer = Consumer(channel, b"\1t", prefetch, credit or ChannelCredit(), no_ack, False)
    queue.add_consumer(consumer)
    return consumer


def publish(queue: MessageQueue, count: int) -> Effects:
    effects = Effects()
    queue.publish(numbered(count), range(count), effects)
    return effects


def delivered(effects: Effects) -> list[Delivery]:
    return [each for _, deliveries in effects.delivered for each in deliveries]


def entries(effects: Effects) -> list[int]:
    return [
        entry
        for each in delivered(effects)
        for entry in range(each.span.first_entry_id, each.span.first_entry_id + len(each.span))
    ]


def resumed(queue: MessageQueue) -> Effects:
    effects = Effects()
    queue.resume(effects)
    return effects


def test_publishes_go_on_and_nobody_gets_them() -> None:
    queue = queue_with()
    consumer_on(queue, "a")
    consumer_on(queue, "b", no_ack=True)
    queue.pause()
    effects = publish(queue, 3)
    assert effects.appended is not None
    assert len(effects.appended[0]) == 3
    assert not effects.delivered
    assert queue.counts() == (3, 2, 0)
    got = Effects()
    assert queue.get("c", False, got) is None
    assert queue.get("c", True, got) is None
    assert not got.delivered_entries
    assert queue.counts() == (3, 2, 0)


def test_consumers_that_come_get_nothing_before_it_is_resumed() -> None:
    queue = queue_with()
    publish(queue, 4)
    queue.pause()
    queue.pause()
    consumer_on(queue, prefetch=3)
    effects = Effects()
    queue.dispatch(effects, "c")
    assert not effects.delivered
    assert entries(resumed(queue)) == [1, 2, 3]
    # To resume one that is not paused delivers what there is to deliver, and that is nothing new.
    assert not entries(resumed(queue))


def test_acks_and_nacks_go_on_and_what_they_free_is_not_used() -> None:
    queue = queue_with(x_dead_letter_exchange="dlx")
    consumer = consumer_on(queue, prefetch=3)
    (delivery,) = delivered(publish(queue, 6))
    queue.pause()
    acked, given_back, rejected = Effects(), Effects(), Effects()
    queue.settle("c", [(delivery, 0, 1)], acked)
    queue.requeue("c", [(delivery, 1, 2)], given_back)
    queue.discard("c", [(delivery, 2, 3)], rejected)
    assert acked.settled_entries == [(1, 1)]
    assert [(span.first_entry_id, reason) for span, reason in rejected.dead] == [(3, "rejected")]
    assert not [*delivered(acked), *delivered(given_back), *delivered(rejected)]
    assert (consumer.in_flight, queue.counts()) == (0, (4, 1, 0))
    effects = resumed(queue)
    # The one that came back has its old place.
    assert entries(effects) == [2, 4, 5]
    assert delivered(effects)[0].attempts == 2


def test_in_flight_time_outs_and_delivery_limits_go_on() -> None:
    queue = queue_with(x_in_flight_timeout=500, x_delivery_limit=0)
    consumer_on(queue, prefetch=2)
    publish(queue, 3)
    queue.pause()
    assert queue.wait_ms() == 500
    queue.uptime_ms = 500
    effects = Effects()
    queue.expire(effects)
    assert [reason for _, reason in effects.dead] == ["delivery_limit"]
    assert effects.settled_entries == [(1, 2)]
    assert queue.counts() == (1, 1, 0)


def test_deferred_messages_become_ready_and_wait() -> None:
    queue = queue_with(x_requeue_delay=500)
    consumer_on(queue, prefetch=2)
    (delivery,) = delivered(publish(queue, 1))
    queue.requeue("c", [(delivery, 0, 1)], Effects())
    queue.pause()
    assert (queue.counts(), queue.wait_ms()) == ((0, 1, 0), 500)
    queue.now_ms = queue.uptime_ms = 500
    due = Effects()
    queue.expire(due)
    assert not due.delivered
    assert queue.counts() == (1, 1, 0)
    assert entries(resumed(queue)) == [1]


def test_messages_expire_and_lengths_are_kept() -> None:
    queue = queue_with(x_max_length=3, x_message_ttl=50)
    consumer_on(queue, prefetch=9)
    queue.pause()
    queue.now_ms = 1_000
    publish(queue, 2)
    queue.now_ms = 1_001
    effects = publish(queue, 2)
    assert [(span.first_entry_id, reason) for span, reason in effects.dead] == [(1, "maxlen")]
    queue.now_ms = 1_050
    expired = Effects()
    queue.expire(expired)
    assert [(span.first_entry_id, reason) for span, reason in expired.dead] == [(2, "expired")]
    assert queue.counts() == (2, 1, 0)


def test_a_channel_that_ends_gives_back_what_it_holds() -> None:
    queue = queue_with()
    consumer_on(queue, prefetch=2)
    publish(queue, 3)
    queue.pause()
    effects = Effects()
    queue.channel_down("c", effects)
    assert not effects.delivered
    consumer_on(queue, "d")
    assert entries(resumed(queue)) == [1, 2, 3]


def test_credit_of_a_whole_channel_is_not_kept_from_other_queues() -> None:
    credit = ChannelCredit()
    credit.set_limit(2)
    paused, other = queue_with(), make_queue("other", True, {}, WINDOW)
    consumer_on(paused, credit=credit)
    other.add_consumer(Consumer("c", b"\1u", 0, credit, False, False))
    paused.pause()
    publish(paused, 5)
    assert credit.in_use == 0
    assert entries(publish(other, 5)) == [1, 2]


def test_the_single_active_consumer_stays_active() -> None:
    queue = queue_with(x_single_active_consumer=True)
    first, second = consumer_on(queue, "a", prefetch=2), consumer_on(queue, "b", prefetch=2)
    queue.pause()
    publish(queue, 4)
    effects = resumed(queue)
    assert [consumer for consumer, _ in effects.delivered] == [first]
    assert (first.in_flight, second.in_flight) == (2, 0)
