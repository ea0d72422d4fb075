"""Credit: how much a consumer holds unacked, alone or with its channel, and who is next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicDeliver,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicReject,
    QueueDelete,
    QueueDeleteOk,
)
from wire import Client

Connect = Callable[..., Client]


def deliver(tag: int, consumer: str = "c", queue: str = "q") -> BasicDeliver:
    return BasicDeliver(consumer, tag, False, "", queue)


def qos(client: Client, count: int, *, whole_channel: bool = False, channel: int = 1) -> None:
    assert client.ask(channel, BasicQos(0, count, whole_channel)) == BasicQosOk()


def bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(1, count + 1)]


def test_a_consumer_holds_no_more_than_its_prefetch(client: Client, connect: Connect) -> None:
    client.declare("q")
    client.publish_all("q", *bodies(5))
    consumer = connect()
    consumer.open_channel()
    qos(consumer, 2)
    consumer.consume("q")
    consumer.expect_delivery(deliver(1), b"1")
    consumer.expect_delivery(deliver(2), b"2")
    assert consumer.counts("q") == (3, 1)
    consumer.send_methods(1, BasicAck(1))
    consumer.expect_delivery(deliver(3), b"3")
    consumer.nothing_more()
    consumer.send_methods(1, BasicAck(3, True))
    consumer.expect_delivery(deliver(4), b"4")
    consumer.expect_delivery(deliver(5), b"5")


def test_rejecting_gives_credit_back_as_acking_does(client: Client, connect: Connect) -> None:
    client.declare("q")
    client.publish_all("q", *bodies(3))
    consumer = connect()
    consumer.open_channel()
    qos(consumer, 1)
    consumer.consume("q")
    consumer.expect_delivery(deliver(1), b"1")
    consumer.send_methods(1, BasicReject(1, False))
    consumer.expect_delivery(deliver(2), b"2")
    consumer.send_methods(1, BasicNack(2, False, False))
    consumer.expect_delivery(deliver(3), b"3")


def test_the_prefetch_is_that_of_the_consumer_s_start(client: Client, connect: Connect) -> None:
    client.declare("q")
    client.declare("r")
    consumer = connect()
    consumer.open_channel()
    qos(consumer, 1)
    consumer.consume("q", "c")
    qos(consumer, 2)
    consumer.consume("r", "d")
    client.publish_all("q", *bodies(3))
    consumer.expect_delivery(deliver(1), b"1")
    client.publish_all("r", *bodies(3))
    consumer.expect_delivery(deliver(2, "d", "r"), b"1")
    consumer.expect_delivery(deliver(3, "d", "r"), b"2")
    consumer.nothing_more()
    assert client.counts("q") == (2, 1)
    assert client.counts("r") == (1, 1)


def test_a_prefetch_of_0_is_no_limit(client: Client, connect: Connect) -> None:
    client.declare("q")
    client.publish_all("q", *bodies(300))
    consumer = connect()
    consumer.open_channel()
    qos(consumer, 7)
    qos(consumer, 0)
    consumer.consume("q")
    for number in range(1, 301):
        consumer.expect_delivery(deliver(number), b"%d" % number)


def test_the_prefetch_does_not_hold_back_a_consumer_without_acks(
    client: Client, connect: Connect
) -> None:
    client.declare("q")
    client.publish_all("q", *bodies(10))
    consumer = connect()
    consumer.open_channel()
    qos(consumer, 1)
    qos(consumer, 1, whole_channel=True)
    consumer.consume("q", no_ack=True)
    for number in range(1, 11):
        consumer.expect_delivery(deliver(number), b"%d" % number)


# --- Of the channel


def test_a_global_prefetch_is_shared_by_the_channel_s_consumers(
    client: Client, connect: Connect
) -> None:
    client.declare("q")
    client.declare("r")
    consumer = connect()
    consumer.open_channel()
    qos(consumer, 3, whole_channel=True)
    consumer.consume("q", "c")
    consumer.consume("r", "d")
    client.publish_all("q", *bodies(2))
    consumer.expect_delivery(deliver(1), b"1")
    consumer.expect_delivery(deliver(2), b"2")
    client.publish_all("r", *bodies(3))
    consumer.expect_delivery(deliver(3, "d", "r"), b"1")
    consumer.nothing_more()
    # Room that one queue's ack makes is the other's to use.
    consumer.send_methods(1, BasicAck(2, True))
    consumer.expect_delivery(deliver(4, "d", "r"), b"2")
    consumer.expect_delivery(deliver(5, "d", "r"), b"3")
    consumer.nothing_more()


def test_another_channel_has_a_global_prefetch_of_its_own(client: Client) -> None:
    client.declare("q")
    client.open_channel(2)
    client.open_channel(3)
    for channel in (2, 3):
        qos(client, 1, whole_channel=True, channel=channel)
    client.publish_all("q", *bodies(3))
    client.consume("q", "c", channel=2)
    client.expect_delivery(deliver(1), b"1", 2)
    client.consume("q", "d", channel=3)
    client.expect_delivery(deliver(1, "d"), b"2", 3)
    assert client.counts("q") == (1, 2)


def test_a_higher_global_prefetch_counts_at_once(client: Client, connect: Connect) -> None:
    client.declare("q")
    client.publish_all("q", *bodies(4))
    consumer = connect()
    consumer.open_channel()
    qos(consumer, 1, whole_channel=True)
    consumer.consume("q")
    consumer.expect_delivery(deliver(1), b"1")
    qos(consumer, 3, whole_channel=True)
    consumer.expect_delivery(deliver(2), b"2")
    consumer.expect_delivery(deliver(3), b"3")
    consumer.nothing_more()
    qos(consumer, 0, whole_channel=True)
    consumer.expect_delivery(deliver(4), b"4")


def test_a_lower_global_prefetch_waits_until_enough_is_acked(
    client: Client, connect: Connect
) -> None:
    client.declare("q")
    client.publish_all("q", *bodies(5))
    consumer = connect()
    consumer.open_channel()
    qos(consumer, 3, whole_channel=True)
    consumer.consume("q")
    for number in (1, 2, 3):
        consumer.expect_delivery(deliver(number), b"%d" % number)
    qos(consumer, 1, whole_channel=True)
    consumer.send_methods(1, BasicAck(2, True))
    consumer.nothing_more()
    assert client.counts("q") == (2, 1)
    consumer.send_methods(1, BasicAck(3))
    consumer.expect_delivery(deliver(4), b"4")
    consumer.nothing_more()


def test_both_limits_hold_at_once(client: Client, connect: Connect) -> None:
    client.declare("q")
    consumer = connect()
    consumer.open_channel()
    qos(consumer, 2)
    qos(consumer, 3, whole_channel=True)
    consumer.consume("q", "c")
    consumer.consume("q", "d")
    client.publish_all("q", *bodies(10))
    held = Counter(_delivered(consumer) for _ in range(3))
    assert sorted(held.values()) == [1, 2]
    consumer.nothing_more()


def test_what_a_cancelled_consumer_holds_counts_for_the_channel_until_it_is_acked(
    client: Client, connect: Connect
) -> None:
    client.declare("q")
    client.publish_all("q", *bodies(2))
    consumer = connect()
    consumer.open_channel()
    qos(consumer, 1, whole_channel=True)
    consumer.consume("q", "c")
    consumer.expect_delivery(deliver(1), b"1")
    assert consumer.ask(1, BasicCancel("c")) == BasicCancelOk("c")
    consumer.consume("q", "d")
    consumer.nothing_more()
    consumer.send_methods(1, BasicAck(1))
    consumer.expect_delivery(deliver(2, "d"), b"2")


# --- Freed credit goes round


def consume_all(client: Client, *queues: str) -> None:
    """A consumer of each queue in this order, with its queue's name; deliveries may come first."""
    client.send_methods(
        1, *(BasicConsume(queue=each, consumer_tag=each, no_wait=True) for each in queues)
    )


