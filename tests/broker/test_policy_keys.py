"""Keys of policies that RabbitMQ 3.10 has not: set, changed and cleared by HTTP on a live queue.

The others are compared with RabbitMQ's in tests/differential/test_policies.py.
"""

from __future__ import annotations

from collections.abc import Callable

import leveret
import pytest
from asking_http import asked
from dashed import dashed
from held_clock import HeldClock
from identified import known, numbers
from insides import deferred_count, wait_until
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicDeliver,
    BasicNack,
    ChannelClose,
    ChannelCloseOk,
)
from wire import PERSISTENT, Client

HOUR_MS = 3_600_000
Publish = Callable[..., None]


@pytest.fixture
def settings() -> dict[str, object]:
    return {"http_listener": "on", "http_port": 0, "password_hash_cost": 10}


@pytest.fixture
def client(broker: leveret.Broker):
    with Client(broker.host, broker.port).log_in() as client:
        client.open_channel(1, confirms=True)
        client.declare("q", durable=True)
        yield client


def set_policy(broker: leveret.Broker, **definition: int) -> None:
    given = {"pattern": "^q$", "definition": dashed(definition)}
    answer = asked(broker, "PUT", "/api/policies/%2F/p", given)
    assert answer.status in (201, 204), answer


def clear_policy(broker: leveret.Broker) -> None:
    assert asked(broker, "DELETE", "/api/policies/%2F/p").status == 204


@pytest.fixture
def publish(broker: leveret.Broker, client: Client):
    """Publishes to the queue, and waits for the confirms, on a connection of its own."""
    with Client(broker.host, broker.port).log_in() as publisher:
        publisher.open_channel(1, confirms=True)
        yield lambda *bodies: publisher.publish_all("q", *bodies, properties=PERSISTENT)


def delivered(client: Client) -> tuple[int, bytes]:
    """The tag and the body of the next delivery."""
    deliver = client.expect_type(1, BasicDeliver)
    return deliver.delivery_tag, client.read_content(1).body


def ack(client: Client, delivery_tag: int) -> None:
    """Once this has returned, the broker's clock may go on: its channel has seen the ack."""
    client.send_methods(1, BasicAck(delivery_tag))
    client.nothing_more()


def consume_first(client: Client, publish: Publish) -> None:
    """A consumer has the first message."""
    publish(b"1")
    client.consume("q")
    assert delivered(client) == (1, b"1")


def test_a_consumer_timeout_is_for_later_deliveries(
    broker: leveret.Broker, client: Client, publish: Publish
) -> None:
    clock = HeldClock(broker)
    consume_first(client, publish)
    set_policy(broker, consumer_timeout=1000)
    clock.advance(2)
    client.nothing_more()
    publish(b"2")
    assert delivered(client) == (2, b"2")
    set_policy(broker, consumer_timeout=5000)
    publish(b"3")
    assert delivered(client) == (3, b"3")
    ack(client, 2)
    clock.advance(2)
    client.nothing_more()
    clear_policy(broker)
    publish(b"4")
    assert delivered(client) == (4, b"4")
    ack(client, 3)
    clock.advance(10)
    client.nothing_more()
    set_policy(broker, consumer_timeout=1000)
    publish(b"5")
    assert delivered(client) == (5, b"5")
    clock.advance(1)
    closed = client.expect_type(1, ChannelClose)
    assert "timed out. Timeout value used: 1000 ms" in closed.reply_text


def test_an_in_flight_timeout_is_for_later_deliveries(
    broker: leveret.Broker, client: Client, publish: Publish
) -> None:
    clock = HeldClock(broker)
    consume_first(client, publish)
    set_policy(broker, in_flight_timeout=1000)
    clock.advance(2)
    client.nothing_more()
    publish(b"2")
    assert delivered(client) == (2, b"2")
    clock.advance(1)
    assert delivered(client) == (3, b"2")
    set_policy(broker, in_flight_timeout=5000)
    publish(b"3")
    assert delivered(client) == (4, b"3")
    # What was delivered before keeps its time.
    clock.advance(1)
    assert delivered(client) == (5, b"2")
    ack(client, 5)
    clock.advance(4)
    assert delivered(client) == (6, b"3")
    ack(client, 6)
    clear_policy(broker)
    publish(b"4")
    assert delivered(client) == (7, b"4")
    clock.advance(10)
    client.nothing_more()


