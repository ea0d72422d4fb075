"""Deferred messages of one queue, case by case; in any order they are in the combinations."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
from batches import numbered, sized
from dashed import dashed
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.construction import equip, make_queue, refill
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.deferral import DUE_ROWS_MAX, Deferral
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.rules import Effects, MessageQueue
from leveret.core.queue.span import ExpiringSpan, Span

WINDOW = 1 << 30
NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def queue_with(**arguments: object) -> MessageQueue:
    named = dashed(arguments)
    queue = make_queue("q", True, table_of(named), WINDOW)
    queue.now_ms = NOW_MS
    return queue


def consumer_on(queue: MessageQueue, prefetch: int = 0) -> Consumer:
    consumer = Consumer("c", b"\1t", prefetch, ChannelCredit(), False, False)
    queue.add_consumer(consumer)
    return consumer


def publish(
    queue: MessageQueue,
    count: int,
    delays_ms: int | Sequence[int] = 0,
    properties: Properties | None = None,
) -> Effects:
    effects = Effects()
    batch = numbered(count) if properties is None else numbered(count, properties)
    queue.publish(batch, range(count), effects, delays_ms=delays_ms)
    return effects


def got(queue: MessageQueue) -> Delivery:
    delivery = queue.get("c", False, Effects())
    assert delivery is not None
    return delivery


def requeue(queue: MessageQueue, delivery: Delivery, delay_ms: int | None = None) -> Effects:
    effects = Effects()
    queue.requeue("c", [(delivery, 0, len(delivery.span))], effects, delay_ms)
    return effects


def at(queue: MessageQueue, elapsed_ms: int) -> Effects:
    """So much later than at the beginning: the queue is woken."""
    queue.uptime_ms = elapsed_ms
    queue.now_ms = NOW_MS + elapsed_ms
    effects = Effects()
    queue.expire(effects)
    return effects


def entries(spans: Sequence[Span]) -> list[int]:
    return [
        each
        for span in spans
        for each in range(span.first_entry_id, span.first_entry_id + len(span))
    ]


def ready(queue: MessageQueue) -> list[int]:
    return entries(list(queue.ready))


def dead(effects: Effects) -> list[tuple[list[int], str]]:
    return [(entries([span]), reason) for span, reason in effects.dead]


# --- Coming back


def test_a_requeued_message_is_ready_again_when_its_delay_is_over_and_not_before() -> None:
    queue = queue_with(x_requeue_delay=500)
    publish(queue, 1)
    effects = requeue(queue, got(queue))
    assert effects.deferred_entries == [(1, 1, NOW_MS + 500)]
    assert (queue.counts(), queue.deferred_count, queue.wait_ms()) == ((0, 0, 0), 1, 500)
    assert at(queue, 499).due is None
    assert queue.counts()[0] == 0
    assert entries(at(queue, 500).due or []) == [1]
    assert (queue.counts(), queue.deferred_count, queue.wait_ms()) == ((1, 0, 0), 0, None)
    assert got(queue).attempts == 2


def test_the_delay_doubles_with_each_delivery_up_to_the_maximum() -> None:
    queue = queue_with(x_requeue_delay=100, x_requeue_delay_max=350)
    publish(queue, 1)
    now_ms = 0
    for delay_ms in (100, 200, 350, 350):
        requeue(queue, got(queue))
        assert queue.wait_ms() == delay_ms
        now_ms += delay_ms
        at(queue, now_ms)


@pytest.mark.parametrize(("delay_ms", "longest_ms"), [(1000, HOUR_MS), (2 * HOUR_MS, 2 * HOUR_MS)])
def test_without_a_maximum_the_delay_grows_to_an_hour_or_not_at_all(
    delay_ms: int, longest_ms: int
) -> None:
    part = Deferral(delay_ms)
    assert part.delay_ms(1) == delay_ms
    assert part.delay_ms(30) == part.delay_ms(100_000) == longest_ms


def test_messages_of_a_channel_that_ends_are_ready_at_once() -> None:
    queue = queue_with(x_requeue_delay=500)
    publish(queue, 1)
    got(queue)
    queue.channel_down("c", Effects())
    assert (queue.counts()[0], queue.deferred_count) == (1, 0)


def test_a_message_that_timed_out_in_flight_is_deferred() -> None:
    queue = queue_with(x_requeue_delay=500, x_in_flight_timeout=100)
    publish(queue, 1)
    got(queue)
    assert queue.wait_ms() == 100
    effects = at(queue, 100)
    assert effects.deferred_entries == [(1, 1, NOW_MS + 600)]
    assert queue.wait_ms() == 500
    assert at(queue, 599).due is None
    assert at(queue, 600).due is not None


def test_the_delivery_limit_is_judged_before_a_message_is_deferred() -> None:
    queue = queue_with(x_requeue_delay=500, x_delivery_limit=1)
    publish(queue, 1)
    requeue(queue, got(queue))
    at(queue, 500)
    effects = requeue(queue, got(queue))
    assert dead(effects) == [([1], "delivery_limit")]
    assert (effects.deferred_entries, queue.deferred_count) == (None, 0)


def test_a_caller_s_delay_goes_before_the_queue_s_own() -> None:
    queue = queue_with(x_requeue_delay=500)
    publish(queue, 2)
    requeue(queue, got(queue), delay_ms=70)
    assert queue.wait_ms() == 70
    requeue(queue, got(queue), delay_ms=0)
    assert (queue.counts()[0], queue.deferred_count) == (1, 1)


def test_a_queue_without_the_argument_defers_for_a_caller() -> None:
    queue = queue_with()
    assert not queue.needs_clock
    publish(queue, 1)
    delivery = got(queue)
    requeue(queue, delivery, delay_ms=70)
    assert (queue.needs_clock, queue.deferred_count) == (True, 1)
    at(queue, 70)
    # Without another delay nothing is deferred.
    requeue(queue, got(queue))
    assert queue.counts()[0] == 1


# --- Coming in


def test_new_messages_are_deferred_by_their_own_delays() -> None:
    queue = queue_with()
    effects = publish(queue, 4, array("Q", [0, 50, 50, 20]))
    assert ready(queue) == [1]
    assert effects.appended is not None
    assert list(effects.appended[1]) == [1, 2, 3, 4]
    assert effects.due_times == array("Q", [0, NOW_MS + 50, NOW_MS + 50, NOW_MS + 20])
    assert (queue.deferred_count, queue.wait_ms()) == (3, 20)
    at(queue, 20)
    assert ready(queue) == [1, 4]
    at(queue, 50)
    assert ready(queue) == [1, 2, 3, 4]


def test_one_delay_for_all_is_one_due_time_for_the_journal() -> None:
    effects = publish(queue_with(), 3, 40)
    assert effects.due_times == NOW_MS + 40


def test_a_due_message_goes_before_those_that_came_behind_it() -> None:
    queue = queue_with()
    publish(queue, 1)
    publish(queue, 2, 30)
    publish(queue, 1)
    at(queue, 30)
    assert ready(queue) == [1, 2, 3, 4]
    assert [got(queue).span.first_entry_id for _ in range(4)] == [1, 2, 3, 4]


def test_a_due_message_goes_to_the_place_of_its_priority() -> None:
    queue = queue_with(x_max_priority=5)
    high, low = Properties(delivery_mode=2, priority=4), Properties(delivery_mode=2, priority=1)
    publish(queue, 1, 30, low)
    publish(queue, 1, 30, high)
    publish(queue, 1, properties=low)
    publish(queue, 1, properties=high)
    at(queue, 30)
    assert [got(queue).span.first_entry_id for _ in range(4)] == [2, 4, 1, 3]


def test_a_deferred_message_is_delivered_when_it_is_due() -> None:
    queue = queue_with()
    consumer = consumer_on(queue)
    effects = publish(queue, 2, array("Q", [0, 30]))
    assert [(each, len(spans)) for each, spans in effects.delivered] == [(consumer, 1)]
    (run,) = at(queue, 30).delivered
    assert [each.span.first_entry_id for each in run[1]] == [2]


# --- Limits and expiry


def test_deferred_messages_count_and_the_one_due_last_leaves_behind_the_ready_ones() -> None:
    queue = queue_with(x_max_length=3)
    publish(queue, 3, array("Q", [90, 0, 30]))
    assert dead(publish(queue, 1, 60)) == [([2], "maxlen")]
    assert dead(publish(queue, 1, 20)) == [([1], "maxlen")]
    assert dead(publish(queue, 1)) == [([6], "maxlen")]
    assert queue.deferred_count == 3


def test_bodies_of_deferred_messages_count() -> None:
    queue = queue_with(x_max_length_bytes=10)
    effects = Effects()
    queue.publish(sized([(6, True)]), range(1), effects, delays_ms=50)
    queue.publish(sized([(4, True)]), range(1), effects)
    assert not effects.dead
    queue.publish(sized([(1, True)]), range(1), effects)
    assert dead(effects) == [([2], "maxlen")]
    at(queue, 50)
    queue.publish(sized([(4, True)]), range(1), effects)
    assert dead(effects) == [([2], "maxlen"), ([1], "maxlen")]


def test_a_full_queue_of_deferred_messages_rejects_publishes() -> None:
    queue = queue_with(x_max_length=2, x_overflow="reject-publish")
    effects = publish(queue, 3, 50)
    assert (list(effects.rejected or ()), queue.deferred_count) == ([2], 2)
    assert effects.due_times == NOW_MS + 50
    assert list(publish(queue, 1).rejected or ()) == [0]
    at(queue, 50)
    assert list(publish(queue, 1).rejected or ()) == [0]


def test_a_deferred_message_expires_on_time() -> None:
    queue = queue_with(x_message_ttl=40)
    publish(queue, 2, array("Q", [100, 10]))
    at(queue, 10)
    assert dead(at(queue, 40)) == [([1], "expired"), ([2], "expired")]
    assert (queue.deferred_count, queue.wait_ms()) == (0, None)


def test_a_message_with_an_expiration_of_its_own_expires_while_it_is_deferred() -> None:
    queue = queue_with()
    batch = numbered(1)
    batch.ttls_ms = array("Q", [30])
    queue.publish(batch, range(1), Effects(), delays_ms=100)
    assert queue.wait_ms() == 30
    assert dead(at(queue, 30)) == [([1], "expired")]


# --- Leaving


def test_a_purge_removes_deferred_messages() -> None:
    queue = queue_with(x_max_length_bytes=1000)
    publish(queue, 3, array("Q", [0, 50, 50]))
    effects = Effects()
    assert queue.purge(effects) == 3
    assert effects.settled_entries == [(1, 1), (2, 3)]
    assert (queue.deferred_count, queue.wait_ms()) == (0, None)
    assert at(queue, 50).due is None


def test_what_the_disk_has_no_room_for_is_not_deferred_any_more() -> None:
    queue = queue_with()
    publish(queue, 5, 50)
    queue.withdraw(range(2, 4))
    assert queue.deferred_count == 3
    assert entries(at(queue, 50).due or []) == [1, 4, 5]


# --- Arguments, restarts, clocks


def test_deferred_messages_stay_deferred_when_the_argument_goes_or_changes() -> None:
    queue = queue_with(x_requeue_delay=500)
    publish(queue, 1)
    requeue(queue, got(queue))
    equip(queue, table_of({"x-requeue-delay": 7}), WINDOW)
    assert (queue.deferred_count, queue.wait_ms()) == (1, 500)
    equip(queue, {}, WINDOW)
    assert (queue.deferred_count, queue.wait_ms()) == (1, 500)
    at(queue, 500)
    requeue(queue, got(queue))
    assert queue.counts()[0] == 1
    equip(queue, {}, WINDOW)
    assert not queue.needs_clock


def test_a_new_limit_counts_deferred_messages() -> None:
    queue = queue_with()
    publish(queue, 3, array("Q", [10, 30, 20]))
    equip(queue, table_of({"x-max-length": 1}), WINDOW)
    effects = Effects()
    queue.dispatch(effects)
    assert dead(effects) == [([2], "maxlen"), ([3], "maxlen")]


def test_a_new_delivery_limit_sends_deferred_messages_away() -> None:
    queue = queue_with(x_requeue_delay=500)
    publish(queue, 1)
    requeue(queue, got(queue))
    equip(queue, table_of({"x-requeue-delay": 500, "x-delivery-limit": 0}), WINDOW)
    effects = Effects()
    queue.dispatch(effects)
    assert dead(effects) == [([1], "delivery_limit")]
    assert queue.deferred_count == 0


def test_after_a_restart_a_message_is_deferred_for_the_rest_of_its_time() -> None:
    queue = queue_with()
    queue.uptime_ms = 77
    batch = numbered(5)
    due_times = array("Q", [NOW_MS - 1, NOW_MS + HOUR_MS, 0])
    runs = [(batch, range(3), 4, 2, 0, due_times), (batch, range(3, 5), 7, 0, 0, NOW_MS + 50)]
    refill(queue, runs)  # type: ignore[arg-type]
    assert (ready(queue), queue.deferred_count) == ([4, 6], 3)
    assert queue.wait_ms() == 50
    assert entries(at(queue, 77 + HOUR_MS).due or []) == [7, 8, 5]
    assert [(each.first_entry_id, each.attempts) for each in queue.ready] == [
        (4, 2),
        (5, 2),
        (6, 2),
        (7, 0),
    ]


def test_a_step_of_the_wall_clock_neither_delays_nor_hurries() -> None:
    queue = queue_with(x_requeue_delay=500)
    publish(queue, 1)
    requeue(queue, got(queue))
    for wall_ms in (NOW_MS + 10 * HOUR_MS, NOW_MS - 10 * HOUR_MS):
        queue.now_ms, queue.uptime_ms = wall_ms, 499
        effects = Effects()
        queue.expire(effects)
        assert (effects.due, queue.wait_ms()) == (None, 1)
    queue.uptime_ms = 500
    queue.expire(effects)
    assert queue.counts()[0] == 1


# --- Costs


def test_many_due_rows_become_ready_in_turns() -> None:
    queue = queue_with()
    count = DUE_ROWS_MAX + 5
    publish(queue, count, [10 + index % 2 for index in range(count)])
    at(queue, 20)
    assert (queue.counts()[0], queue.wait_ms()) == (DUE_ROWS_MAX, 0)
    at(queue, 20)
    assert (queue.counts()[0], queue.deferred_count) == (count, 0)


def test_rows_that_have_left_do_not_pile_up() -> None:
    part = Deferral()
    batch = numbered(1)
    for entry in range(1, 2001):
        part.add(Span(batch, range(1), entry, 0, True), due_ms=1_000_000 + entry)
        assert part.dequeue(1).first_entry_id == entry
    assert (part.message_count, part.next_due_ms()) == (0, None)
    for entry in range(2001, 4001):
        part.add(Span(batch, range(1), entry, 0, True), due_ms=entry)
        assert len(part.due(entry)) == 1
    assert part.noted_rows <= 200


def test_deadlines_of_rows_that_were_due_do_not_pile_up() -> None:
    part = Deferral()
    batch = numbered(1)
    for entry in range(1, 2001):
        part.add(ExpiringSpan(batch, range(1), entry, 0, True, 1_000_000), due_ms=entry)
        assert len(part.due(entry)) == 1
    assert part.noted_rows <= 200
