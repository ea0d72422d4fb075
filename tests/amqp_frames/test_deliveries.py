"""Frames on the way out, as pamqp reads them and byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pamqp.body
import pamqp.commands
import pamqp.frame
import pamqp.header
import pytest
from decoding import Publish, split_frames
from hypothesis import given
from hypothesis import strategies as st
from leveret.amqp_frames.constants import FRAME_BODY
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.messages.deliveries import (
    BASIC_ACK,
    BASIC_NACK,
    encode_answers,
    encode_deliveries,
    encode_get_ok,
    encode_returns,
    encode_tagged_return,
)
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    BasicReturn,
    encode_method,
)
from leveret.amqp_frames.properties import Properties, encode_properties

TAG = b"\3tag"
PERSISTENT = encode_properties(Properties(delivery_mode=2, headers={"a": 1}, app_id="us"))

Command = pamqp.commands.Basic


class Sent(NamedTuple):
    """A method with its content, as pamqp reads it."""

    method: object
    channel: int
    properties: dict[str, object] | None
    body: bytes | None


def read(wire: bytes) -> Iterator[Sent]:
    """Decode with pamqp; every content must be whole."""
    while wire:
        used, channel, method = pamqp.frame.unmarshal(wire)
        wire = wire[used:]
        if isinstance(method, (Command.Ack, Command.Nack)):
            yield Sent(method, channel, None, None)
            continue
        used, content_channel, header = pamqp.frame.unmarshal(wire)
        wire = wire[used:]
        assert content_channel == channel
        assert isinstance(header, pamqp.header.ContentHeader)
        body = b""
        while len(body) < header.body_size:
            used, content_channel, part = pamqp.frame.unmarshal(wire)
            wire = wire[used:]
            assert content_channel == channel
            assert isinstance(part, pamqp.body.ContentBody)
            assert part.value
            body += part.value
        yield Sent(method, channel, dict(header.properties), body)


def batch_of(*publishes: Publish) -> Batch:
    return decode_publishes(b"".join(publish.wire() for publish in publishes))


def names(key: bytes) -> tuple[str, str]:
    exchange_end = 1 + key[0]
    return key[1:exchange_end].decode(), key[exchange_end + 1 : -1].decode()


def properties_of(publish: Publish) -> dict[str, object]:
    header = pamqp.frame.unmarshal(publish.frames()[1])[2]
    assert isinstance(header, pamqp.header.ContentHeader)
    return dict(header.properties)


PUBLISHES = st.lists(
    st.builds(
        Publish,
        body=st.one_of(st.binary(max_size=50), st.just(bytes(9000))),
        key=st.sampled_from([b"\0\1q\0", b"\1x\5a.b.c\1", b"\0\0\0"]),
        properties=st.sampled_from([b"\0\0", PERSISTENT]),
        channel=st.just(3),
        part_bytes=st.sampled_from([4088, 131_064, 20]),
    ),
    min_size=1,
    max_size=8,
)


@given(
    PUBLISHES,
    st.integers(1, 2**64 - 100),
    st.booleans(),
    st.sampled_from([3, 1, 65_535]),
    st.sampled_from([0, 4096, 131_072]),
    st.data(),
)
def test_deliveries_are_read_by_pamqp_as_they_were_published(
    publishes: list[Publish],
    first_tag: int,
    redelivered: bool,
    channel: int,
    frame_max_bytes: int,
    data: st.DataObject,
) -> None:
    indexes = data.draw(st.sets(st.integers(0, len(publishes) - 1)).map(sorted))
    chosen = data.draw(
        st.sampled_from([indexes, range(len(publishes)), range(0, len(publishes), 2)])
    )
    wire = encode_deliveries(
        batch_of(*publishes), chosen, first_tag, TAG, redelivered, channel, frame_max_bytes
    )
    frames = list(split_frames(wire))
    if frame_max_bytes:
        assert all(len(payload) + 8 <= frame_max_bytes for _, _, payload in frames)
    deliveries = list(read(wire))
    for number, (index, sent) in enumerate(zip(chosen, deliveries, strict=True)):
        publish = publishes[index]
        method = sent.method
        assert isinstance(method, Command.Deliver)
        # pamqp reads a longlong as signed.
        assert method.delivery_tag % 2**64 == first_tag + number
        assert (method.exchange, method.routing_key) == names(publish.key)
        assert (method.consumer_tag, method.redelivered) == ("tag", redelivered)
        assert sent[1:] == (channel, properties_of(publish), publish.body)


def test_content_passes_as_it_came_on_a_channel_of_the_same_number() -> None:
    publish = Publish(b"x" * 9000, properties=PERSISTENT, part_bytes=4088)
    wire = encode_deliveries(batch_of(publish, publish), range(2), 8, TAG, False, 1, 4096)
    _method, *content = publish.frames()
    key = publish.key[:-1]
    deliver = b"\0\x3c\0\x3c" + TAG + bytes(7) + b"\x08\0" + key
    again = b"\0\x3c\0\x3c" + TAG + bytes(7) + b"\x09\0" + key
    assert wire == b"".join(
        b"\1\0\1" + len(each).to_bytes(4, "big") + each + b"\xce" + b"".join(content)
        for each in (deliver, again)
    )


def test_another_channel_number_changes_nothing_else() -> None:
    publish = Publish(b"x" * 9000, properties=PERSISTENT)
    other = publish._replace(channel=7)
    for part in (publish, publish._replace(part_bytes=100), publish._replace(body=b"")):
        other = part._replace(channel=7)
        assert encode_deliveries(batch_of(part), range(1), 1, TAG, False, 7, 0) == (
            encode_deliveries(batch_of(other), range(1), 1, TAG, False, 7, 0)
        )


@pytest.mark.parametrize("channel", [1, 7])
@pytest.mark.parametrize("part_bytes", [131_064, 5000, 4089])
def test_a_body_is_split_anew_for_a_smaller_frame_max(channel: int, part_bytes: int) -> None:
    publish = Publish(bytes(10_000), part_bytes=part_bytes)
    wire = encode_deliveries(batch_of(publish), range(1), 1, TAG, False, channel, 4096)
    sizes = [len(payload) for kind, _, payload in split_frames(wire) if kind == FRAME_BODY]
    assert sizes == [4088, 4088, 1824]
    (sent,) = read(wire)
    assert sent.body == publish.body


def test_frames_that_used_the_tolerance_are_split_for_a_consumer_who_has_none() -> None:
    publish = Publish(bytes(4096))
    wire = encode_deliveries(batch_of(publish), range(1), 1, TAG, False, 1, 4096)
    sizes = [len(payload) for kind, _, payload in split_frames(wire) if kind == FRAME_BODY]
    assert sizes == [4088, 8]


def test_a_batch_of_mixed_channels_is_for_none_of_them_as_it_is() -> None:
    batch = batch_of(Publish(b"one", channel=1), Publish(b"two", channel=2))
    for channel in (1, 2):
        wire = encode_deliveries(batch, range(2), 1, TAG, False, channel, 0)
        assert [(sent.channel, sent.body) for sent in read(wire)] == [
            (channel, b"one"),
            (channel, b"two"),
        ]


def test_only_the_keys_that_are_delivered_are_encoded() -> None:
    publishes = [Publish(b"%d" % number, b"\0\3%03d\0" % number) for number in range(300)]
    wire = encode_deliveries(batch_of(*publishes), [7, 250], 1, TAG, False, 1, 0)
    deliveries = [sent.method for sent in read(wire)]
    assert [(each.routing_key, each.delivery_tag) for each in deliveries] == [
        ("007", 1),
        ("250", 2),
    ]


def test_nothing_delivered_is_no_bytes() -> None:
    batch = batch_of(Publish())
    assert encode_deliveries(batch, range(0), 1, TAG, False, 1, 0) == b""
    assert encode_returns(batch, range(0), 1, 1, 0) == b""
    assert encode_answers(1, BASIC_ACK, 0, ()) == b""


@pytest.mark.parametrize("channel", [1, 9])
@pytest.mark.parametrize("redelivered", [False, True])
def test_get_ok_says_what_is_left(channel: int, redelivered: bool) -> None:
    publish = Publish(b"body", b"\1x\1k\0", PERSISTENT)
    wire = encode_get_ok(batch_of(Publish(), publish), 1, 5, redelivered, 70_000, channel, 4096)
    (sent,) = read(wire)
    method = sent.method
    assert isinstance(method, Command.GetOk)
    assert (method.delivery_tag, method.redelivered, method.message_count) == (
        5,
        redelivered,
        70_000,
    )
    assert (method.exchange, method.routing_key) == ("x", "k")
    assert sent[1:] == (channel, properties_of(publish), b"body")


@given(PUBLISHES, st.sampled_from([3, 1]), st.sampled_from([0, 4096]), st.data())
def test_each_return_has_its_ack_directly_behind_it(
    publishes: list[Publish], channel: int, frame_max_bytes: int, data: st.DataObject
) -> None:
    indexes = data.draw(st.sets(st.integers(0, len(publishes) - 1)).map(sorted))
    wire = encode_returns(batch_of(*publishes), indexes, 100, channel, frame_max_bytes)
    sent = list(read(wire))
    assert len(sent) == 2 * len(indexes)
    for index, returned, ack in zip(indexes, sent[::2], sent[1::2], strict=True):
        publish = publishes[index]
        assert isinstance(returned.method, Command.Return)
        assert isinstance(ack.method, Command.Ack)
        assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
        assert (returned.method.exchange, returned.method.routing_key) == names(publish.key)
        assert returned[1:] == (channel, properties_of(publish), publish.body)
        assert (ack.channel, ack.method.delivery_tag, ack.method.multiple) == (
            channel,
            100 + index,
            False,
        )


def test_outside_confirm_mode_a_return_has_no_ack() -> None:
    sent = list(read(encode_returns(batch_of(Publish(), Publish()), range(2), 0, 1, 0)))
    assert [type(each.method) for each in sent] == [Command.Return] * 2


def test_a_return_is_as_the_specification_has_it() -> None:
    publish = Publish(b"b", b"\1x\3key\1")
    _, *content = publish.frames()
    assert encode_returns(batch_of(publish), range(1), 4, 1, 0) == b"".join(
        (
            encode_method(1, BasicReturn(312, "NO_ROUTE", "x", "key")),
            *content,
            encode_method(1, BasicAck(4)),
        )
    )


@pytest.mark.parametrize("channel", [1, 2])
def test_a_tagged_return_has_other_properties_and_the_same_body(channel: int) -> None:
    publish = Publish(bytes(9000), properties=PERSISTENT)
    properties = encode_properties(Properties(message_id="other"))
    wire = encode_tagged_return(batch_of(Publish(), publish), 1, 40, channel, 4096, properties)
    returned, ack = read(wire)
    assert isinstance(returned.method, Command.Return)
    assert {name: value for name, value in (returned.properties or {}).items() if value} == {
        "message_id": "other"
    }
    assert returned.body == publish.body
    assert isinstance(ack.method, Command.Ack)
    assert ack.method.delivery_tag == 41


def test_answers_are_the_cumulative_one_and_then_each_of_the_others() -> None:
    assert encode_answers(5, BASIC_ACK, 10, [(12, 12), (14, 16)]) == b"".join(
        encode_method(5, BasicAck(tag, multiple))
        for tag, multiple in ((10, True), (12, False), (14, False), (15, False), (16, False))
    )


def test_a_nack_of_a_publish_has_the_requeue_bit_as_rabbitmqs_has() -> None:
    assert encode_answers(1, BASIC_NACK, 3, [(5, 5)]) == encode_method(
        1, BasicNack(3, True, True)
    ) + encode_method(1, BasicNack(5, False, True))


def test_the_bits_of_a_publish_are_not_those_of_its_delivery() -> None:
    for bits in (b"\0", b"\1", b"\3"):
        wire = encode_deliveries(
            batch_of(Publish(key=b"\0\1q" + bits)), range(1), 1, TAG, True, 1, 0
        )
        assert wire.startswith(encode_method(1, BasicDeliver("tag", 1, True, "", "q")))
