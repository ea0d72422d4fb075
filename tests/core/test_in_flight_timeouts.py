"""The in-flight time-out of one queue, case by case; in any order it is in the combinations."""

from __future__ import annotations

from batches import numbered
from dashed import dashed
from holding import parts
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.connection.reading_time import Pause, ReadingTime
from leveret.core.queue.construction import equip, make_queue
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.in_flight_timeouts import NOTED_MIN
from leveret.core.queue.rules import TIMED_OUT_MAX, Effects, MessageQueue

WINDOW = 1 << 30


def queue_with(**arguments: object) -> MessageQueue:
    named = dashed(arguments)
    return make_queue("q", True, table_of(named), WINDOW)


def consumer_on(
    queue: MessageQueue,
    channel: str = "c",
    prefetch: int = 0,
    timeout_ms: int | None = None,
    reading: ReadingTime | None = None,
) -> Consumer:
    credit = ChannelCredit(reading=reading)
    consumer = Consumer(
        channel, b"\1t", prefetch, credit, False, False, in_flight_timeout_ms=timeout_ms
    )
    queue.add_consumer(consumer)
    return consumer


def publish(queue: MessageQueue, count: int) -> list[Delivery]:
    effects = Effects()
    queue.publish(numbered(count), range(count), effects)
    return delivered(effects)


def delivered(effects: Effects) -> list[Delivery]:
    return [each for _, deliveries in effects.delivered for each in deliveries]


def wake(queue: MessageQueue, uptime_ms: int) -> Effects:
    queue.uptime_ms = uptime_ms
    effects = Effects()
    queue.expire(effects)
    return effects


def settle(queue: MessageQueue, delivery: Delivery, low: int, high: int) -> Effects:
    effects = Effects()
    queue.settle("c", [(delivery, low, high)], effects)
    return effects


def test_only_messages_not_answered_in_time_come_back_at_their_deadline() -> None:
    queue = queue_with(x_in_flight_timeout=500)
    consumer_on(queue, prefetch=4)
    (delivery,) = publish(queue, 4)
    settle(queue, delivery, 1, 2)
    assert queue.wait_ms() == 500
    assert wake(queue, 499).timed_out is None
    effects = wake(queue, 500)
    assert effects.timed_out == [("c", delivery, 0, 1), ("c", delivery, 2, 4)]
    # The one that was answered has made room for one of them.
    (again,) = delivered(effects)
    assert (again.span.first_entry_id, again.attempts) == (1, 2)
    assert [(each.first_entry_id, len(each), each.attempts) for each in queue.ready] == [(3, 2, 1)]


def test_a_stalled_consumer_holds_its_prefetch_once() -> None:
    queue = queue_with(x_in_flight_timeout=500)
    stalled = consumer_on(queue, prefetch=2)
    publish(queue, 5)
    for uptime_ms in (500, 1000, 1500):
        assert not delivered(wake(queue, uptime_ms))
    assert stalled.in_flight == 2
    assert queue.counts() == (5, 1, 0)


def test_a_late_answer_gives_credit_back_and_has_no_other_effect() -> None:
    queue = queue_with(x_in_flight_timeout=500)
    consumer = consumer_on(queue, prefetch=2)
    (delivery,) = publish(queue, 2)
    wake(queue, 500)
    effects = settle(queue, delivery, 0, 2)
    assert effects.late == [(delivery, 0, 2)]
    assert not effects.settled_entries
    (again,) = delivered(effects)
    assert again.attempts == 2
    assert consumer.in_flight == 2
    assert settle(queue, again, 0, 2).settled_entries == [(1, 2)]
    assert (consumer.in_flight, queue.counts()) == (0, (0, 1, 0))


def test_a_second_late_answer_gives_nothing_back() -> None:
    queue = queue_with(x_in_flight_timeout=500)
    consumer = consumer_on(queue, prefetch=2)
    (delivery,) = publish(queue, 2)
    wake(queue, 500)
    settle(queue, delivery, 0, 2)
    assert settle(queue, delivery, 0, 2).late is None
    assert consumer.in_flight == 2


def test_a_consumer_has_a_time_of_its_own_on_any_queue() -> None:
    queue = queue_with()
    assert not queue.needs_clock
    consumer_on(queue, timeout_ms=100, prefetch=1)
    assert queue.needs_clock
    consumer_on(queue, "other", prefetch=1)
    publish(queue, 2)
    effects = wake(queue, 1_000_000)
    assert [channel for channel, *_ in effects.timed_out or ()] == ["c"]
    assert queue.in_flight.message_count == 1


def test_the_time_of_a_consumer_goes_before_that_of_its_queue() -> None:
    queue = queue_with(x_in_flight_timeout=100)
    consumer_on(queue, timeout_ms=900, prefetch=1)
    publish(queue, 1)
    assert queue.wait_ms() == 900


