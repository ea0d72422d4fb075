"""Sizes that are taken and that are not, and channels that end in the middle of a publish."""

from __future__ import annotations

from decoding import Between, Oversize, Publish, decoded, decoder, three_ways
from leveret.amqp_frames.constants import HEARTBEAT_FRAME
from leveret.amqp_frames.decoder import Begun, ChannelInput
from leveret.amqp_frames.methods import ChannelOpen, encode_method

OPEN = encode_method(1, ChannelOpen())


def test_a_body_at_the_limit_is_taken_and_one_above_is_said_to_be_too_large() -> None:
    at_limit, above = Publish(b"x" * 20), Publish(b"x" * 21)
    wire = at_limit.wire() + above.wire() + at_limit.wire()
    result = three_ways(wire, message_size_max_bytes=20)
    assert result.publishes() == [at_limit.message(), Oversize(21), at_limit.message()]
    assert result.error is None


def test_the_body_of_one_too_large_is_let_pass_in_any_number_of_frames() -> None:
    above = Publish(b"x" * 100, part_bytes=9)
    result = three_ways(above.wire() + OPEN, message_size_max_bytes=20)
    assert result.channels[1] == [Between([Oversize(100)], []), ChannelOpen()]


def test_frames_may_be_8_octets_larger_than_negotiated() -> None:
    publish = Publish(b"x" * 4096)
    result = three_ways(publish.wire(), frame_max_bytes=4096)
    assert result.publishes() == [publish.message()]
    assert result.error is None


def test_a_frame_max_of_0_is_no_limit() -> None:
    publish = Publish(b"x" * 300_000)
    assert decoded([publish.wire()], frame_max_bytes=0).publishes() == [publish.message()]


def test_frame_max_can_be_settled_later() -> None:
    reading = decoder(frame_max_bytes=4096)
    reading.set_frame_max(8192)
    assert len(reading.feed(Publish(b"x" * 8000).wire())) == 1


def test_what_a_closed_channel_had_begun_is_let_pass_and_dropped() -> None:
    publish = Publish(b"x" * 10, part_bytes=5)
    frames = publish.frames()
    for sent in range(1, 4):
        reading = decoder()
        # The other channel's frame makes it go frame by frame.
        assert reading.feed(b"".join(frames[:sent]) + HEARTBEAT_FRAME) == [Begun(1)]
        reading.channel_closed(1)
        events = reading.feed(b"".join(frames[sent:]) + OPEN + publish.wire())
        assert reading.error is None
        assert [type(event) for event in events] == [type(events[0]), ChannelInput]


def test_a_closed_channel_may_be_opened_in_the_middle_of_what_it_had_begun() -> None:
    reading = decoder()
    publish = Publish(b"x")
    reading.feed(b"".join(publish.frames()[:2]) + HEARTBEAT_FRAME)
    reading.channel_closed(1)
    events = reading.feed(OPEN + publish.wire())
    assert reading.error is None
    assert [event.channel_number for event in events] == [1, 1]
