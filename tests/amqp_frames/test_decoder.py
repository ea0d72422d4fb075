"""The decoder on valid input: each case whole, byte by byte and with more behind it."""

from __future__ import annotations

import pamqp.body
import pamqp.commands
import pamqp.frame
import pamqp.header
import pytest
from decoding import (
    Between,
    Message,
    Publish,
    ack,
    body_frames,
    byte_by_byte,
    content_header,
    decoded,
    decoder,
    frame,
    publish_method,
    three_ways,
)
from leveret.amqp_frames.constants import FRAME_BODY, HEARTBEAT_FRAME
from leveret.amqp_frames.decoder import Begun, ChannelInput, MethodFrame
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    ChannelOpen,
    ConnectionCloseOk,
    ConnectionTuneOk,
    QueueDeclare,
    TxCommit,
    encode_method,
)

PERSISTENT = b"\x10\0\2"
OPEN = encode_method(1, ChannelOpen())


def test_a_publish_gives_its_names_its_properties_and_its_body() -> None:
    publish = Publish(b"a body", b"\1x\3key\1", PERSISTENT)
    assert three_ways(publish.wire()).publishes() == [Message(b"\1x\3key\1", PERSISTENT, b"a body")]


def test_an_empty_body_needs_no_body_frame() -> None:
    publish = Publish(b"")
    assert three_ways(publish.wire()).publishes() == [publish.message()]
    run = publish.wire() * 5
    assert three_ways(run).publishes() == [publish.message()] * 5


@pytest.mark.parametrize("part_bytes", [1, 7, 100, 4088])
def test_a_body_in_many_frames_is_one_body(part_bytes: int) -> None:
    publish = Publish(bytes(range(256)) * 4, part_bytes=part_bytes)
    assert three_ways(publish.wire() * 3).publishes() == [publish.message()] * 3


def test_a_body_frame_without_a_body_adds_nothing_and_is_not_kept() -> None:
    empty = frame(FRAME_BODY, b"")
    parts = body_frames(b"abcd", 2)
    wire = publish_method(b"\0\5queue\0") + content_header(4)
    wire += empty + parts[0] + empty * 3 + parts[1]
    reading = decoder()
    begun, event = reading.feed(wire)
    assert begun == Begun(1)
    assert isinstance(event, ChannelInput)
    assert event.batch is not None
    assert event.batch.wire == Publish(b"abcd", part_bytes=2).wire()
    assert three_ways(wire).publishes() == [Message(b"\0\5queue\0", b"\0\0", b"abcd")]


@pytest.mark.parametrize("part_bytes", [4088, 65_536, 131_064])
@pytest.mark.parametrize("read_bytes", [997, 65_536, 1 << 20])
def test_a_large_body_may_take_many_reads(part_bytes: int, read_bytes: int) -> None:
    large = Publish(bytes(300_000), part_bytes=part_bytes)
    small = Publish()
    wire = (small.wire() + large.wire()) * 2
    reads = [wire[at : at + read_bytes] for at in range(0, len(wire), read_bytes)]
    assert decoded(reads).publishes() == [small.message(), large.message()] * 2


def test_a_large_read_behind_a_begun_publish_is_taken_once() -> None:
    large = Publish(b"\xce" * 100_000, part_bytes=131_064)
    head, *_ = large.wire().partition(b"\xce" * 100)
    for waits in (1, 30, len(head)):
        wire = large.wire()
        reads = [wire[:waits], wire[waits : waits + 70_000], wire[waits + 70_000 :]]
        assert decoded(reads).publishes() == [large.message()]


def test_publishes_of_one_read_are_one_batch_over_its_bytes() -> None:
    wire = Publish(b"one", b"\0\1a\0").wire() + Publish(b"two", b"\0\1b\0").wire() * 2
    (event,) = decoder().feed(wire)
    assert isinstance(event, ChannelInput)
    assert event.batch is not None
    assert event.batch.wire is wire
    assert event.batch.distinct == [b"\0\1a\0", b"\0\1b\0"]
    assert list(event.batch.keys) == [0, 1, 1]
    assert event.batch.contiguous


def test_channels_that_take_turns_have_a_batch_each() -> None:
    publishes = [Publish(b"%d" % at, channel=1 + at % 3) for at in range(30)]
    wire = b"".join(publish.wire() for publish in publishes)
    events = decoder().feed(wire)
    assert [event.channel_number for event in events] == [1, 2, 3]
    result = three_ways(wire)
    for channel in (1, 2, 3):
        expected = [each.message() for each in publishes if each.channel == channel]
        assert result.publishes(channel) == expected


def test_frames_of_other_channels_may_stand_between_those_of_one_publish() -> None:
    one = Publish(b"11111111", channel=1, part_bytes=2).frames()
    two = Publish(b"2222", channel=2, part_bytes=1).frames()
    three = Publish(b"3", channel=3).frames()
    wire = b"".join(b"".join(each) for each in zip(one, two, strict=True)) + b"".join(three)
    wire = wire[: len(one[0])] + b"".join(three) + wire[len(one[0]) :]
    result = three_ways(wire)
    assert [len(result.publishes(channel)) for channel in (1, 2, 3)] == [1, 1, 2]
    assert result.publishes(1) == [Message(b"\0\5queue\0", b"\0\0", b"11111111")]


