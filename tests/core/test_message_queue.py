"""The queue's rules, case by case; in any order they are in test_message_queue_model.py."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from batches import delivered_to, mixed, numbered
from leveret.amqp_frames.properties import Properties
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.rules import Effects, MessageQueue
from leveret.core.queue.span import Span

WINDOW = 1 << 20
TRANSIENT = Properties()


def queue_of(durable: bool = True, window: int = WINDOW) -> MessageQueue:
    return MessageQueue("the queue", durable, window)


def consume(
    queue: MessageQueue,
    channel: str,
    prefetch: int = 0,
    no_ack: bool = False,
    credit: ChannelCredit | None = None,
) -> Consumer:
    consumer = Consumer(channel, b"\1t", prefetch, credit or ChannelCredit(), no_ack, False)
    queue.consumers.add(consumer)
    queue.dispatch(Effects())
    return consumer


def publish(queue: MessageQueue, count: int) -> Effects:
    effects = Effects()
    queue.publish(numbered(count), range(count), effects)
    return effects


def indexes(deliveries: Iterable[Delivery]) -> list[int]:
    return [index for delivery in deliveries for index in delivery.span.indexes]


def count(effects: Effects, consumer: Consumer) -> int:
    return len(indexes(delivered_to(effects, consumer)))


def test_a_persistent_message_is_appended_and_not_confirmed() -> None:
    effects = publish(queue_of(), 3)
    assert effects.appended == (range(3), range(1, 4))
    assert effects.confirmed is None


def test_a_persistent_message_is_appended_although_a_consumer_takes_it_at_once() -> None:
    # Fsync before confirm, for what was delivered and even settled before its sync.
    queue = queue_of()
    consumer = consume(queue, "a", no_ack=True)
    effects = publish(queue, 3)
    assert effects.appended == (range(3), range(1, 4))
    assert effects.confirmed is None
    assert count(effects, consumer) == 3
    assert effects.settled_entries == [(1, 3)]


def test_a_queue_that_is_not_durable_confirms_at_once_and_tells_the_journal_nothing() -> None:
    queue = queue_of(durable=False)
    consume(queue, "a", no_ack=True)
    effects = publish(queue, 3)
    assert effects.appended is None
    assert effects.confirmed == range(3)
    assert effects.settled_entries == effects.delivered_entries == []
    effects = Effects()
    assert queue.purge(effects) == 0
    assert effects.settled_entries == []


def test_transient_messages_are_confirmed_at_once() -> None:
    queue = queue_of()
    batch = numbered(3, TRANSIENT)
    batch.durable = range(0)
    effects = Effects()
    queue.publish(batch, range(3), effects)
    assert effects.appended is None
    assert effects.confirmed == range(3)


def test_transient_messages_of_a_mixed_batch_are_confirmed_and_persistent_ones_appended() -> None:
    effects = Effects()
    queue = queue_of()
    queue.publish(mixed([True, False, False, True, True]), range(1, 4), effects)
    assert effects.appended is not None
    appended, entry_ids = effects.appended
    assert (list(appended), list(entry_ids)) == ([3], [3])
    assert list(effects.confirmed or ()) == [1, 2]
    assert queue.next_entry_id == 4


def test_all_of_a_mixed_batch_that_came_here_may_be_persistent() -> None:
    effects = Effects()
    queue_of().publish(mixed([True, False, True]), range(0, 3, 2), effects)
    assert effects.appended == (range(0, 3, 2), range(1, 3))
    assert effects.confirmed is None


def test_recovered_messages_have_their_attempts() -> None:
    queue = queue_of()
    queue.restore(Span(numbered(3), range(3), 7, 2, stored=True))
    assert queue.next_entry_id == 10
    effects = Effects()
    delivery = queue.get("a", False, effects)
    assert delivery is not None
    assert (delivery.span.attempts, delivery.attempts) == (2, 3)
    assert effects.delivered_entries == [(7, 7)]
    assert publish(queue, 1).appended == (range(1), range(10, 11))


@pytest.mark.parametrize("no_ack", [False, True])
@pytest.mark.parametrize("consumers", [2, 3, 7])
@pytest.mark.parametrize("sizes", [[1000], [1] * 100, [10, 3, 200, 1, 1, 50]])
def test_equal_consumers_get_equal_shares(no_ack: bool, consumers: int, sizes: list[int]) -> None:
    queue = queue_of(durable=False, window=1 << 40)
    everyone = [consume(queue, f"{number}", no_ack=no_ack) for number in range(consumers)]
    got = dict.fromkeys(everyone, 0)
    deliveries = 0
    for size in sizes * 5:
        effects = publish(queue, size)
        for consumer in everyone:
            got[consumer] += count(effects, consumer)
            deliveries += len(delivered_to(effects, consumer))
    assert sum(got.values()) == sum(sizes) * 5
    share = -(-max(sizes) // consumers)
    assert max(got.values()) - min(got.values()) <= share
    # A batch is shared out in one row for each consumer, not in crumbs.
    assert deliveries <= sum(min(size, consumers + 1) for size in sizes) * 5


def test_the_least_busy_goes_first() -> None:
    queue = queue_of(durable=False)
    busy, idle = consume(queue, "a"), consume(queue, "b")
    first = publish(queue, 20)
    ((delivery,),) = [delivered_to(first, idle)]
    queue.settle("b", [(delivery, 0, 10)], Effects())
    assert (busy.in_flight, idle.in_flight) == (10, 0)
    for _ in range(9):
        assert count(publish(queue, 1), idle) == 1
    assert idle.in_flight == 9


def test_prefetch_is_kept_and_given_back_by_acks() -> None:
    queue = queue_of(durable=False)
    consumer = consume(queue, "a", prefetch=3)
    effects = publish(queue, 5)
    (delivery,) = delivered_to(effects, consumer)
    assert indexes([delivery]) == [0, 1, 2]
    effects = Effects()
    queue.settle("a", [(delivery, 1, 2)], effects)
    assert indexes(delivered_to(effects, consumer)) == [3]
    assert queue.ready.message_count == 1


def test_the_credit_of_a_channel_is_shared_by_its_consumers_on_all_queues() -> None:
    credit = ChannelCredit()
    credit.set_limit(4)
    queue, other = (MessageQueue(name, False, WINDOW) for name in ("queue", "other"))
    here = consume(queue, "a", credit=credit)
    there = consume(other, "a", credit=credit)
    assert count(publish(queue, 3), here) == 3
    assert count(publish(other, 3), there) == 1
    assert list(credit.release(2)) == ["other"]
    effects = Effects()
    other.dispatch(effects, "a")
    assert count(effects, there) == 2


def test_a_consumer_that_does_not_read_gets_no_more_than_its_window() -> None:
    queue = queue_of(durable=False, window=1)
    consumer = consume(queue, "a")
    effects = publish(queue, 3)
    assert count(effects, consumer) == 3
    assert not publish(queue, 3).delivered
    assert consumer.window_bytes > 0
    effects = Effects()
    assert consumer.sent(consumer.window_bytes)
    queue.sent(consumer, effects)
    assert count(effects, consumer) == 3


def test_requeued_messages_return_to_their_old_place_redelivered() -> None:
    queue = queue_of()
    consumer = consume(queue, "a", prefetch=4)
    (delivery,) = delivered_to(publish(queue, 6), consumer)
    queue.consumers.remove("a", b"\1t")
    effects = Effects()
    queue.requeue("a", [(delivery, 1, 3)], effects)
    assert not effects.delivered
    assert not effects.settled_entries
    got = [queue.get("b", False, effects) for _ in range(4)]
    assert [(each.span.indexes[0], each.span.attempts) for each in got if each is not None] == [
        (1, 1),
        (2, 1),
        (4, 0),
        (5, 0),
    ]
    assert effects.delivered_entries == [(2, 2), (3, 3), (5, 5), (6, 6)]


def test_a_channel_that_is_gone_gives_back_the_messages_that_it_still_held() -> None:
    queue = queue_of()
    gone, other = consume(queue, "a", prefetch=3), consume(queue, "b", prefetch=2)
    effects = publish(queue, 5)
    (delivery,) = delivered_to(effects, gone)
    queue.settle("a", [(delivery, 0, 1)], Effects())
    effects = Effects()
    assert queue.channel_down("a", effects) == [gone]
    assert not effects.delivered
    assert other.in_flight == 2
    assert [(list(span.indexes), span.attempts) for span in queue.ready] == [([1, 2], 1)]
    assert queue.channel_down("a", effects) == []


def test_acks_of_another_channel_or_repeated_acks_settle_nothing() -> None:
    queue = queue_of()
    consumer = consume(queue, "a")
    (delivery,) = delivered_to(publish(queue, 2), consumer)
    effects = Effects()
    queue.settle("b", [(delivery, 0, 2)], effects)
    assert effects.settled_entries == []
    queue.settle("a", [(delivery, 0, 1), (delivery, 0, 1), (delivery, 0, 2)], effects)
    assert effects.settled_entries == [(1, 1)]
    queue.requeue("a", [(delivery, 0, 1)], effects)
    assert queue.ready.message_count == 0
    assert consumer.in_flight == 1


def test_purge_drops_ready_messages_and_leaves_those_in_flight() -> None:
    queue = queue_of()
    consumer = consume(queue, "a", prefetch=2)
    publish(queue, 5)
    effects = Effects()
    assert queue.purge(effects) == 3
    assert effects.settled_entries == [(3, 5)]
    assert queue.ready.message_count == 0
    assert queue.in_flight.message_count == consumer.in_flight == 2


def test_an_empty_queue_gives_nothing() -> None:
    queue = queue_of()
    effects = Effects()
    assert queue.get("a", False, effects) is None
    effects = Effects()
    assert queue.purge(effects) == 0
    assert effects.settled_entries == []


class Counted(Consumer):
    """A consumer that counts how often it is looked at."""

    __slots__ = ()
    looks = 0

    def room(self) -> int:
        Counted.looks += 1
        return super().room()


def test_the_consumers_of_one_channel_get_the_queue_in_its_order() -> None:
    queue = queue_of(durable=False)
    credit = ChannelCredit()
    other = Consumer("b", b"\1x", 3, ChannelCredit(), False, False)
    for _ in range(9):
        publish(queue, 1)
    for tag in (b"\1o", b"\1t"):
        queue.consumers.add(Consumer("a", tag, 3, credit, False, False))
    queue.consumers.add(other)
    effects = Effects()
    queue.dispatch(effects)
    runs = (run for consumer, run in effects.delivered if consumer is not other)
    entries = [delivery.span.first_entry_id for run in runs for delivery in run]
    assert (entries, len(entries)) == (sorted(entries), 6)
    assert len([consumer for consumer, _ in effects.delivered if consumer is other]) == 1


def test_consumers_without_room_cost_nothing() -> None:
    queue = queue_of(durable=False)
    everyone = [Counted(f"{n}", b"\1t", 1, ChannelCredit(), False, False) for n in range(500)]
    for consumer in everyone:
        queue.consumers.add(consumer)
    held = dict(publish(queue, 1000).delivered)
    Counted.looks = 0
    for consumer in everyone[:100]:
        effects = Effects()
        queue.settle(consumer.channel, [(held[consumer][0], 0, 1)], effects)
        assert [each for each, _ in effects.delivered] == [consumer]
    assert Counted.looks < 5 * 100


def test_consumers_with_room_cost_nothing_either() -> None:
    queue = queue_of(durable=False)
    for n in range(500):
        queue.consumers.add(Counted(f"{n}", b"\1t", 0, ChannelCredit(), False, False))
    Counted.looks = 0
    for _ in range(1000):
        publish(queue, 1)
    assert Counted.looks < 5 * 1000
