"""Consumers: what they get, under which tag, and how they end."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from wire import PERSISTENT, Client, publish

Connect = Callable[..., Client]


def deliver(tag: int, *, redelivered: bool = False, queue: str = "q") -> BasicDeliver:
    return BasicDeliver("c", tag, redelivered, "", queue)


def test_a_consumer_gets_what_is_there_and_what_comes_in_order(client: Client) -> None:
    client.declare("q")
    client.publish_all("q", b"1", b"2")
    client.consume("q")
    client.expect_delivery(deliver(1), b"1")
    client.expect_delivery(deliver(2), b"2")
    client.send(publish("q", b"3"))
    client.expect_delivery(deliver(3), b"3")
    client.expect(1, BasicAck(3, False))


def test_consume_ok_stands_before_the_first_delivery(client: Client) -> None:
    client.declare("q")
    client.publish_all("q", b"1")
    assert client.ask(1, BasicConsume(queue="q", consumer_tag="c")) == BasicConsumeOk("c")
    client.expect_delivery(deliver(1), b"1")


def test_a_delivery_has_the_exchange_key_and_properties_it_was_published_with(
    client: Client,
) -> None:
    client.declare("q")
    properties = Properties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"n": Field("long", 2**40), "t": Field("table", {})},
        delivery_mode=2,
        priority=9,
        correlation_id="c",
        reply_to="r",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
    )
    client.consume("q")
    client.send(publish("q", b"body", properties))
    client.expect(1, deliver(1))
    content = client.read_content(1)
    assert (content.properties, content.body) == (properties, b"body")


def test_a_no_ack_consumer_s_messages_are_settled_as_they_are_sent(
    client: Client, connect: Connect
) -> None:
    client.declare("q")
    client.publish_all("q", b"1", b"2")
    client.consume("q", no_ack=True)
    client.expect_delivery(deliver(1), b"1")
    client.expect_delivery(deliver(2), b"2")
    client.drop()
    other = connect()
    other.open_channel()
    other.wait_for_counts("q", (0, 0))
    # There is nothing to acknowledge, either.
    other.consume("q", no_ack=True)
    other.send(publish("q", b"3"))
    other.expect_delivery(deliver(1), b"3")
    other.send_methods(1, BasicAck(1))
    text = "PRECONDITION_FAILED - unknown delivery tag 1"
    other.expect(1, ChannelClose(406, text, 60, 80))


def test_an_empty_tag_asks_for_one_and_every_one_is_another(client: Client) -> None:
    client.declare("q")
    tags = set()
    for _ in range(3):
        answer = client.ask(1, BasicConsume(queue="q"))
        assert isinstance(answer, BasicConsumeOk)
        assert re.fullmatch(r"amq\.ctag-[A-Za-z0-9_-]{22}", answer.consumer_tag)
        tags.add(answer.consumer_tag)
    assert len(tags) == 3
    client.send(publish("q"))
    assert client.expect_type(1, BasicDeliver).consumer_tag in tags


def test_no_local_is_ignored_as_rabbitmq_ignores_it(client: Client) -> None:
    client.declare("q")
    client.consume("q", no_local=True, no_ack=True)
    client.send(publish("q", b"my own"))
    client.expect_delivery(BasicDeliver("c", 1, False, "", "q"), b"my own")
    client.expect(1, BasicAck(1, False))


def test_the_same_tag_may_be_used_on_another_channel(client: Client) -> None:
    client.declare("q")
    client.open_channel(2)
    client.consume("q", "c")
    client.consume("q", "c", channel=2)
    assert client.counts("q") == (0, 2)


def test_a_tag_may_be_used_again_once_its_consumer_has_ended(client: Client) -> None:
    client.declare("q")
    client.consume("q", "c")
    assert client.ask(1, BasicCancel("c")) == BasicCancelOk("c")
    client.consume("q", "c")
    assert client.counts("q") == (0, 1)


def test_delivery_tags_ascend_over_all_consumers_and_gets_of_a_channel(client: Client) -> None:
    client.declare("q")
    client.declare("r")
    client.publish_all("q", b"1", b"2")
    got = client.get("q")
    assert got is not None
    assert got.delivery_tag == 1
    client.consume("q", "c")
    client.expect_delivery(deliver(2), b"2")
    client.consume("r", "d")
    client.send(publish("r", b"3"))
    client.expect_delivery(BasicDeliver("d", 3, False, "", "r"), b"3")


def test_no_wait_consume_and_cancel_are_not_answered(client: Client) -> None:
    client.declare("q")
    client.send_methods(1, BasicConsume(queue="q", consumer_tag="c", no_wait=True))
    assert client.counts("q") == (0, 1)
    client.send_methods(1, BasicCancel("c", True))
    assert client.counts("q") == (0, 0)


# --- Cancel


def test_nothing_is_delivered_after_cancel_ok_and_what_is_out_can_still_be_acked(
    client: Client,
) -> None:
    client.declare("q")
    client.consume("q")
    client.send(publish("q", b"1"))
    client.expect_delivery(deliver(1), b"1")
    client.expect(1, BasicAck(1, False))
    assert client.ask(1, BasicCancel("c")) == BasicCancelOk("c")
    client.send(publish("q", b"2"))
    client.expect(1, BasicAck(2, False))
    assert client.counts("q") == (1, 0)
    client.send_methods(1, BasicAck(1))
    client.nothing_more()


def test_deliveries_of_a_cancelled_consumer_stay_unacked_until_the_channel_returns_them(
    client: Client,
) -> None:
    client.declare("q")
    client.publish_all("q", b"1")
    client.consume("q")
    client.expect_delivery(deliver(1), b"1")
    assert client.ask(1, BasicCancel("c")) == BasicCancelOk("c")
    assert client.counts("q") == (0, 0)
    assert client.ask(1, ChannelClose(200, "bye")) == ChannelCloseOk()
    client.open_channel()
    assert client.counts("q") == (1, 0)


def test_cancelling_what_is_not_there_is_no_error(client: Client) -> None:
    assert client.ask(1, BasicCancel("nobody")) == BasicCancelOk("nobody")


def test_a_deleted_queue_cancels_the_consumers_of_clients_that_understand_it(
    connect: Connect,
) -> None:
    one, other = connect(capabilities=("consumer_cancel_notify",)), connect()
    one.open_channel()
    other.open_channel()
    one.declare("q")
    one.consume("q", "a")
    one.consume("q", "b")
    other.consume("q", "c")
    assert other.ask(1, QueueDelete(queue="q")) == QueueDeleteOk(0)
    one.expect(1, BasicCancel("a", True), BasicCancel("b", True))
    # The other did not announce it.
    other.nothing_more()
    # The tags are free again, and cancelling them is no error.
    one.send_methods(1, BasicCancel("a"))
    one.expect(1, BasicCancelOk("a"))
    one.declare("r")
    one.consume("r", "b")


def test_acking_what_came_from_a_queue_that_is_deleted_by_now_is_no_error(client: Client) -> None:
    client.declare("q")
    client.publish_all("q", b"1")
    client.consume("q")
    client.expect_delivery(deliver(1), b"1")
    assert client.ask(1, QueueDelete(queue="q")) == QueueDeleteOk(0)
    client.send_methods(1, BasicAck(1))
    client.nothing_more()


# --- Get


def test_get_takes_one_message_and_says_how_many_are_left(client: Client) -> None:
    client.declare("q")
    client.publish_all("q", b"1", b"2", properties=PERSISTENT)
    assert client.get("q") == (1, False, 1, b"1")
    assert client.get("q", no_ack=True) == (2, False, 0, b"2")
    assert client.get("q") is None
    client.send_methods(1, BasicAck(1))
    client.nothing_more()


def test_get_is_not_held_back_by_the_prefetch(client: Client) -> None:
    client.declare("q")
    client.publish_all("q", b"1", b"2", b"3")
    assert client.ask(1, BasicQos(0, 1, True)) == BasicQosOk()
    client.consume("q")
    client.expect_delivery(deliver(1), b"1")
    assert client.get("q") == (2, False, 1, b"2")
    assert client.get("q") == (3, False, 0, b"3")


def test_gets_of_a_read_are_answered_in_order(client: Client) -> None:
    client.declare("q")
    client.publish_all("q", b"1", b"2")
    client.send_methods(1, *[BasicGet(queue="q")] * 3)
    client.expect(1, BasicGetOk(1, False, "", "q", 1))
    assert client.read_content(1).body == b"1"
    client.expect(1, BasicGetOk(2, False, "", "q", 0))
    assert client.read_content(1).body == b"2"
    client.expect(1, BasicGetEmpty())


# --- Purge


def test_a_purge_drops_what_is_ready_and_leaves_what_is_out(client: Client) -> None:
    client.declare("q", durable=True)
    client.publish_all("q", b"1", b"2", b"3", properties=PERSISTENT)
    assert client.ask(1, BasicQos(0, 1, False)) == BasicQosOk()
    client.consume("q")
    client.expect_delivery(deliver(1), b"1")
    assert client.ask(1, QueuePurge(queue="q")) == QueuePurgeOk(2)
    assert client.ask(1, BasicCancel("c")) == BasicCancelOk("c")
    assert client.ask(1, ChannelClose(200, "bye")) == ChannelCloseOk()
    client.open_channel()
    assert client.counts("q") == (1, 0)
    assert client.get("q") == (1, True, 0, b"1")


@pytest.mark.parametrize("durable", [False, True])
def test_a_purge_of_an_empty_queue_drops_nothing(client: Client, durable: bool) -> None:
    client.declare("q", durable=durable)
    assert client.ask(1, QueuePurge(queue="q")) == QueuePurgeOk(0)
    assert client.ask(1, QueuePurge(queue="")) == QueuePurgeOk(0)