def test_basic_get_has_the_deadline_of_the_queue() -> None:
    queue = queue_with(x_in_flight_timeout=100)
    publish(queue, 1)
    got = queue.get("c", False, Effects())
    assert got is not None
    assert wake(queue, 100).timed_out == [("c", got, 0, 1)]
    assert queue.counts() == (1, 0, 0)


def test_messages_that_came_back_with_their_channel_do_not_time_out() -> None:
    queue = queue_with(x_in_flight_timeout=100)
    consumer_on(queue)
    publish(queue, 3)
    queue.channel_down("c", Effects())
    assert queue.wait_ms() is None
    assert wake(queue, 100).timed_out is None
    assert queue.counts() == (3, 0, 0)


def test_while_its_connection_is_not_read_a_deadline_stands_still() -> None:
    reading = ReadingTime()
    queue = queue_with(x_in_flight_timeout=100)
    consumer_on(queue, reading=reading)
    reading.pause(0, Pause.ALARM)
    reading.resume(70)
    queue.uptime_ms = 70
    publish(queue, 1)
    reading.pause(90, Pause.ALARM)
    assert wake(queue, 170).timed_out is None
    # It was read for 20 ms, and looks again when the pause so far would have been all.
    assert queue.wait_ms() == 80
    reading.resume(300)
    assert wake(queue, 250).timed_out is None
    assert wake(queue, 379).timed_out is None
    assert wake(queue, 380).timed_out is not None


def test_a_delivery_limit_holds_for_time_outs() -> None:
    queue = queue_with(x_in_flight_timeout=100, x_delivery_limit=1)
    consumer_on(queue)
    (first,) = publish(queue, 1)
    effects = wake(queue, 100)
    (again,) = delivered(effects)
    assert (first.attempts, again.attempts) == (1, 2)
    assert [reason for _, reason in wake(queue, 200).dead] == ["delivery_limit"]
    assert queue.counts() == (0, 1, 0)


def test_deliveries_keep_their_deadline_when_the_argument_goes_or_changes() -> None:
    queue = queue_with(x_in_flight_timeout=100)
    consumer_on(queue, prefetch=1)
    publish(queue, 2)
    equip(queue, table_of({"x-in-flight-timeout": 5000}), WINDOW)
    assert queue.wait_ms() == 100
    equip(queue, table_of({}), WINDOW)
    assert queue.wait_ms() == 100
    assert len(wake(queue, 100).timed_out or ()) == 1
    equip(queue, table_of({}), WINDOW)
    assert queue.wait_ms() is None


def test_an_answer_that_comes_when_the_argument_has_gone_gives_credit_back() -> None:
    queue = queue_with(x_in_flight_timeout=100)
    consumer = consumer_on(queue, prefetch=1)
    (delivery,) = publish(queue, 1)
    wake(queue, 100)
    equip(queue, table_of({}), WINDOW)
    (again,) = delivered(settle(queue, delivery, 0, 1))
    settle(queue, again, 0, 1)
    assert consumer.in_flight == 0


def test_a_queue_that_never_had_a_time_out_has_no_part_left_of_it() -> None:
    queue = queue_with(x_in_flight_timeout=100)
    equip(queue, table_of({}), WINDOW)
    assert not queue.needs_clock


def test_more_than_others_can_wait_for_time_out_bit_by_bit() -> None:
    queue = queue_with(x_in_flight_timeout=100)
    consumer_on(queue, prefetch=0)
    for _ in range(TIMED_OUT_MAX + 1):
        publish(queue, 1)
    assert len(wake(queue, 100).timed_out or ()) == TIMED_OUT_MAX
    assert queue.wait_ms() == 0
    assert len(wake(queue, 100).timed_out or ()) == 1


def test_answered_deliveries_do_not_pile_up_until_their_time_is_over() -> None:
    queue = queue_with(x_in_flight_timeout=60_000)
    consumer_on(queue)
    assert queue.in_flight_timeouts is not None
    for _ in range(10 * NOTED_MIN):
        (delivery,) = publish(queue, 1)
        settle(queue, delivery, 0, 1)
        assert len(queue.in_flight_timeouts) <= 2 * NOTED_MIN


def test_a_delivery_that_is_answered_is_not_kept_until_its_time_is_over() -> None:
    queue = queue_with(x_in_flight_timeout=60_000)
    consumer_on(queue)
    (acked,), (left,) = publish(queue, 2), publish(queue, 1)
    assert set(parts(queue, Delivery)) == {acked, left}
    settle(queue, acked, 0, 1)
    assert set(parts(queue, Delivery)) == {acked, left}
    settle(queue, acked, 1, 2)
    assert set(parts(queue, Delivery)) == {left}
    queue.channel_down("c", Effects())
    assert not parts(queue, Delivery)
