"""Codes and words of arguments and limits: refused with RabbitMQ's reason, or as not built yet."""

from __future__ import annotations

import pytest
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    ChannelClose,
    ChannelCloseOk,
    QueueDeclare,
)
from leveret.amqp_frames.values.field_table import Field
from mistakes import (
    Mistake,
    assert_closes_the_channel,
    assert_closes_the_connection,
    bad_argument,
    number,
    parametrized,
    text,
)
from wire import PERSISTENT, Client, publish

Q = QueueDeclare(queue="q")
INVALID = "PRECONDITION_FAILED - invalid arg"
NOT_BUILT = "not implemented"


@pytest.fixture
def settings() -> dict[str, object]:
    return {"message_size_max_bytes": 20, "consumers_per_channel_max": 2}


@parametrized(
    bad_argument("x-expires", number(0), "{value_zero,0}"),
    bad_argument("x-expires", number(-1), "{value_negative,-1}"),
    bad_argument("x-expires", text("1"), '"expected integer, got longstr"'),
    bad_argument("x-message-ttl", number(-1), "{value_negative,-1}"),
    bad_argument("x-message-ttl", number(315_360_000_001), "{value_too_large,315360000001}"),
    bad_argument("x-max-length", number(-1), "{value_negative,-1}"),
    bad_argument("x-max-length", text("many"), '"expected integer, got longstr"'),
    bad_argument("x-max-length-bytes", number(-1), "{value_negative,-1}"),
    bad_argument("x-max-priority", number(256), "{max_value_exceeded,256}"),
    bad_argument("x-max-priority", number(-1), "{value_negative,-1}"),
    bad_argument("x-max-priority", text("9"), '"expected integer, got longstr"'),
    bad_argument("x-overflow", text("other"), "invalid_overflow"),
    bad_argument("x-overflow", number(1), "{unacceptable_type,signedint}"),
    bad_argument("x-dead-letter-routing-key", text("k"), "routing_key_but_no_dlx_defined"),
    bad_argument("x-dead-letter-routing-key", number(1), "{unacceptable_type,signedint}"),
    bad_argument("x-dead-letter-routing-key", text("k" * 256), "{max_length_exceeded,255}"),
    Mistake(
        "x-dead-letter-exchange 1",
        QueueDeclare(queue="q", arguments={"x-dead-letter-exchange": number(1)}),
        406,
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' "
        "in queue 'q' in vhost '/'",
    ),
    bad_argument("x-single-active-consumer", text("yes"), "{unacceptable_type,longstr}"),
    bad_argument("x-queue-type", number(1), "{unacceptable_type,signedint}"),
)
def test_an_argument_that_rabbitmq_refuses(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


@parametrized(
    bad_argument("x-queue-type", text("stream"), NOT_BUILT),
)
def test_what_rabbitmq_knows_and_is_not_built_yet(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


def quorum(reason: str, queue: str = "q", **properties: bool) -> Mistake:
    """A declaration of a quorum queue, refused for this reason."""
    declare = QueueDeclare(queue=queue, arguments={"x-queue-type": text("quorum")}, **properties)
    return Mistake(f"{queue} {properties}", declare, 406, f"PRECONDITION_FAILED - {reason}")


def quorum_property(name: str, **properties: bool) -> Mistake:
    return quorum(f"invalid property '{name}' for queue 'q' in vhost '/'", **properties)


@parametrized(
    quorum_property("non-durable"),
    quorum_property("exclusive-owner", durable=True, exclusive=True),
    quorum_property("auto-delete", durable=True, auto_delete=True),
    quorum("Cannot declare a server-named queue for type rabbit_quorum_queue", "", durable=True),
)
def test_a_property_that_a_quorum_queue_cannot_have(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


def test_a_quorum_queue_is_a_durable_queue(client: Client) -> None:
    arguments = {"x-queue-type": text("quorum"), "x-quorum-initial-group-size": number(3)}
    client.declare("q", durable=True, arguments=arguments)
    client.publish_all("q", b"m", properties=PERSISTENT)
    answer = client.declare("q", durable=True, arguments=arguments)
    assert (answer.message_count, answer.consumer_count) == (1, 0)


@parametrized(
    Mistake(
        "quorum again as classic",
        QueueDeclare(queue="q", durable=True),
        406,
        "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': "
        "received none but current is the value 'quorum' of type 'longstr'",
        [QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": text("quorum")})],
    ),
    *(
        Mistake(
            f"{name} again otherwise",
            QueueDeclare(queue="q", arguments={name: number(2)}),
            406,
            f"PRECONDITION_FAILED - inequivalent arg '{name}' for queue 'q' in vhost '/': "
            "received '2' but current is '1'",
            [QueueDeclare(queue="q", arguments={name: number(1)})],
        )
        for name in ("x-max-length", "x-max-length-bytes", "x-message-ttl")
    ),
    Mistake(
        "x-expires again without",
        Q,
        406,
        "PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue 'q' in vhost '/': "
        "received none but current is the value '60000' of type 'signedint'",
        [QueueDeclare(queue="q", arguments={"x-expires": number(60_000)})],
    ),
    Mistake(
        "x-overflow again without",
        Q,
        406,
        "PRECONDITION_FAILED - inequivalent arg 'x-overflow' for queue 'q' in vhost '/': "
        "received none but current is the value 'drop-head' of type 'longstr'",
        [QueueDeclare(queue="q", arguments={"x-overflow": text("drop-head")})],
    ),
)
def test_arguments_that_differ_from_the_first_declaration(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


@parametrized(
    Mistake(
        "stream's",
        QueueDeclare(queue="q", arguments={"x-max-age": text("1D")}),
        406,
        f"{INVALID} 'x-max-age' for queue 'q' in vhost '/' of queue type rabbit_classic_queue",
    ),
    Mistake(
        "quorum's",
        QueueDeclare(queue="q", arguments={"x-max-in-memory-length": number(3)}),
        406,
        f"{INVALID} 'x-max-in-memory-length' for queue 'q' in vhost '/' "
        "of queue type rabbit_classic_queue",
    ),
    Mistake(
        "consumer's",
        BasicConsume(queue="q", arguments={"x-stream-offset": text("first")}),
        406,
        f"{INVALID} 'x-stream-offset' for queue 'q' in vhost '/' "
        "of queue type rabbit_classic_queue",
        [Q],
    ),
)
def test_an_argument_of_another_type(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


def bad_consumer(name: str, value: Field, reason: str) -> Mistake:
    words = f"{INVALID} '{name}' for queue 'q' in vhost '/': {reason}"
    consume = BasicConsume(queue="q", arguments={name: value})
    return Mistake(f"{name} {value.kind}", consume, 406, words, [Q])


@parametrized(
    bad_consumer("x-priority", text("1"), '"expected integer, got longstr"'),
    bad_consumer("x-priority", Field("double", 1.0), '"expected integer, got double"'),
    bad_consumer("x-priority", Field("bool", True), '"expected integer, got bool"'),
    bad_consumer("x-cancel-on-ha-failover", number(1), "{unacceptable_type,signedint}"),
)
def test_a_consumer_s_argument_that_rabbitmq_refuses(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


def test_arguments_that_rabbitmq_ignores_are_ignored(client: Client) -> None:
    arguments = {
        "x-queue-type": text("classic"),
        "x-queue-mode": text("lazy"),
        "x-queue-version": number(2),
        "x-unheard-of": text("anything"),
        "foo": number(1),
    }
    client.declare("q", arguments=arguments)
    assert client.declare("q", arguments=arguments | {"foo": number(2)}).message_count == 0


# --- Limits


def too_large(size: int) -> str:
    return f"PRECONDITION_FAILED - message size {size} is larger than configured max size 20"


@parametrized(
    Mistake("by one", publish("q", bytes(21)), 406, too_large(21), [Q], (60, 40)),
    Mistake("by far", publish("q", bytes(300_000)), 406, too_large(300_000), [Q], (60, 40)),
)
def test_a_message_that_is_too_large(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)
    assert client.counts("q") == (0, 0)


def test_a_message_as_large_as_allowed_is_no_mistake(client: Client) -> None:
    client.declare("q")
    client.send(publish("q", bytes(20)))
    client.expect(1, BasicAck(1, False))


def test_publishes_before_one_that_is_too_large_are_kept(client: Client) -> None:
    client.declare("q")
    client.send(publish("q") * 2, publish("q", bytes(21)), publish("q"))
    assert client.expect_type(1, ChannelClose).reply_text == too_large(21)
    client.send_methods(1, ChannelCloseOk())
    client.open_channel(1)
    assert client.counts("q") == (2, 0)


@parametrized(
    Mistake(
        "third consumer",
        BasicConsume(queue="q"),
        530,
        "NOT_ALLOWED - reached maximum (2) of consumers per channel",
        [Q, BasicConsume(queue="q"), BasicConsume(queue="q")],
    ),
    Mistake(
        "third consumer of no queue",
        BasicConsume(queue="missing"),
        530,
        "NOT_ALLOWED - reached maximum (2) of consumers per channel",
        [Q, BasicConsume(queue="q"), BasicConsume(queue="q")],
    ),
    Mistake(
        "third consumer takes replies",
        BasicConsume(queue="amq.rabbitmq.reply-to", no_ack=True),
        530,
        "NOT_ALLOWED - reached maximum (2) of consumers per channel",
        [Q, BasicConsume(queue="q"), BasicConsume(queue="q")],
    ),
)
def test_more_consumers_than_a_channel_may_have(client: Client, mistake: Mistake) -> None:
    assert_closes_the_connection(client, mistake)


def test_a_consumer_that_is_cancelled_makes_room_for_another(client: Client) -> None:
    client.declare("q")
    for tag in "ab":
        client.consume("q", tag)
    assert client.ask(1, BasicCancel("a")) == BasicCancelOk("a")
    client.consume("q", "c")
    assert client.counts("q") == (0, 2)