@pytest.mark.parametrize(
    "between",
    [
        HEARTBEAT_FRAME,
        ack(5),
        Publish(channel=2).wire(),
        encode_method(2, QueueDeclare(queue="q")),
        ack(1, channel=2),
        encode_method(0, ConnectionTuneOk(0, 0, 0)),
    ],
)
def test_what_is_no_method_of_the_channel_does_not_end_its_batch(between: bytes) -> None:
    publish = Publish()
    wire = publish.wire() + between + publish.wire()
    events = decoder().feed(wire)
    batches = [
        event.batch
        for event in events
        if isinstance(event, ChannelInput) and event.channel_number == 1
    ]
    assert [len(batch) for batch in batches if batch is not None] == [2]
    assert three_ways(wire).publishes() == [publish.message()] * 2


def test_a_method_ends_the_batch_of_its_channel() -> None:
    publish = Publish()
    commit = encode_method(1, TxCommit())
    result = three_ways(publish.wire() + ack(7) + commit + publish.wire())
    assert result.channels[1] == [
        Between([publish.message()], [(7, False)]),
        TxCommit(),
        Between([publish.message()], []),
    ]


def test_publishes_stand_before_acks_within_one_input() -> None:
    publish = Publish()
    (event,) = decoder().feed(ack(1) + publish.wire() + ack(2, True) + publish.wire())
    assert isinstance(event, ChannelInput)
    assert event.batch is not None
    assert event.acks is not None
    assert len(event.batch) == 2
    assert not event.batch.contiguous
    assert list(event.acks.tags) == [1, 2]
    assert list(event.acks.multiples) == [0, 1]


def test_acks_keep_their_order_and_their_multiple_bits() -> None:
    tags = [(1, False), (2, False), (9, True), (9, True), (2**64 - 1, False), (0, True)]
    wire = b"".join(ack(tag, multiple) for tag, multiple in tags)
    assert three_ways(wire).acks() == tags


def test_bits_of_an_ack_beyond_the_first_mean_nothing() -> None:
    wire = bytearray(ack(3))
    wire[-2] = 0xFE
    assert three_ways(bytes(wire)).acks() == [(3, False)]


def test_a_nack_is_a_method() -> None:
    nack = BasicNack(4, True, False)
    assert three_ways(ack(1) + encode_method(1, nack) + ack(2)).channels[1] == [
        Between([], [(1, False)]),
        nack,
        Between([], [(2, False)]),
    ]


def test_methods_come_in_the_order_of_the_wire() -> None:
    methods = [(1, ChannelOpen()), (0, ConnectionCloseOk()), (2, QueueDeclare()), (1, TxCommit())]
    wire = b"".join(encode_method(channel, method) for channel, method in methods)
    assert three_ways(wire).methods == methods


def test_heartbeats_are_no_events() -> None:
    assert decoder().feed(HEARTBEAT_FRAME * 3) == []
    assert three_ways(HEARTBEAT_FRAME * 3 + OPEN).methods == [(1, ChannelOpen())]


def test_a_whole_frame_is_decoded_although_a_publish_before_it_is_not_whole() -> None:
    for sent in (1, 2, 3):
        begun = b"".join(Publish(b"12345678", part_bytes=4).frames()[:sent])
        for more in (HEARTBEAT_FRAME, b""):
            method = encode_method(2, TxCommit())
            events = decoder().feed(begun + more + method)
            # Whoever owns the channels learns at once that one has begun.
            assert events == [Begun(1), MethodFrame(2, TxCommit(), len(method))]


def test_content_methods_on_channel_0_are_left_to_the_connection() -> None:
    method = BasicPublish(exchange="x")
    assert three_ways(encode_method(0, method)).methods == [(0, method)]


def test_frames_that_pamqp_writes_are_decoded() -> None:
    properties = pamqp.commands.Basic.Properties(
        content_type="text/plain", delivery_mode=2, headers={"a": "b"}, user_id="guest"
    )
    body = b"x" * 1000
    wire = b"".join(
        pamqp.frame.marshal(each, 7)
        for each in (
            pamqp.commands.Basic.Publish(exchange="an exchange", routing_key="a key"),
            pamqp.header.ContentHeader(0, len(body), properties),
            pamqp.body.ContentBody(body),
        )
    )
    acks = pamqp.frame.marshal(pamqp.commands.Basic.Ack(12, True), 7)
    result = three_ways(wire * 2 + acks)
    (message, again), tags = result.publishes(7), result.acks(7)
    assert message == again
    assert isinstance(message, Message)
    assert (message.key, message.body) == (b"\x0ban exchange\x05a key\0", body)
    assert tags == [(12, True)]


def test_an_ack_that_comes_in_two_reads_is_one_ack() -> None:
    wire = ack(3) + ack(4)
    for cut in range(1, len(wire)):
        assert decoded([wire[:cut], wire[cut:]]).acks() == [(3, False), (4, False)]


def test_byte_by_byte_gives_each_method_with_its_last_byte() -> None:
    wire = encode_method(1, BasicNack(1)) + HEARTBEAT_FRAME
    reading = decoder()
    counts = [len(reading.feed(piece)) for piece in byte_by_byte(wire)]
    assert counts == [0] * (len(wire) - 9) + [1] + [0] * 8


def test_an_ack_on_a_channel_that_owes_a_body_is_no_ack() -> None:
    begun = b"".join(Publish(b"12").frames()[:2])
    result = three_ways(begun + encode_method(1, BasicAck(1)))
    assert result.acks() == []
    assert result.error is not None