def _ack_each(client: Client, limit: int, count: int) -> list[str]:
    """The consumer tags of the deliveries that acks bring, one by one, when the limit is out."""
    assert [_delivered(client) for _ in range(limit)]
    # Every consumer is there.
    client.nothing_more()
    tags = []
    for number in range(1, count + 1):
        client.send_methods(1, BasicAck(number))
        tags.append(_delivered(client))
    return tags


def test_a_busy_queue_does_not_starve_another_of_its_channel(
    client: Client, connect: Connect
) -> None:
    for queue, count in (("busy", 300), ("idle", 1)):
        client.declare(queue)
        client.publish_all(queue, *bodies(count))
    consumer = connect()
    consumer.open_channel()
    qos(consumer, 10, whole_channel=True)
    consume_all(consumer, "busy", "idle")
    assert "idle" in _ack_each(consumer, 10, 291)[:2]


def test_queues_of_a_channel_get_even_shares_of_the_freed_credit(
    client: Client, connect: Connect
) -> None:
    for queue in ("q", "r", "s"):
        client.declare(queue)
        client.publish_all(queue, *bodies(100))
    consumer = connect()
    consumer.open_channel()
    qos(consumer, 10, whole_channel=True)
    consume_all(consumer, "q", "r", "s")
    assert Counter(_ack_each(consumer, 10, 180)) == {"q": 60, "r": 60, "s": 60}


