"""Codes and words of what goes wrong with messages and consumers.

The table of SEMANTICS, "Reply codes and texts", row by row.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicReject,
    ChannelClose,
    QueueDeclare,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from mistakes import (
    Mistake,
    assert_closes_the_channel,
    assert_closes_the_connection,
    parametrized,
)
from wire import Client, content_header, methods_of, publish

PUBLISH = (60, 40)
Q = QueueDeclare(queue="q")


# --- Acknowledging


def unknown(tag: int) -> str:
    return f"PRECONDITION_FAILED - unknown delivery tag {tag}"


@parametrized(
    Mistake("ack", BasicAck(7), 406, unknown(7)),
    Mistake("ack of 0", BasicAck(0), 406, unknown(0)),
    Mistake("ack multiple", BasicAck(7, True), 406, unknown(7)),
    Mistake("nack", BasicNack(7), 406, unknown(7)),
    Mistake("nack multiple", BasicNack(7, True), 406, unknown(7)),
    Mistake("reject", BasicReject(7), 406, unknown(7)),
    Mistake("the largest", BasicAck(2**64 - 1), 406, unknown(2**64 - 1)),
)
def test_a_delivery_tag_that_was_never_issued(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


@parametrized(
    Mistake("ack", BasicAck(1), 406, unknown(1)),
    Mistake("ack multiple", BasicAck(1, True), 406, unknown(1)),
    Mistake("nack", BasicNack(1), 406, unknown(1)),
    Mistake("reject", BasicReject(1), 406, unknown(1)),
)
def test_a_delivery_tag_that_was_settled_before(client: Client, mistake: Mistake) -> None:
    client.declare("q")
    client.send(publish("q"))
    client.expect_type(1, BasicAck)
    client.send_methods(1, BasicGet(queue="q"))
    client.read_method(1)
    client.read_content(1)
    client.send_methods(1, BasicAck(1))
    assert_closes_the_channel(client, mistake)
    assert client.counts("q") == (0, 0)


def test_a_delivery_tag_of_another_channel(client: Client) -> None:
    client.declare("q")
    client.send(publish("q"))
    client.expect_type(1, BasicAck)
    client.open_channel(3)
    client.send_methods(3, BasicGet(queue="q"))
    client.read_method(3)
    client.read_content(3)
    assert_closes_the_channel(client, Mistake("", BasicAck(1), 406, unknown(1)))


def test_a_run_of_acks_one_of_which_is_unknown_settles_those_before_it(client: Client) -> None:
    client.declare("q")
    client.send(publish("q") * 3)
    client.expect(1, BasicAck(3, True))
    assert client.ask(1, BasicConsume(queue="q", consumer_tag="c")) == BasicConsumeOk("c")
    for tag in (1, 2, 3):
        client.expect(1, BasicDeliver("c", tag, False, "", "q"))
        client.read_content(1)
    wrong = methods_of(1, BasicAck(1), BasicAck(2), BasicAck(7), BasicAck(3))
    assert_closes_the_channel(client, Mistake("", wrong, 406, unknown(7), ids=(60, 80)))
    assert client.counts("q") == (1, 0)


@pytest.mark.parametrize("method", [BasicAck(0, True), BasicNack(0, True)])
def test_tag_0_with_multiple_never_fails(client: Client, method: BasicAck) -> None:
    client.send_methods(1, method)
    client.nothing_more()


# --- Consuming

EXCLUSIVE = "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"
REUSED = "NOT_ALLOWED - attempt to reuse consumer tag 'c'"


@parametrized(
    Mistake(
        "second where an exclusive one is",
        BasicConsume(queue="q"),
        403,
        EXCLUSIVE,
        [Q, BasicConsume(queue="q", exclusive=True)],
    ),
    Mistake(
        "exclusive where another is",
        BasicConsume(queue="q", exclusive=True),
        403,
        EXCLUSIVE,
        [Q, BasicConsume(queue="q")],
    ),
    Mistake(
        "exclusive where one is active alone",
        BasicConsume(queue="q", exclusive=True),
        403,
        EXCLUSIVE,
        [QueueDeclare(queue="q", arguments={"x-single-active-consumer": Field("bool", True)})],
    ),
)
def test_an_exclusive_consumer_is_alone(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


def test_an_exclusive_consumer_is_alone_across_connections(connect: Callable[..., Client]) -> None:
    first, second = connect(), connect()
    first.open_channel()
    second.open_channel()
    first.declare("q")
    consume = BasicConsume(queue="q", consumer_tag="c", exclusive=True)
    assert first.ask(1, consume) == BasicConsumeOk("c")
    assert_closes_the_channel(second, Mistake("", BasicConsume(queue="q"), 403, EXCLUSIVE))
    first.drop()
    second.wait_for_counts("q", (0, 0))
    assert second.ask(1, consume) == BasicConsumeOk("c")


@parametrized(
    Mistake(
        "tag used again",
        BasicConsume(queue="q", consumer_tag="c"),
        530,
        REUSED,
        [Q, BasicConsume(queue="q", consumer_tag="c")],
    ),
    Mistake("prefetch size", BasicQos(1, 0), 540, "NOT_IMPLEMENTED - prefetch_size!=0 (1)"),
    Mistake("recover", BasicRecover(False), 540, "NOT_IMPLEMENTED - requeue=false"),
    Mistake("recover async", BasicRecoverAsync(False), 540, "NOT_IMPLEMENTED - requeue=false"),
    Mistake(
        "tag used again where there is no queue",
        BasicConsume(queue="missing", consumer_tag="c"),
        530,
        REUSED,
        [Q, BasicConsume(queue="q", consumer_tag="c")],
    ),
)
def test_a_consumer_s_mistake_that_closes_the_connection(client: Client, mistake: Mistake) -> None:
    assert_closes_the_connection(client, mistake)


# --- Publishing


def unknown_delivery_mode(mode: int) -> Mistake:
    culprit = publish("q", b"", Properties(delivery_mode=mode))
    text = f"PRECONDITION_FAILED - invalid message: {{delivery_mode_unknown,{mode}}}"
    return Mistake(f"delivery mode {mode}", culprit, 406, text, [Q], PUBLISH)


def invalid_expiration(value: str, reason: str) -> Mistake:
    culprit = publish("q", b"", Properties(expiration=value))
    text = f"PRECONDITION_FAILED - invalid expiration '{value}': {reason}"
    return Mistake(f"{value} {reason}", culprit, 406, text, [Q], PUBLISH)


@parametrized(*(unknown_delivery_mode(mode) for mode in (0, 3, 255)))
def test_a_delivery_mode(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)
    assert client.counts("q") == (0, 0)


@parametrized(
    invalid_expiration("abc", "no_integer"),
    invalid_expiration("", "no_integer"),
    invalid_expiration("10x", '{leftover_string,"x"}'),
    invalid_expiration("-1", "{value_negative,-1}"),
    invalid_expiration("315360000001", "{value_too_large,315360000001}"),
)
def test_an_expiration(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)
    assert client.counts("q") == (0, 0)


def unacceptable(name: str, field: Field) -> Mistake:
    culprit = publish("q", b"", Properties(headers={name: field}))
    reason = f'{{unacceptable_type_in_header,"{name}",{field.kind}}}'
    text = f"PRECONDITION_FAILED - invalid message: {reason}"
    return Mistake(f"{name} {field.kind}", culprit, 406, text, [Q], PUBLISH)


@parametrized(
    unacceptable("CC", Field("longstr", "a")),
    unacceptable("CC", Field("table", {})),
    unacceptable("BCC", Field("signedint", 1)),
)
def test_further_routing_keys_that_are_no_array(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)
    assert client.counts("q") == (0, 0)


USER = "PRECONDITION_FAILED - user_id property set to 'a' but authenticated user was 'guest'"


def test_a_user_id_of_another_user(client: Client) -> None:
    culprit = publish("q", b"", Properties(user_id="a"))
    assert_closes_the_channel(client, Mistake("", culprit, 406, USER, ids=PUBLISH))


def test_a_user_id_of_one_s_own_is_no_mistake(client: Client) -> None:
    client.declare("q")
    client.send(publish("q", b"", Properties(user_id="guest")))
    client.expect(1, BasicAck(1, False))


def test_publishes_before_a_mistake_in_the_same_read_are_confirmed(
    client: Client,
) -> None:
    client.declare("q")
    client.send(publish("q") * 2, publish("q", b"", Properties(user_id="a")), publish("q"))
    # The queue's confirm may come too late for a channel that has closed: so it is counted.
    close = client.read_method(1)
    assert close == ChannelClose(406, USER, *PUBLISH)
    client.open_channel(2)
    assert client.counts("q", 2) == (2, 0)


@parametrized(
    Mistake(
        "immediate",
        publish("q", immediate=True),
        540,
        "NOT_IMPLEMENTED - immediate=true",
        [Q],
        PUBLISH,
    ),
    Mistake(
        "body of a size that nobody takes",
        methods_of(1, BasicPublish(routing_key="q")) + content_header(1, 536_870_913),
        501,
        "FRAME_ERROR - content body size 536870913 exceeds maximum allowed size 536870912",
        ids=PUBLISH,
    ),
)
def test_a_publish_that_closes_the_connection(client: Client, mistake: Mistake) -> None:
    assert_closes_the_connection(client, mistake)
