"""The bytes that the decoder copies and those that it keeps alive, counted, not timed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest
from decoding import Publish, decoder, frame, publish_method
from forms import compiled, form
from holding import object_count, octets_held, part, parts
from leveret.amqp_frames.constants import FRAME_BODY, HEARTBEAT_FRAME
from leveret.amqp_frames.decoder import READ_BYTES_COPIED_MAX, ChannelInput, Decoder
from leveret.amqp_frames.messages.publishes import PublishShapes

READ_BYTES = 65_536
MEGABYTE = 1_000_000


class Pieces(list[bytes]):
    """The decoder's list of what is not whole yet; counts what is joined, and how often."""

    joined_bytes = 0
    joins = 0

    def clear(self) -> None:
        self.joined_bytes += sum(map(len, self))
        self.joins += 1
        super().clear()


def feed(reading: Decoder, wire: bytes, read_bytes: int) -> tuple[Pieces, list[object]]:
    # private: how often bytes are joined shows nowhere but in the list that they wait in.
    pieces = reading._pending = Pieces()
    events: list[object] = []
    for at in range(0, len(wire), read_bytes):
        events += reading.feed(wire[at : at + read_bytes])
    return pieces, events


def batches(events: Sequence[object]) -> list[int]:
    return [len(each.batch) for each in events if isinstance(each, ChannelInput) and each.batch]


def test_a_body_of_16_megabytes_is_copied_a_few_times_however_it_comes() -> None:
    body = bytes(16 * MEGABYTE)
    for part_bytes in (4088, 131_064, len(body)):
        wire = Publish(body, part_bytes=part_bytes).wire()
        reading = decoder(frame_max_bytes=0)
        pieces, events = feed(reading, wire, READ_BYTES)
        assert batches(events) == [1]
        # Each byte waits once at most, but for those that a read leaves over.
        assert pieces.joined_bytes < 3 * len(wire)


def test_small_reads_do_not_make_many_copies() -> None:
    body = bytes(60_000)
    for part_bytes in (1, 100, 4088, len(body)):
        wire = Publish(body, part_bytes=part_bytes).wire()
        for read_bytes in (1, 100, 1000):
            pieces, events = feed(decoder(), wire, read_bytes)
            assert batches(events) == [1]
            assert pieces.joined_bytes < 2.2 * len(wire) + 100 * pieces.joins


def test_nothing_of_a_read_is_held_but_what_is_not_whole() -> None:
    reading = decoder()
    publish = Publish(b"x" * 1000)
    for rest in (b"", publish.wire()[:500], publish_method(b"\0\0\0", 9)[:-1]):
        read = publish.wire() * 60 + rest
        events = reading.feed(read)
        (event,) = events
        assert isinstance(event, ChannelInput)
        assert event.batch is not None
        assert event.batch.wire is read
        assert not rest or rest in parts(reading, bytes)
        # Held by its batch, by us and by the call: not by the decoder.
        assert sys.getrefcount(read) == 3
        reading = decoder()


def test_an_error_does_not_hold_the_read_that_it_was_found_in() -> None:
    for broken in (frame(9, b""), frame(FRAME_BODY, b"x"), frame(FRAME_BODY, b"x")[:-1] + b"x"):
        reading = decoder()
        read = HEARTBEAT_FRAME * 10_000 + broken
        assert reading.feed(read) == []
        assert reading.error is not None
        # Held by us and by the call.
        assert sys.getrefcount(read) == 2


def test_frames_of_nothing_fill_no_memory() -> None:
    reading = decoder()
    begun = b"".join(Publish(b"1234").frames()[:2])
    reading.feed(begun + frame(FRAME_BODY, b"12"))
    for _ in range(100):
        assert reading.feed(frame(FRAME_BODY, b"") * 1000) == []
    assert sum(map(len, parts(reading, bytearray))) == len(begun) + 10


def test_a_message_too_large_is_not_kept_while_it_comes() -> None:
    reading = decoder(message_size_max_bytes=1000)
    method, header, *bodies = Publish(bytes(MEGABYTE), part_bytes=10_000).frames()
    reading.feed(method + HEARTBEAT_FRAME + header)
    for body in bodies[:-1]:
        reading.feed(body)
        assert octets_held(reading) < 10_000


def many_keys_and_properties() -> Decoder:
    """A decoder that has read publishes of many channels, each unlike the others."""
    reading = decoder()
    for channel in range(1, 100):
        for number in range(0, 300, 10):
            keys = [b"\0\4%04d\0" % (number + at) for at in range(10)]
            properties = [b"\x00\x80\4%04d" % (number + at) for at in range(10)]
            wire = b"".join(
                Publish(b"", key, each, channel).wire()
                for key, each in zip(keys, properties, strict=True)
            )
            assert batches(reading.feed(wire)) == [10]
    return reading


def test_the_decoder_s_memory_of_publishes_is_bounded() -> None:
    with form(None):
        shapes = part(many_keys_and_properties(), PublishShapes)
    assert len(shapes.by_channel) <= 16
    assert all(len(each) <= 64 for each in shapes.by_channel.values())
    # As many again for properties, each a row in one dictionary.
    assert object_count(shapes) <= 17 * 64 + 20


def test_in_the_compiled_form_the_decoder_remembers_no_publish() -> None:
    if compiled is None:
        pytest.skip("the codec is not compiled here")
    with form(compiled):
        reading, fresh = many_keys_and_properties(), decoder()
    assert object_count(reading) == object_count(fresh)


def test_a_large_read_is_copied_only_as_far_as_it_completes_a_waiting_frame() -> None:
    wire = Publish(bytes(8000)).wire() * 90
    at = len(wire) // 2 - 3000
    reading = decoder()
    assert batches(reading.feed(wire[:at])) == [44]
    rest = wire[at:]
    assert len(rest) > READ_BYTES_COPIED_MAX
    events = reading.feed(rest)
    completed, others = [each.batch for each in events if isinstance(each, ChannelInput)]
    assert completed is not None
    assert others is not None
    assert (len(completed), len(others)) == (1, 45)
    assert others.wire is rest
    # A batch of its own counts its keys from 0.
    assert completed.distinct == others.distinct
    assert list(others.keys) == [0] * 45
