"""One active consumer, the others stand by: who is next.

In any order of events such queues are in test_message_queue_model.py.
"""

from __future__ import annotations

from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.construction import equip
from leveret.core.queue.consumers import Consumer, SingleActiveConsumers
from leveret.core.queue.rules import MessageQueue

WINDOW = 1000


def consumer(channel: str, priority: int = 0, *, exclusive: bool = False) -> Consumer:
    return Consumer(channel, b"\1t", 1, ChannelCredit(), False, exclusive, priority)


def next_channel(consumers: SingleActiveConsumers) -> object:
    choice = consumers.next()
    return choice and choice[0].channel


def test_the_first_is_active_whatever_comes_after_it() -> None:
    consumers = SingleActiveConsumers(WINDOW)
    first, higher = consumer("a"), consumer("b", 9)
    assert consumers.next() is None
    for each in (first, higher):
        consumers.add(each)
    assert len(consumers) == 2
    assert consumers.next() == (first, 1, 1)
    # Without room nobody gets anything, though another has.
    first.in_flight = 1
    assert consumers.next() is None
    first.in_flight = 0
    first.window_bytes = WINDOW
    assert consumers.next() is None


def test_the_highest_priority_is_next_and_of_equals_the_oldest() -> None:
    consumers = SingleActiveConsumers(WINDOW)
    for name, priority in (("a", 0), ("b", 1), ("c", 5), ("d", 5), ("e", 1)):
        consumers.add(consumer(name, priority))
    order = []
    while (name := next_channel(consumers)) is not None:
        order.append(name)
        removed = consumers.remove(name, b"\1t")
        assert removed is not None
        assert removed.channel == name
    assert order == ["a", "c", "d", "b", "e"]
    assert consumers.active is None


def test_a_waiting_consumer_can_leave_without_a_hand_over() -> None:
    consumers = SingleActiveConsumers(WINDOW)
    for name in ("a", "b", "c"):
        consumers.add(consumer(name))
    consumers.remove("b", b"\1t")
    assert consumers.remove("b", b"\1t") is None
    assert next_channel(consumers) == "a"
    consumers.remove_channel("a")
    assert next_channel(consumers) == "c"


def test_exclusive_is_refused_even_to_the_first() -> None:
    consumers = SingleActiveConsumers(WINDOW)
    assert consumers.is_refused(consumer("a", exclusive=True))
    assert not consumers.is_refused(consumer("a"))
    consumers.add(consumer("a"))
    assert not consumers.is_refused(consumer("b"))


def test_only_a_queue_with_the_argument_has_the_part() -> None:
    for arguments, has_it in (({}, False), (False, False), (True, True)):
        queue = MessageQueue("the queue", True, WINDOW)
        table = table_of({} if arguments == {} else {"x-single-active-consumer": arguments})
        equip(queue, table, WINDOW)
        assert isinstance(queue.consumers, SingleActiveConsumers) == has_it
