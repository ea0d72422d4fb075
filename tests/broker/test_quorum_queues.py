"""Queues of type quorum: their delivery limit, and deliveries that say how often they came back."""

from __future__ import annotations

import shutil
from pathlib import Path

import leveret
import pytest
from dashed import dashed
from leveret.amqp_frames.methods import (
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    ChannelClose,
    ChannelCloseOk,
    QueueDeclare,
)
from leveret.amqp_frames.values.field_table import table_of
from mistakes import Mistake, assert_closes_the_channel, parametrized
from wire import PERSISTENT, Client

QUORUM = {"x-queue-type": "quorum"}
Q = "queue 'q' in vhost '/'"


def declare(client: Client, **arguments: object) -> None:
    named = dashed(arguments)
    client.declare("q", durable=True, arguments=table_of(QUORUM | named))


def get(client: Client, queue: str = "q") -> tuple[BasicGetOk, int, bytes]:
    """basic.get: the answer, the message's x-delivery-count, and its body."""
    answer = client.ask(1, BasicGet(queue=queue))
    assert isinstance(answer, BasicGetOk), answer
    content = client.read_content(1)
    count = content.properties.headers.get("x-delivery-count", ("", -1))[1]
    return answer, count, content.body


@parametrized(
    Mistake(
        "non-durable",
        QueueDeclare(queue="q", arguments=table_of(QUORUM)),
        406,
        f"PRECONDITION_FAILED - invalid property 'non-durable' for {Q}",
    ),
    Mistake(
        "exclusive",
        QueueDeclare(queue="q", durable=True, exclusive=True, arguments=table_of(QUORUM)),
        406,
        f"PRECONDITION_FAILED - invalid property 'exclusive-owner' for {Q}",
    ),
    Mistake(
        "auto-delete",
        QueueDeclare(queue="q", durable=True, auto_delete=True, arguments=table_of(QUORUM)),
        406,
        f"PRECONDITION_FAILED - invalid property 'auto-delete' for {Q}",
    ),
    Mistake(
        "server-named",
        QueueDeclare(durable=True, arguments=table_of(QUORUM)),
        406,
        "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue",
    ),
    Mistake(
        "classic's argument",
        QueueDeclare(queue="q", durable=True, arguments=table_of(QUORUM | {"x-max-priority": 5})),
        406,
        f"PRECONDITION_FAILED - invalid arg 'x-max-priority' for {Q} "
        "of queue type rabbit_quorum_queue",
    ),
    Mistake(
        "consumer's argument",
        BasicConsume(queue="q", arguments=table_of({"x-stream-offset": "first"})),
        406,
        f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' for {Q} "
        "of queue type rabbit_quorum_queue",
        [QueueDeclare(queue="q", durable=True, arguments=table_of(QUORUM))],
    ),
    Mistake(
        "limit",
        QueueDeclare(
            queue="q", durable=True, arguments=table_of(QUORUM | {"x-delivery-limit": "3"})
        ),
        406,
        f"PRECONDITION_FAILED - invalid arg 'x-delivery-limit' for {Q}: "
        '"expected integer, got longstr"',
    ),
    Mistake(
        "strategy",
        QueueDeclare(
            queue="q",
            durable=True,
            arguments=table_of(QUORUM | {"x-dead-letter-strategy": "never"}),
        ),
        406,
        f"PRECONDITION_FAILED - invalid arg 'x-dead-letter-strategy' for {Q}: invalid_dlx_strategy",
    ),
)
def test_a_mistake_is_answered_with_rabbitmqs_words(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


def test_a_message_that_came_back_says_how_often(client: Client) -> None:
    declare(client)
    client.publish_all("q", b"1", properties=PERSISTENT)
    for times in range(3):
        answer, count, body = get(client)
        assert (answer.redelivered, count, body) == (times > 0, times, b"1")
        client.send_methods(1, BasicNack(answer.delivery_tag, False, True))
    client.send_methods(1, BasicConsume(queue="q", consumer_tag="c"))
    client.read_method(1)
    client.expect(1, BasicDeliver("c", 4, True, "", "q"))
    content = client.read_content(1)
    assert content.properties == PERSISTENT._replace(headers={"x-delivery-count": ("long", 3)})
    assert content.body == b"1"


def test_a_first_delivery_to_a_consumer_has_no_count(client: Client) -> None:
    declare(client)
    client.publish_all("q", b"1", properties=PERSISTENT)
    client.consume("q")
    client.expect(1, BasicDeliver("c", 1, False, "", "q"))
    assert client.read_content(1).properties == PERSISTENT


@pytest.mark.parametrize("dies", [False, True])
def test_over_its_limit_a_message_is_dead_lettered(client: Client, dies: bool) -> None:
    client.declare("dead")
    declare(
        client,
        x_delivery_limit=2,
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="dead",
    )
    client.publish_all("q", b"1", b"2")
    for times in range(3):
        answer, count, body = get(client)
        assert (count, body) == (times, b"1")
        if dies:
            client.send_methods(1, ChannelClose(200, "", 0, 0))
            client.expect(1, ChannelCloseOk())
            client.open_channel(1)
        else:
            client.send_methods(1, BasicNack(answer.delivery_tag, False, True))
    client.wait_for_counts("dead", (1, 0))
    assert get(client)[1:] == (0, b"2")
    answer = client.ask(1, BasicGet(queue="dead", no_ack=True))
    assert isinstance(answer, BasicGetOk)
    headers = client.read_content(1).properties.headers
    assert headers["x-first-death-reason"].value == "delivery_limit"
    assert "x-delivery-count" not in headers


def test_over_its_limit_without_an_exchange_a_message_is_dropped(client: Client) -> None:
    declare(client, x_delivery_limit=0)
    client.publish_all("q", b"1", b"2", properties=PERSISTENT)
    answer, _, _ = get(client)
    client.send_methods(1, BasicNack(answer.delivery_tag, False, True))
    assert get(client)[1:] == (0, b"2")


def test_a_message_that_was_out_for_the_last_time_when_the_broker_stopped_has_left(
    tmp_path: Path,
) -> None:
    data_dir = tmp_path / "kept"
    for is_first in (True, False):
        with (
            leveret.Broker(data_dir=data_dir, port=0, log_level="error") as broker,
            Client(broker.host, broker.port) as client,
        ):
            client.log_in().open_channel(1, confirms=True)
            if is_first:
                client.declare("dead", durable=True)
                to_dead = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}
                declare(client, x_delivery_limit=0, **to_dead)
                client.publish_all("q", b"1", b"2", properties=PERSISTENT)
                crashed = tmp_path / "crashed"
                assert get(client)[1:] == (0, b"1")
                # The journal has been told of the delivery before this is confirmed.
                client.publish_all("q", b"3", properties=PERSISTENT)
                shutil.copytree(data_dir, crashed, ignore=shutil.ignore_patterns("*.sock"))
                data_dir = crashed
            else:
                client.wait_for_counts("dead", (1, 0))
                assert client.counts("q") == (2, 0)
