"""Direct reply-to: requests from a pseudo-queue's consumer, replies past every queue."""

from __future__ import annotations

import threading
from collections.abc import Callable

import leveret
import pika
import pytest
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicReturn,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from replies import ASKING, REPLY_TO, asking, expect_reply, reply_name
from timeouts import TIMEOUT_SECONDS
from wire import Client, publish

Connect = Callable[..., Client]


@pytest.fixture
def asker(connect: Connect) -> Client:
    return asking(connect)


# --- Requests and replies


def test_a_reply_goes_from_connection_to_connection_with_its_properties(
    asker: Client, client: Client
) -> None:
    name = reply_name(asker, client)
    properties = Properties(correlation_id="7", headers={"x": Field("long", 1)})
    client.send(publish(name, b"one", properties), publish(name, b"two"))
    client.expect(1, BasicAck(2, True))
    assert expect_reply(asker, 1, name, b"one") == properties
    assert expect_reply(asker, 2, name, b"two") == Properties()
    # The request kept its name for the next one, too.
    assert reply_name(asker, client) == name


def test_a_channel_may_answer_itself(asker: Client) -> None:
    name = reply_name(asker, asker)
    asker.send(publish(name, b"mine"))
    # The request that it got itself had the first tag.
    expect_reply(asker, 2, name, b"mine")


def test_a_large_reply_is_cut_to_the_receiver_s_frames(connect: Connect, client: Client) -> None:
    asker = connect(frame_max_bytes=4096)
    asker.open_channel(1)
    asker.declare("work")
    asker.consume(REPLY_TO, "r", no_ack=True)
    name = reply_name(asker, client)
    body = bytes(range(256)) * 400
    client.send(publish(name, body))
    client.expect(1, BasicAck(1, False))
    expect_reply(asker, 1, name, body)


def test_replies_and_deliveries_share_the_channel_s_tags(asker: Client, client: Client) -> None:
    name = reply_name(asker, client)
    asker.consume("work", "w")
    client.send(publish(name, b"reply"))
    expect_reply(asker, 1, name, b"reply")
    client.send(publish("work", b"work"))
    asker.expect_delivery(BasicDeliver("w", 2, False, "", "work"), b"work")
    asker.send_methods(1, BasicAck(2))
    asker.nothing_more()


def test_a_request_that_is_returned_names_the_consumer(asker: Client) -> None:
    asker.send(publish("nowhere", b"lost", ASKING, mandatory=True))
    asker.expect(1, BasicReturn(312, "NO_ROUTE", "", "nowhere"))
    reply_to = asker.read_content(1).properties.reply_to
    assert reply_to is not None
    assert reply_to.startswith(REPLY_TO + ".")


def test_copies_reach_queues_and_reply_consumers(asker: Client, client: Client) -> None:
    name = reply_name(asker, client)
    copies = Field("array", [Field("longstr", "work")])
    client.send(publish(name, b"both", Properties(headers={"CC": copies}), mandatory=True))
    client.expect(1, BasicAck(1, False))
    expect_reply(asker, 1, name, b"both")
    assert client.get("work", no_ack=True) is not None


def test_replies_in_a_transaction_go_at_its_commit(
    asker: Client, client: Client, connect: Connect
) -> None:
    name = reply_name(asker, client)
    server = connect()
    server.open_channel(1)
    assert server.ask(1, TxSelect()) == TxSelectOk()
    server.send(publish(name, b"late"))
    server.nothing_more()
    client.send(publish(name, b"early"))
    expect_reply(asker, 1, name, b"early")
    assert server.ask(1, TxCommit()) == TxCommitOk()
    expect_reply(asker, 2, name, b"late")


# --- pika


def test_pika_asks_and_is_answered(broker: leveret.Broker) -> None:
    parameters = pika.ConnectionParameters(broker.host, broker.port)
    ready = threading.Event()

    def serve() -> None:
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.queue_declare("rpc", exclusive=True)
            ready.set()
            for method, properties, body in channel.consume(
                "rpc", inactivity_timeout=TIMEOUT_SECONDS
            ):
                assert properties is not None
                answer = pika.BasicProperties(correlation_id=properties.correlation_id)
                channel.basic_publish("", properties.reply_to, body.upper(), answer)
                channel.basic_ack(method.delivery_tag)
                if body == b"stop":
                    break

    server = threading.Thread(target=serve)
    server.start()
    assert ready.wait(TIMEOUT_SECONDS)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        answers = []
        channel.basic_consume(
            REPLY_TO,
            lambda _channel, _method, properties, body: answers.append(
                (properties.correlation_id, body)
            ),
            auto_ack=True,
        )
        for number, body in enumerate((b"one", b"two", b"stop")):
            properties = pika.BasicProperties(reply_to=REPLY_TO, correlation_id=str(number))
            channel.basic_publish("", "rpc", body, properties)
        while len(answers) < 3:
            connection.process_data_events(TIMEOUT_SECONDS)
    server.join(TIMEOUT_SECONDS)
    assert not server.is_alive()
    assert answers == [("0", b"ONE"), ("1", b"TWO"), ("2", b"STOP")]