def test_a_maximum_of_consumers_sends_nobody_away(
    broker: leveret.Broker, client: Client, publish: Publish
) -> None:
    consume_first(client, publish)

    def is_refused(maximum: int) -> bool:
        client.open_channel(2)
        answer = client.ask(2, BasicConsume(queue="q", consumer_tag="next", no_ack=True))
        is_refused = isinstance(answer, ChannelClose)
        if is_refused:
            assert f"in use by its maximum of {maximum} consumers" in answer.reply_text
            client.send_methods(2, ChannelCloseOk())
        else:
            assert client.ask(2, ChannelClose(200, "", 0, 0)) == ChannelCloseOk()
        return is_refused

    client.consume("q", "second")
    set_policy(broker, max_consumers=1)
    assert client.counts("q") == (0, 2)
    assert is_refused(1)
    assert client.ask(1, BasicCancel("c")) == BasicCancelOk("c")
    assert is_refused(1)
    set_policy(broker, max_consumers=2)
    assert not is_refused(2)
    set_policy(broker, max_consumers=1)
    assert is_refused(1)
    clear_policy(broker)
    assert not is_refused(0)


def test_a_requeue_delay_is_for_what_comes_back_later(
    broker: leveret.Broker, client: Client, publish: Publish
) -> None:
    clock = HeldClock(broker)
    publish(b"1")
    client.consume("q")

    def comes_back_after(seconds: float) -> None:
        tag, _ = delivered(client)
        client.send_methods(1, BasicNack(tag, False, True))
        if seconds:
            client.nothing_more()
            assert deferred_count(broker, "q") == 1
            clock.advance(seconds - 0.001)
            client.nothing_more()
            clock.advance(0.001)

    comes_back_after(0)
    tag, _ = delivered(client)
    client.send_methods(1, BasicAck(tag))
    publish(b"2")
    set_policy(broker, requeue_delay=1000, requeue_delay_max=2000)
    # Twice as long each time, and at most the maximum.
    for seconds in (1, 2, 2):
        comes_back_after(seconds)
    set_policy(broker, requeue_delay=1000, requeue_delay_max=1500)
    comes_back_after(1.5)
    # What is deferred stays so for the rest of its time.
    tag, _ = delivered(client)
    client.send_methods(1, BasicNack(tag, False, True))
    client.nothing_more()
    clear_policy(broker)
    client.nothing_more()
    assert deferred_count(broker, "q") == 1
    clock.advance(1.5)
    comes_back_after(0)
    assert delivered(client)[1] == b"2"


def test_a_dedup_window_begins_empty_and_forgets_when_it_goes(
    broker: leveret.Broker, client: Client
) -> None:
    def send(*ids: int) -> list[bytes]:
        """What of these enters the queue."""
        for number in ids:
            client.publish_all("q", b"%d" % number, properties=known(number))
        return numbers(client)

    client.publish_all("q", b"before", properties=known(1))
    set_policy(broker, dedup_window=2)
    assert send(1, 1, 2, 2) == [b"before", b"1", b"2"]
    # The window remembers the last two.
    assert send(3, 1) == [b"3", b"1"]
    set_policy(broker, dedup_window=100)
    assert send(3, 1, *range(4, 50)) == [b"%d" % number for number in range(4, 50)]
    set_policy(broker, dedup_window=1)
    assert send(49, 1) == [b"1"]
    clear_policy(broker)
    assert send(1, 1) == [b"1", b"1"]
    set_policy(broker, dedup_window=100)
    assert send(1, 1) == [b"1"]


def test_a_dedup_age_is_for_what_enters_later(broker: leveret.Broker, client: Client) -> None:
    def is_duplicate(number: int) -> bool:
        client.publish_all("q", b"", properties=known(number))
        return numbers(client) == []

    set_policy(broker, dedup_window=100, dedup_age_ms=1)
    assert not is_duplicate(1)
    wait_until(lambda: not is_duplicate(1))
    set_policy(broker, dedup_window=100, dedup_age_ms=HOUR_MS)
    assert not is_duplicate(2)
    assert is_duplicate(2)
    # Without a window an age means nothing.
    set_policy(broker, dedup_age_ms=HOUR_MS)
    assert not is_duplicate(2)
    set_policy(broker, dedup_window=100)
    assert not is_duplicate(3)
    assert is_duplicate(3)
    clear_policy(broker)
    assert not is_duplicate(3)
