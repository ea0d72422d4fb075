"""Expiry, case by case; in any order it is in test_queue_combinations.py."""

from __future__ import annotations

from array import array
from unittest.mock import patch

import pytest
from batches import delivered_to, numbered
from leveret.amqp_frames.messages.batch import TTL_NONE, Batch
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.construction import make_queue, refill
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.expiry import EXPIRED_ROWS_MAX, Deadlines, spans_of
from leveret.core.queue.rules import Effects, MessageQueue
from leveret.core.queue.span import ExpiringSpan

WINDOW = 1 << 30
NOW_MS = 1_700_000_000_000


def expiring(ttl_ms: int = TTL_NONE) -> MessageQueue:
    queue = MessageQueue("the queue", True, WINDOW)
    queue.compose([Deadlines(ttl_ms)])
    queue.now_ms = NOW_MS
    return queue


def with_ttls(*ttls_ms: int) -> Batch:
    batch = numbered(len(ttls_ms))
    batch.ttls_ms = array("Q", ttls_ms)
    return batch


def publish(queue: MessageQueue, batch: Batch) -> Effects:
    effects = Effects()
    queue.publish(batch, range(len(batch)), effects)
    return effects


def consume(queue: MessageQueue, prefetch: int) -> Consumer:
    consumer = Consumer("a", b"\1t", prefetch, ChannelCredit(), False, False)
    queue.consumers.add(consumer)
    return consumer


def test_messages_with_the_same_deadline_are_one_row_and_have_one_deadline_in_the_journal() -> None:
    queue = expiring(500)
    effects = publish(queue, numbered(1000))
    assert effects.deadlines == NOW_MS + 500
    assert [len(span) for span in queue.ready] == [1000]


def test_deadlines_that_differ_are_aligned_with_what_is_appended() -> None:
    batch = with_ttls(5, TTL_NONE, 7, 7)
    # The third is transient.
    batch.persistent[2] = 0
    batch.durable = array("I", [0, 1, 3])
    effects = publish(queue := expiring(), batch)
    assert effects.appended is not None
    assert list(effects.appended[1]) == [1, 2, 4]
    assert effects.deadlines == array("Q", [NOW_MS + 5, 0, NOW_MS + 7])
    assert queue.next_due_ms() == NOW_MS + 5


def test_a_queue_that_begins_to_expire_keeps_its_messages() -> None:
    arguments = table_of(
        {
            "x-queue-type": "quorum",
            "x-delivery-limit": 7,
            "x-dead-letter-exchange": "x",
            "x-max-priority": 3,
        }
    )
    queue = make_queue("the queue", True, arguments, WINDOW)
    assert not queue.needs_clock
    [limit], ready = queue.parts, queue.ready
    consumer = consume(queue, 1)
    publish(queue, numbered(3))
    queue.now_ms = NOW_MS
    publish(queue, with_ttls(0))
    assert queue.needs_clock
    assert queue.deadlines is not None
    assert queue.parts == (limit, queue.deadlines)
    assert queue.judges == (limit,)
    assert queue.dead_letters
    assert queue.consumers.all() == [consumer]
    assert queue.in_flight.message_count == 1
    assert queue.ready is ready
    assert queue.ready.message_count == 3
    queue.consumers.remove("a", b"\1t")
    queue.channel_down("a", Effects())
    # The one that came back is before the two that were ready; the third expires behind them.
    assert [each.first_entry_id for each in queue.ready] == [1, 2, 4]


def test_a_queue_with_limits_keeps_to_them_when_it_begins_to_expire() -> None:
    arguments = table_of({"x-max-length": 2, "x-overflow": "reject-publish"})
    queue = make_queue("q", True, arguments, WINDOW)
    queue.now_ms = NOW_MS
    publish(queue, numbered(1))
    effects = publish(queue, with_ttls(50, 50, 50))
    assert list(effects.rejected or ()) == [1, 2]


def test_messages_from_the_journal_expire_in_a_queue_without_arguments() -> None:
    batch = numbered(3)
    queue = MessageQueue("q", True, WINDOW)
    refill(queue, [(batch, range(1), 5, 0, 0, 0), (batch, range(1, 3), 6, 1, NOW_MS + 1, 0)])
    queue.now_ms = NOW_MS
    assert queue.next_due_ms() is None
    assert queue.get("a", True, Effects())
    assert queue.next_due_ms() == NOW_MS + 1
    queue.now_ms += 1
    effects = Effects()
    assert queue.get("a", True, effects) is None
    assert effects.settled_entries == [(6, 7)]


def test_without_deadlines_returned_messages_stay_in_a_plain_queue() -> None:
    plain = MessageQueue("q", True, WINDOW)
    refill(plain, [(numbered(2), range(2), 1, 0, 0, 0)])
    assert plain.parts == ()


