"""Mistakes with direct reply-to: each with its code and its words."""

from __future__ import annotations

from leveret.amqp_frames.methods import BasicCancel, BasicConsume, BasicGet, QueueDeclare
from leveret.amqp_frames.properties import Properties
from mistakes import (
    Mistake,
    assert_closes_the_channel,
    assert_closes_the_connection,
    parametrized,
)
from replies import REPLY_TO
from wire import Client, publish

PUBLISH = (60, 40)
Q = QueueDeclare(queue="q")
REUSED = "NOT_ALLOWED - attempt to reuse consumer tag 'c'"
TAKE_REPLIES = BasicConsume(queue=REPLY_TO, consumer_tag="r", no_ack=True)


@parametrized(
    Mistake(
        "a request without a consumer",
        publish("q", b"", Properties(reply_to=REPLY_TO)),
        406,
        "PRECONDITION_FAILED - fast reply consumer does not exist",
        [Q],
        PUBLISH,
    ),
    Mistake(
        "a request after the cancel",
        publish("q", b"", Properties(reply_to=REPLY_TO)),
        406,
        "PRECONDITION_FAILED - fast reply consumer does not exist",
        [TAKE_REPLIES, BasicCancel("r")],
        PUBLISH,
    ),
    Mistake(
        "a consumer that acknowledges",
        BasicConsume(queue=REPLY_TO),
        406,
        "PRECONDITION_FAILED - reply consumer cannot acknowledge",
    ),
    Mistake(
        "a second consumer",
        BasicConsume(queue=REPLY_TO, no_ack=True),
        406,
        "PRECONDITION_FAILED - reply consumer already set",
        [TAKE_REPLIES],
    ),
    Mistake(
        "a second one that acknowledges",
        BasicConsume(queue=REPLY_TO),
        406,
        "PRECONDITION_FAILED - reply consumer cannot acknowledge",
        [TAKE_REPLIES],
    ),
    Mistake(
        "get",
        BasicGet(queue=REPLY_TO),
        404,
        f"NOT_FOUND - no queue '{REPLY_TO}' in vhost '/'",
    ),
    Mistake(
        "declare of a consumer that is not there",
        QueueDeclare(queue=REPLY_TO + ".gone"),
        404,
        f"NOT_FOUND - no queue '{REPLY_TO}.gone' in vhost '/'",
    ),
    Mistake(
        "declare of a name that only looks so",
        QueueDeclare(queue=REPLY_TO + "x", no_wait=True),
        404,
        f"NOT_FOUND - no queue '{REPLY_TO}x' in vhost '/'",
    ),
)
def test_a_mistake_in_asking_for_direct_replies(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


@parametrized(
    Mistake(
        "reply consumer",
        BasicConsume(queue=REPLY_TO, consumer_tag="c", no_ack=True),
        530,
        REUSED,
        [Q, BasicConsume(queue="q", consumer_tag="c")],
    ),
    Mistake(
        "its tag",
        BasicConsume(queue="missing", consumer_tag="r"),
        530,
        "NOT_ALLOWED - attempt to reuse consumer tag 'r'",
        [TAKE_REPLIES],
    ),
)
def test_a_tag_is_one_consumer_s(client: Client, mistake: Mistake) -> None:
    assert_closes_the_connection(client, mistake)
