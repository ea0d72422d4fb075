"""Many messages in flight: each returns at its own deadline, and waking costs what is due."""

from __future__ import annotations

import gc
import sys
from random import Random

from batches import numbered
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.construction import make_queue
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.rules import Effects, MessageQueue

WINDOW = 1 << 40
COUNT = 100_000
AT_ONCE = 50
CONSUMERS = 200
# None is over before all are in flight.
TIMEOUT_MS_MIN = 20_000
TIMEOUT_MS_MAX = 60_000
# Of those that are due together, whatever else is in flight.
DUE = 50


def queue_with_consumers(timeouts_ms: list[int], prefetch: int) -> MessageQueue:
    """A consumer for each of these times. None that has stalled gets more than its prefetch."""
    queue = make_queue("q", True, table_of({}), WINDOW)
    for number, timeout_ms in enumerate(timeouts_ms):
        consumer = Consumer(
            f"channel {number}",
            b"\1c",
            prefetch,
            ChannelCredit(),
            False,
            False,
            in_flight_timeout_ms=timeout_ms,
        )
        queue.add_consumer(consumer)
    return queue


def test_each_of_100_000_returns_at_its_deadline_by_the_clock(seed: int) -> None:
    chosen = Random(seed)
    timeouts_ms = [chosen.randint(TIMEOUT_MS_MIN, TIMEOUT_MS_MAX) for _ in range(CONSUMERS)]
    queue = queue_with_consumers(timeouts_ms, COUNT // CONSUMERS)
    due_ms: dict[int, int] = {}
    returned = 0

    def wake() -> None:
        nonlocal returned
        effects = Effects()
        queue.expire(effects)
        for _, delivery, low, high in effects.timed_out or ():
            first = delivery.span.first_entry_id
            for entry in range(first + low, first + high):
                assert due_ms.pop(entry) == queue.uptime_ms
                returned += 1
        assert not effects.delivered

    def pass_time(until_ms: int) -> None:
        """To each moment that the queue asks for, and no other."""
        while (wait_ms := queue.wait_ms()) is not None and queue.uptime_ms + wait_ms <= until_ms:
            queue.uptime_ms += wait_ms
            wake()
        queue.uptime_ms = until_ms

    batch = numbered(AT_ONCE)
    for _ in range(0, COUNT, AT_ONCE):
        pass_time(queue.uptime_ms + chosen.choice((0, 0, 1, 4)))
        effects = Effects()
        queue.publish(batch, range(AT_ONCE), effects)
        for consumer, deliveries in effects.delivered:
            assert consumer.in_flight_timeout_ms is not None
            over_ms = queue.uptime_ms + consumer.in_flight_timeout_ms
            for delivery in deliveries:
                first = delivery.span.first_entry_id
                due_ms.update(dict.fromkeys(range(first, first + len(delivery.span)), over_ms))
    assert len(due_ms) == queue.in_flight.message_count == COUNT
    pass_time(queue.uptime_ms + TIMEOUT_MS_MAX)
    assert (returned, due_ms) == (COUNT, {})
    assert queue.counts() == (COUNT, CONSUMERS, 0)


def calls_of_wake(in_flight: int) -> int:
    """How many functions are called to return DUE messages beside so many that are not due."""
    queue = queue_with_consumers([100, TIMEOUT_MS_MAX], 0)
    first, second = queue.consumers.all()
    # Message by message, each a delivery of its own.
    second.prefetch = 1
    first.prefetch = DUE
    second.in_flight = 1
    for _ in range(DUE):
        queue.publish(numbered(1), range(1), Effects())
    assert queue.in_flight.message_count == DUE
    first.prefetch, second.prefetch = DUE, in_flight + 1
    second.get_back(1)
    queue.consumers.changed(second)
    batch = numbered(1)
    for _ in range(in_flight):
        queue.publish(batch, range(1), Effects())
    assert queue.in_flight.message_count == in_flight + DUE
    queue.uptime_ms = 100
    effects = Effects()
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    # A collection would call back whoever asked for that, as Hypothesis does.
    gc.disable()
    sys.setprofile(count)
    try:
        queue.expire(effects)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert len(effects.timed_out or ()) == DUE
    return calls


def test_waking_costs_what_is_due_and_not_what_is_in_flight() -> None:
    few, many = calls_of_wake(100), calls_of_wake(10_000)
    assert few == many
    assert few < 60 * DUE