@pytest.mark.parametrize(
    ("deadlines", "rows"),
    [
        (9, [(1, 4, 9)]),
        (array("Q", [9, 9, 0, 7]), [(1, 2, 9), (3, 1, 0), (4, 1, 7)]),
    ],
)
def test_rows_from_the_journal_are_as_long_as_deadlines_are_the_same(
    deadlines: int | array[int], rows: list[tuple[int, int, int]]
) -> None:
    spans = spans_of(numbered(4), range(4), 1, 2, deadlines)
    assert rows == [
        (span.first_entry_id, len(span), getattr(span, "deadline_ms", 0)) for span in spans
    ]
    assert all(span.attempts == 2 and span.stored for span in spans)


def test_a_great_many_expire_in_parts_and_none_of_them_is_delivered() -> None:
    queue = expiring()
    count = EXPIRED_ROWS_MAX + 10
    # Each another deadline, so each a row.
    publish(queue, with_ttls(*range(1, count + 1)))
    publish(queue, numbered(1))
    consume(queue, 5)
    queue.now_ms += count
    effects = Effects()
    queue.dispatch(effects)
    assert len(effects.settled_entries) == EXPIRED_ROWS_MAX
    assert effects.delivered == []
    # To be woken at once.
    assert queue.next_due_ms() == NOW_MS + EXPIRED_ROWS_MAX + 1
    # Nor does a publish in between deliver what has expired.
    effects = publish(queue, numbered(1))
    assert len(effects.settled_entries) == 10
    ((_, deliveries),) = effects.delivered
    entries = [delivery.span.first_entry_id for delivery in deliveries]
    assert entries == [count + 1, count + 2]


def test_room_that_a_publish_shows_is_not_for_expired_messages() -> None:
    arguments = table_of({"x-single-active-consumer": True, "x-message-ttl": 60_000})
    queue = make_queue("the queue", True, arguments, WINDOW)
    queue.now_ms = NOW_MS
    consumer = consume(queue, 0)
    consumer.channel_credit.set_limit(3)
    consumer.channel_credit.reserve("another queue", 3)
    publish(queue, with_ttls(TTL_NONE, 5, TTL_NONE))
    queue.now_ms += 10
    # The channel has acked what it had of another queue, and will say so.
    consumer.channel_credit.release(3)
    effects = publish(queue, with_ttls(0))
    entry_ids = [each.span.first_entry_id for each in delivered_to(effects, consumer)]
    assert entry_ids == [1, 3]
    assert effects.settled_entries == [(2, 2), (4, 4)]


def test_consumers_without_room_are_not_asked_again_because_time_has_passed() -> None:
    queue = expiring()
    consumer = consume(queue, 1)
    publish(queue, with_ttls(TTL_NONE, 5, TTL_NONE))
    assert queue.in_flight.message_count == 1
    queue.now_ms += 10
    with patch.object(Consumer, "room", side_effect=AssertionError("asked")):
        effects = Effects()
        queue.expire(effects)
    assert effects.settled_entries == [(2, 2)]
    assert consumer.place is None


def test_messages_behind_expired_ones_are_delivered() -> None:
    queue = expiring()
    publish(queue, with_ttls(*range(1, EXPIRED_ROWS_MAX + 2), TTL_NONE))
    consumer = consume(queue, 1)
    queue.now_ms += EXPIRED_ROWS_MAX + 1
    for delivered in ([], [EXPIRED_ROWS_MAX + 2]):
        effects = Effects()
        queue.expire(effects)
        found = [each.span.first_entry_id for each in delivered_to(effects, consumer)]
        assert found == delivered


def test_a_get_looks_past_all_that_has_expired() -> None:
    queue = expiring()
    count = EXPIRED_ROWS_MAX + 10
    publish(queue, with_ttls(*range(1, count + 1)))
    publish(queue, numbered(1))
    queue.now_ms += count
    effects = Effects()
    delivery = queue.get("a", False, effects)
    assert delivery is not None
    assert delivery.span.first_entry_id == count + 1
    assert len(effects.settled_entries) == count


def test_requeued_messages_keep_their_deadlines_part_by_part() -> None:
    queue = expiring(10)
    publish(queue, numbered(4))
    consumer = consume(queue, 4)
    effects = Effects()
    queue.dispatch(effects)
    (delivery,) = delivered_to(effects, consumer)
    queue.consumers.remove("a", b"\1t")
    queue.requeue("a", [(delivery, 1, 3)], Effects())
    head = queue.ready.head()
    assert isinstance(head, ExpiringSpan)
    assert (head.first_entry_id, len(head), head.deadline_ms) == (2, 2, NOW_MS + 10)
    queue.now_ms += 10
    effects = Effects()
    queue.requeue("a", [(delivery, 0, 1), (delivery, 3, 4)], effects)
    assert queue.ready.message_count == 0
    assert sorted(effects.settled_entries) == [(1, 1), (2, 3), (4, 4)]
