"""A queue keeps little more of the reads than its messages.

That a sweep changes nothing else is shown by the models, with a sweep after every step.
"""

from __future__ import annotations

from array import array

from held_reads import (
    READ_MESSAGES,
    READS,
    check,
    consumer_of,
    enqueue,
    give_back,
    kept_bytes,
    queue_of,
    read,
)
from leveret.amqp_frames.messages.batch import TTL_NONE
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.queue.construction import refill
from leveret.core.queue.rules import Effects


def test_a_small_share_of_each_read_does_not_keep_the_read() -> None:
    queue = queue_of()
    for number in range(READS):
        enqueue(queue, read(number), range(3, 4))
    check(queue, [(number, 3) for number in range(READS)])


def test_one_unacked_message_of_each_read_does_not_keep_the_read() -> None:
    queue = queue_of()
    consumer_of(queue)
    for number in range(READS):
        [delivery] = enqueue(queue, read(number), range(READ_MESSAGES))
        give_back(queue, queue.settle, [(delivery, 0, 7), (delivery, 8, READ_MESSAGES)])
    check(queue, [(number, 7) for number in range(READS)])


def test_unacked_messages_here_and_there_keep_their_places_in_the_delivery() -> None:
    queue = queue_of()
    consumer_of(queue)
    deliveries = []
    for number in range(READS):
        [delivery] = enqueue(queue, read(number), range(READ_MESSAGES))
        parts = [(delivery, 1, 9), (delivery, 10, 11), (delivery, 12, READ_MESSAGES)]
        give_back(queue, queue.settle, parts)
        deliveries.append(delivery)
    kept = (0, 9, 11)
    check(queue, [(number, at) for number in range(READS) for at in kept])
    parts = [(delivery, at, at + 1) for delivery in deliveries for at in kept]
    queue.consumers.remove("a", b"\1t")
    give_back(queue, queue.requeue, parts)
    check(queue, [(number, at) for number in range(READS) for at in kept])
    order = [span.first_entry_id for span in queue.ready]
    assert order == [1 + number * READ_MESSAGES + at for number in range(READS) for at in kept]
    assert {span.attempts for span in queue.ready} == {1}


def test_one_requeued_message_of_each_read_does_not_keep_the_read() -> None:
    queue = queue_of()
    consumer_of(queue)
    deliveries = [
        delivery
        for number in range(READS)
        for delivery in enqueue(queue, read(number), range(READ_MESSAGES))
    ]
    queue.consumers.remove("a", b"\1t")
    for delivery in deliveries:
        give_back(queue, queue.requeue, [(delivery, 7, 8)])
        give_back(queue, queue.settle, [(delivery, 0, 7), (delivery, 8, READ_MESSAGES)])
    check(queue, [(number, 7) for number in range(READS)])


def test_one_consumer_that_does_not_ack_does_not_keep_messages_that_others_have_acked() -> None:
    queue = queue_of()
    for tag in range(5):
        consumer_of(queue, tag=b"\1%d" % tag)
    for number in range(READS):
        deliveries = enqueue(queue, read(number), range(READ_MESSAGES))
        assert len(deliveries) == 5
        parts = [(each, 0, 4) for each in deliveries if each.span.indexes[0] != 8]
        give_back(queue, queue.settle, parts)
    check(queue, [(number, index) for number in range(READS) for index in range(8, 12)])


def test_messages_of_a_consumer_without_acks_are_not_kept_for_one_that_does_not_ack() -> None:
    queue = queue_of()
    for tag, no_ack in enumerate((True, True, True, True, True, False)):
        consumer_of(queue, no_ack, b"\1%d" % tag)
    held = []
    for number in range(READS):
        for each in enqueue(queue, read(number), range(READ_MESSAGES)):
            assert each.consumer is not None
            if not each.consumer.no_ack:
                held += [(number, index) for index in each.span.indexes]
    check(queue, held)


def test_messages_from_the_journal_do_not_keep_its_record() -> None:
    queue = queue_of()
    runs = [
        (read(number), array("I", [2, 11]), 1 + number * READ_MESSAGES, 0, 0, 0)
        for number in range(READS)
    ]
    refill(queue, runs)  # type: ignore[arg-type]
    queue.sweep_all()
    check(queue, [(number, index) for number in range(READS) for index in (2, 11)])
    assert kept_bytes(queue) <= READS * (2 * 1_200 + 100)


def test_each_priority_of_a_read_is_kept_without_the_others() -> None:
    queue = queue_of(table_of({"x-max-priority": 5}))
    consumer_of(queue)
    deliveries = [
        delivery
        for number in range(READS)
        for delivery in enqueue(queue, read(number), range(READ_MESSAGES))
    ]
    assert len(deliveries) >= 3 * READS
    while deliveries:
        delivery = deliveries.pop()
        for at, index in enumerate(delivery.span.indexes):
            if index != 6:
                give_back(queue, queue.settle, [(delivery, at, at + 1)])
    check(queue, [(number, 6) for number in range(READS)])
    queue.channel_down("a", Effects())
    check(queue, [(number, 6) for number in range(READS)])


def test_rows_that_expire_at_other_times_share_a_copy() -> None:
    queue = queue_of(table_of({"x-message-ttl": 1_000_000}))
    queue.now_ms = 1
    for number in range(READS):
        batch = read(number)
        batch.ttls_ms = array("Q", [100 + 10 * index for index in range(READ_MESSAGES)])
        enqueue(queue, batch, array("I", [4, 9, 14]))
    check(queue, [(number, index) for number in range(READS) for index in (4, 9, 14)])
    old = [span.batch for span in queue.ready][: READS // 4 * 3]
    assert len(set(old)) == len(old) // 3
    assert all(batch.excerpted is not None for batch in old)
    queue.now_ms = 1 + 190
    effects = Effects()
    queue.dispatch(effects)
    # At the head of the queue only: index 9 expires behind index 4, and 14 keeps all others back.
    assert effects.settled_entries == [(1, 1), (2, 2)]


def test_expired_or_dropped_messages_are_not_kept_with_those_that_stay() -> None:
    messages = queue_of()
    messages.now_ms = 1
    for number in range(READS):
        batch = read(number)
        batch.ttls_ms = array("Q", [5] * (READ_MESSAGES - 1) + [TTL_NONE])
        consumer_of(messages)
        # The last one is out with a consumer that does not ack, the others expire.
        [*_, delivery] = enqueue(messages, batch, range(READ_MESSAGES))
        messages.consumers.remove("a", b"\1t")
        give_back(messages, messages.requeue, [(delivery, 0, 1)])
        messages.channel_down("a", Effects())
        messages.now_ms += 10
        messages.dispatch(Effects())
        messages.sweep_if_due()
        consumer_of(messages)
        messages.dispatch(Effects())
        messages.consumers.remove("a", b"\1t")
    check(messages, [(number, READ_MESSAGES - 1) for number in range(READS)])
