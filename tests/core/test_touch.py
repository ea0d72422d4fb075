"""Touches of one queue: which deadline a delivery has, and for which of its messages."""

from __future__ import annotations

from batches import numbered
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.connection.reading_time import Pause, ReadingTime
from leveret.core.queue.construction import equip, make_queue
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.in_flight_timeouts import NOTED_MIN
from leveret.core.queue.rules import Effects, MessageQueue

WINDOW = 1 << 30
TIMEOUT_MS = 500
MAX_MS = 1200


def make(timeout_ms: int | None = TIMEOUT_MS) -> MessageQueue:
    arguments = {} if timeout_ms is None else {"x-in-flight-timeout": timeout_ms}
    return make_queue("q", True, table_of(arguments), WINDOW)


def deliver(queue: MessageQueue, count: int, reading: ReadingTime | None = None) -> Delivery:
    """Messages to a consumer that wants no more than these."""
    consumer = Consumer("c", b"\1t", count, ChannelCredit(reading=reading), False, False)
    queue.add_consumer(consumer)
    effects = Effects()
    queue.publish(numbered(count), range(count), effects)
    [(_, [delivery])] = effects.delivered
    return delivery


def touch(
    queue: MessageQueue, delivery: Delivery, low: int, high: int, max_ms: int = MAX_MS
) -> list[tuple[int, int, int]]:
    touched = queue.touch("c", [(delivery, low, high)], max_ms)
    return [(low, high, due_ms) for _, low, high, due_ms in touched]


def wake(queue: MessageQueue, uptime_ms: int) -> list[tuple[int, int]]:
    """The positions that time out by then."""
    queue.uptime_ms = uptime_ms
    effects = Effects()
    queue.expire(effects)
    return [(low, high) for _, _, low, high in effects.timed_out or ()]


def test_a_touch_lets_the_time_of_a_message_begin_anew() -> None:
    queue = make()
    delivery = deliver(queue, 1)
    queue.uptime_ms = 300
    assert touch(queue, delivery, 0, 1) == [(0, 1, 800)]
    assert queue.wait_ms() == 500
    assert wake(queue, 799) == []
    assert wake(queue, 800) == [(0, 1)]


def test_a_touch_is_for_the_messages_that_it_names_and_for_no_others_of_their_delivery() -> None:
    queue = make()
    delivery = deliver(queue, 5)
    queue.uptime_ms = 300
    touch(queue, delivery, 1, 3)
    assert queue.wait_ms() == 200
    assert wake(queue, 500) == [(0, 1), (3, 5)]
    queue.uptime_ms = 600
    touch(queue, delivery, 2, 3)
    assert wake(queue, 800) == [(1, 2)]
    assert wake(queue, 1100) == [(2, 3)]
    assert queue.wait_ms() is None


def test_touches_reach_no_further_than_the_maximum_behind_the_delivery() -> None:
    queue = make()
    delivery = deliver(queue, 1)
    for uptime_ms, due_ms in ((400, 900), (800, 1200), (1100, 1200)):
        assert wake(queue, uptime_ms) == []
        assert touch(queue, delivery, 0, 1) == [(0, 1, due_ms)]
    assert wake(queue, 1199) == []
    assert wake(queue, 1200) == [(0, 1)]


def test_a_time_out_that_is_longer_than_the_maximum_is_not_made_shorter() -> None:
    queue = make()
    delivery = deliver(queue, 1)
    queue.uptime_ms = 100
    assert touch(queue, delivery, 0, 1, max_ms=1) == [(0, 1, 500)]


def test_a_touch_behind_the_time_out_does_nothing() -> None:
    queue = make()
    delivery = deliver(queue, 2)
    assert wake(queue, 500) == [(0, 2)]
    assert touch(queue, delivery, 0, 2) == []
    assert queue.counts() == (2, 1, 0)


def test_of_touched_messages_the_answered_ones_have_no_deadline() -> None:
    queue = make()
    delivery = deliver(queue, 3)
    queue.uptime_ms = 100
    touch(queue, delivery, 0, 3)
    queue.settle("c", [(delivery, 1, 2)], Effects())
    assert touch(queue, delivery, 0, 3) == [(0, 1, 600), (2, 3, 600)]
    assert wake(queue, 600) == [(0, 1), (2, 3)]


def test_a_queue_without_a_time_out_is_touched_without_effect() -> None:
    queue = make(None)
    delivery = deliver(queue, 1)
    assert touch(queue, delivery, 0, 1) == []
    assert not queue.needs_clock


def test_messages_that_another_channel_holds_are_not_touched() -> None:
    queue = make()
    delivery = deliver(queue, 1)
    queue.uptime_ms = 100
    assert queue.touch("other", [(delivery, 0, 1)], MAX_MS) == []
    assert wake(queue, 500) == [(0, 1)]


def test_the_maximum_and_the_new_time_stand_still_while_the_connection_is_not_read() -> None:
    queue = make()
    reading = ReadingTime()
    delivery = deliver(queue, 1, reading)
    queue.uptime_ms = 100
    reading.pause(100, Pause.ALARM)
    reading.resume(1100)
    queue.uptime_ms = 1150
    assert touch(queue, delivery, 0, 1) == [(0, 1, 1650)]
    reading.pause(1200, Pause.ALARM)
    reading.resume(1500)
    assert wake(queue, 1650) == []
    queue.uptime_ms = 1940
    # The maximum is 1,200 ms of being read, of which the pauses leave 1,300 out.
    assert touch(queue, delivery, 0, 1) == [(0, 1, 2440)]
    queue.uptime_ms = 2400
    assert touch(queue, delivery, 0, 1) == [(0, 1, 2500)]
    assert wake(queue, 2499) == []
    assert wake(queue, 2500) == [(0, 1)]


def test_touched_messages_keep_their_deadlines_when_the_argument_goes() -> None:
    queue = make()
    delivery = deliver(queue, 2)
    queue.uptime_ms = 100
    touch(queue, delivery, 0, 1)
    equip(queue, table_of({}), WINDOW)
    assert wake(queue, 500) == [(1, 2)]
    assert touch(queue, delivery, 0, 1) == [(0, 1, 1000)]
    assert wake(queue, 1000) == [(0, 1)]


def test_touches_do_not_pile_up_until_their_time_is_over() -> None:
    queue = make(60_000)
    delivery = deliver(queue, 10)
    timeouts = queue.in_flight_timeouts
    assert timeouts is not None
    for step in range(100 * NOTED_MIN):
        queue.uptime_ms = step
        touch(queue, delivery, step % 10, step % 10 + 1, max_ms=1_000_000)
        assert len(timeouts) <= 2 * NOTED_MIN
    # The last touches of all ten count.
    last = 100 * NOTED_MIN - 1
    assert wake(queue, last - 10 + 60_000) == []
    assert len(wake(queue, last + 60_000)) == 10