def test_consumers_of_a_channel_get_even_shares_of_its_credit_from_one_queue(
    client: Client, connect: Connect
) -> None:
    client.declare("q")
    consumer = connect()
    consumer.open_channel()
    qos(consumer, 10, whole_channel=True)
    consumer.consume("q", "c")
    consumer.consume("q", "d")
    client.publish_all("q", *bodies(100))
    assert Counter(_delivered(consumer) for _ in range(10)) == {"c": 5, "d": 5}
    consumer.nothing_more()
    consumer.send_methods(1, BasicAck(10, True))
    assert Counter(_delivered(consumer) for _ in range(10)) == {"c": 5, "d": 5}
    consumer.nothing_more()


def test_with_the_channel_s_credit_used_up_a_consumer_without_acks_waits_too(
    client: Client, connect: Connect
) -> None:
    for queue in ("q", "r"):
        client.declare(queue)
        client.publish_all(queue, *bodies(5))
    consumer = connect()
    consumer.open_channel()
    qos(consumer, 2, whole_channel=True)
    consumer.consume("q", "c")
    consumer.expect_delivery(deliver(1, "c"), b"1")
    consumer.expect_delivery(deliver(2, "c"), b"2")
    consumer.consume("r", "d", no_ack=True)
    consumer.nothing_more()
    assert client.counts("r") == (5, 1)
    # One is free: each queue has its turn, and the one without acks uses up nothing of it.
    consumer.send_methods(1, BasicAck(2, True))
    assert Counter(_delivered(consumer) for _ in range(7)) == {"c": 2, "d": 5}
    consumer.nothing_more()


def test_credit_offered_to_a_queue_that_is_deleted_is_not_lost(
    client: Client, connect: Connect
) -> None:
    for queue in ("q", "r", "s"):
        client.declare(queue)
        client.publish_all(queue, *bodies(5))
    consumer = connect(capabilities=("consumer_cancel_notify",))
    consumer.open_channel()
    qos(consumer, 1, whole_channel=True)
    consume_all(consumer, "q", "r", "s")
    assert _delivered(consumer) == "q"
    # The next in turn are gone, by a delete or by a cancel, when their turn comes.
    assert client.ask(1, QueueDelete(queue="q")) == QueueDeleteOk(4)
    assert consumer.expect_type(1, BasicCancel) == BasicCancel("q", True)
    assert consumer.ask(1, BasicCancel("r")) == BasicCancelOk("r")
    consumer.send_methods(1, BasicAck(1))
    for number in range(2, 7):
        assert _delivered(consumer) == "s"
        consumer.send_methods(1, BasicAck(number))
    consumer.nothing_more()


# --- Who is next


def _delivered(client: Client) -> str:
    tag = client.expect_type(1, BasicDeliver).consumer_tag
    client.read_content(1)
    return tag


def test_consumers_that_are_equally_busy_get_equally_much(client: Client, connect: Connect) -> None:
    client.declare("q")
    consumers = [connect() for _ in range(3)]
    for consumer in consumers:
        consumer.open_channel()
        qos(consumer, 100)
        consumer.consume("q")
    client.publish_all("q", *bodies(30))
    for consumer in consumers:
        for _ in range(10):
            assert _delivered(consumer) == "c"
        consumer.nothing_more()
    for number in range(1, 4):
        client.publish_all("q", b"one by one")
        assert _delivered(consumers[number - 1]) == "c"


def test_the_least_busy_goes_first(client: Client, connect: Connect) -> None:
    client.declare("q")
    busy, idle = connect(), connect()
    for consumer in (busy, idle):
        consumer.open_channel()
        qos(consumer, 10)
    busy.consume("q")
    client.publish_all("q", *bodies(4))
    for _ in range(4):
        _delivered(busy)
    idle.consume("q")
    for number in range(1, 5):
        client.publish_all("q", b"%d" % number)
        idle.expect_delivery(deliver(number), b"%d" % number)
    busy.nothing_more()


def test_a_consumer_without_room_is_passed_over(client: Client, connect: Connect) -> None:
    client.declare("q")
    full, free = connect(), connect()
    for consumer, count in ((full, 1), (free, 3)):
        consumer.open_channel()
        qos(consumer, count)
        consumer.consume("q")
    client.publish_all("q", *bodies(6))
    assert client.counts("q") == (2, 2)
    _delivered(full)
    for _ in range(3):
        _delivered(free)
    full.nothing_more()
    free.nothing_more()


def test_two_consumers_of_one_channel_get_the_queue_in_its_order(client: Client) -> None:
    client.declare("q")
    client.publish_all("q", *(b"%d" % number for number in range(300)))
    client.open_channel(2)
    assert client.ask(2, BasicQos(prefetch_count=3)) == BasicQosOk()
    client.consume("q", "one", channel=2)
    client.send_methods(2, BasicConsume(queue="q", consumer_tag="two", no_wait=True))
    bodies = []
    for _ in range(300):
        tag = client.expect_type(2, BasicDeliver).delivery_tag
        bodies.append(int(client.read_content(2).body))
        client.send_methods(2, BasicAck(tag))
    assert bodies == list(range(300))
