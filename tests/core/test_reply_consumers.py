"""Direct reply-to in the rules: names, rewriting, and the indexes that are a consumer's."""

from __future__ import annotations

import pytest
from batches import batch_of
from leveret.amqp_frames.errors import SoftError
from leveret.amqp_frames.methods import BasicAck, BasicReturn
from leveret.amqp_frames.properties import (
    Properties,
    decode_properties,
    encode_properties,
    must_look,
)
from leveret.amqp_frames.values.field_table import Field
from leveret.core.exchanges.table import carry_out
from leveret.core.publishing.properties import PublishProperties
from leveret.core.publishing.reply_consumers import (
    REPLY_TO,
    ReplyConsumers,
    reply_names,
)
from publishing import confirm_all, indexes_by_queue, methods
from wire import publish

NAME = REPLY_TO + ".secret"
ASKING = Properties(reply_to=REPLY_TO, correlation_id="7")


def test_a_name_is_found_until_it_is_removed() -> None:
    consumers = ReplyConsumers()
    name = consumers.add("secret", "channel")
    assert name == NAME
    assert consumers.find(name) == "channel"
    assert consumers.exists(name)
    consumers.remove(name)
    assert consumers.find(name) is None
    assert not consumers.exists(name)
    assert consumers.exists(REPLY_TO)


def test_keys_that_are_names_of_consumers_lead_to_these() -> None:
    keys = ("q", REPLY_TO, NAME, NAME, REPLY_TO + "x")
    assert reply_names("", keys) == (NAME,)
    assert reply_names("amq.direct", keys) == ()


@pytest.mark.parametrize(
    ("reply_to", "must"),
    [(REPLY_TO, True), (NAME, False), ("queue", False), ("amq.rabbitmq.reply", False)],
)
def test_only_requests_are_looked_into(reply_to: str, must: bool) -> None:
    assert must_look(encode_properties(Properties(reply_to=reply_to)), 0) is must


def test_a_request_gets_the_name_of_its_channel_s_consumer_and_keeps_all_else() -> None:
    properties = PublishProperties("guest", lambda: False)
    properties.set_reply_name(NAME)
    headers = {"BCC": Field("array", []), "x": Field("long", 1)}
    rewritten = properties.look(encode_properties(ASKING._replace(headers=headers))).rewritten
    assert rewritten is not None
    expected = ASKING._replace(headers={"x": Field("long", 1)}, reply_to=NAME)
    assert decode_properties(rewritten, 0, len(rewritten)) == expected


def test_without_a_consumer_a_request_is_refused_before_all_else() -> None:
    properties = PublishProperties("guest", lambda: False)
    properties.set_reply_name(NAME)
    asking = encode_properties(ASKING)
    assert properties.look(asking).error is None
    properties.set_reply_name("")
    for wrong in (asking, encode_properties(ASKING._replace(expiration="x", user_id="other"))):
        error = properties.look(wrong).error
        assert isinstance(error, SoftError)
        assert error.reply_text == "PRECONDITION_FAILED - fast reply consumer does not exist"


def test_replies_are_divided_by_name_and_owed_by_nobody(commands, publisher) -> None:
    commands.declare_queue()
    other = REPLY_TO + ".other"
    wires = [publish(key) for key in (NAME, "q", other, NAME, "nowhere")]
    routed = carry_out(publisher.route(batch_of(*wires)))
    assert {name: list(indexes) for name, indexes in routed.replies.items()} == {
        NAME: [0, 3],
        other: [2],
    }
    assert indexes_by_queue(routed) == {"q": [1]}
    confirm_all(publisher, routed.batch, routed)
    assert methods(publisher.answers()) == [BasicAck(5, True)]
    assert carry_out(publisher.route(batch_of(publish("q")))).replies == {}


def test_a_copy_for_a_consumer_beside_a_queue(commands, publisher) -> None:
    commands.declare_queue()
    headers = {"CC": Field("array", [Field("longstr", NAME)])}
    routed = carry_out(
        publisher.route(batch_of(publish("q", properties=Properties(headers=headers))))
    )
    assert (indexes_by_queue(routed), list(routed.replies)) == ({"q": [0]}, [NAME])


def test_a_mandatory_reply_is_returned_though_it_is_a_reply(publisher) -> None:
    routed = carry_out(publisher.route(batch_of(publish(NAME, mandatory=True))))
    assert list(routed.replies) == [NAME]
    assert methods(routed.frames) == [BasicReturn(312, "NO_ROUTE", "", NAME), BasicAck(1)]


def test_replies_behind_a_mistake_are_not_delivered(publisher) -> None:
    wires = [publish(NAME), publish("k", exchange="missing"), publish(NAME)]
    routed = carry_out(publisher.route(batch_of(*wires)))
    assert list(routed.replies[NAME]) == [0]
