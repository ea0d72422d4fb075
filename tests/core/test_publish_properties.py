"""Properties of a publish that concern the broker: keys in CC and BCC, and mistakes."""

from __future__ import annotations

import pytest
from leveret.amqp_frames.errors import SoftError
from leveret.amqp_frames.properties import (
    Properties,
    decode_properties,
    encode_properties,
    must_look,
)
from leveret.amqp_frames.values.field_table import Field
from leveret.core.publishing.properties import Looked, PublishProperties


def look(properties: Properties) -> Looked:
    return PublishProperties("guest", lambda: False).look(encode_properties(properties))


def keys(*names: str) -> Field:
    return Field("array", [Field("longstr", name) for name in names])


def test_cc_and_bcc_add_routing_keys_each_once() -> None:
    looked = look(Properties(headers={"BCC": keys("c", "a"), "CC": keys("a", "b", "a")}))
    assert looked.routing_keys == ("a", "b", "c")


def test_bcc_is_taken_out_and_all_else_stays() -> None:
    headers = {"x": Field("long", 7), "CC": keys("a"), "BCC": keys("b")}
    properties = Properties(content_type="text/plain", headers=headers, delivery_mode=2)
    rewritten = look(properties).rewritten
    assert rewritten is not None
    del headers["BCC"]
    assert decode_properties(rewritten, 0, len(rewritten)) == properties._replace(headers=headers)


def test_headers_that_were_bcc_alone_are_an_empty_table() -> None:
    rewritten = look(Properties(headers={"BCC": keys()})).rewritten
    assert rewritten == encode_properties(Properties(headers={}))


def test_cc_alone_rewrites_nothing() -> None:
    assert look(Properties(headers={"CC": keys("a")})).rewritten is None


def test_array_items_that_are_no_strings_are_passed_over() -> None:
    array = Field("array", [Field("long", 1), Field("longstr", "a"), Field("void", None)])
    assert look(Properties(headers={"CC": array})).routing_keys == ("a",)


def test_a_key_that_is_not_utf8_is_a_key() -> None:
    array = Field("array", [Field("longstr", b"\xff")])
    assert look(Properties(headers={"CC": array})).routing_keys == ("\udcff",)


@pytest.mark.parametrize("name", ["CC", "BCC"])
@pytest.mark.parametrize(
    "field", [Field("longstr", "a"), Field("signedint", 1), Field("table", {}), Field("void", None)]
)
def test_a_value_that_is_no_array_is_refused_with_its_type(name: str, field: Field) -> None:
    error = look(Properties(headers={name: field})).error
    assert isinstance(error, SoftError)
    assert error.reply_text == (
        "PRECONDITION_FAILED - invalid message: "
        f'{{unacceptable_type_in_header,"{name}",{field.kind}}}'
    )


def test_the_first_of_several_mistakes_in_rabbitmq_s_order_is_reported() -> None:
    headers = {"CC": Field("long", 1), "BCC": Field("long", 1)}
    everything = Properties(expiration="abc", headers=headers, user_id="other")
    texts = []
    for properties in (
        everything,
        everything._replace(expiration=None),
        Properties(headers={"BCC": headers["BCC"]}, user_id="other"),
        Properties(user_id="other"),
    ):
        error = look(properties).error
        assert error is not None
        texts.append(error.reply_text.split(" - ")[1])
    assert texts == [
        "invalid expiration 'abc': no_integer",
        'invalid message: {unacceptable_type_in_header,"CC",long}',
        'invalid message: {unacceptable_type_in_header,"BCC",long}',
        "user_id property set to 'other' but authenticated user was 'guest'",
    ]


def test_properties_that_were_found_last_are_not_looked_for_again() -> None:
    checked = PublishProperties("guest", lambda: False)
    octets = encode_properties(Properties(headers={"CC": keys("a")}))
    first = checked.look(octets)
    assert checked.look(octets) is first


@pytest.mark.parametrize(
    ("properties", "must"),
    [
        (Properties(), False),
        (Properties(headers={"a": Field("long", 1)}, delivery_mode=2, priority=3), False),
        (Properties(message_id="\2CC"), False),
        (Properties(delivery_mode=1), False),
        (Properties(delivery_mode=0), True),
        (Properties(delivery_mode=3), True),
        (Properties(headers={"CC": keys("a")}), True),
        (Properties(headers={"a": Field("long", 1), "BCC": keys()}), True),
        (Properties(expiration="1"), True),
        (Properties(user_id="guest"), True),
    ],
)
def test_flags_and_names_decide_which_messages_are_examined(
    properties: Properties, must: bool
) -> None:
    assert must_look(encode_properties(properties), properties.delivery_mode or 0) is must


def test_an_impersonator_may_name_any_user() -> None:
    checked = PublishProperties("guest", lambda: True)
    assert checked.look(encode_properties(Properties(user_id="other"))) == Looked()
