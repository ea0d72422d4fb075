"""The limit on publishes that one connection has begun and not finished, over all its channels."""

from __future__ import annotations

from decoding import Publish, byte_by_byte, decoded, decoder
from holding import part, parts
from leveret.amqp_frames.constants import HEARTBEAT_FRAME
from leveret.amqp_frames.decoder import ChannelInput, Decoder
from leveret.amqp_frames.messages.assembly import Assembly, UnfinishedPublishes

LIMITS = {"message_size_max_bytes": 1000, "unfinished_publishes_bytes_max": 1000}
TEXT = (
    "RESOURCE_ERROR - unfinished publishes of the connection are larger than "
    "configured max size 1000"
)


def begun(channel: int, body_bytes: int = 400) -> bytes:
    """A publish without the last octet of its body, and what makes it go frame by frame."""
    frames = Publish(bytes(body_bytes), channel=channel, part_bytes=body_bytes - 1).frames()
    return b"".join(frames[:-1]) + HEARTBEAT_FRAME


def rest(channel: int) -> bytes:
    return Publish(b"0", channel=channel).frames()[-1]


def published(reading: Decoder, data: bytes) -> int:
    """How many whole messages it brings."""
    assert reading.error is None
    events = reading.feed(data)
    inputs = [each.batch for each in events if isinstance(each, ChannelInput)]
    return sum(len(batch) for batch in inputs if batch is not None)


def is_too_much(reading: Decoder, data: bytes) -> bool:
    """Do they make the connection's error, behind which nothing is kept?"""
    reading.feed(data)
    if reading.error is None:
        return False
    error = reading.error
    found = error.reply_code, error.reply_text, error.class_id, error.method_id
    assert found == (506, TEXT, 60, 40)
    assert not reading.lost_sync
    assert not parts(reading, Assembly)
    return True


def test_all_channels_together_have_no_more_than_the_limit() -> None:
    reading = decoder(**LIMITS)
    assert published(reading, begun(1) + begun(2)) == 0
    whole = Publish(b"whole", channel=9).wire()
    # What was whole before is still returned.
    events = reading.feed(whole + begun(3))
    assert [type(each) for each in events[:1]] == [ChannelInput]
    assert is_too_much(reading, b"")


def test_what_is_finished_refused_or_left_counts_no_more() -> None:
    for number in range(3):
        reading = decoder(**LIMITS)
        for turn in range(10):
            assert published(reading, begun(1) + begun(2)) == 0
            if number == 0:
                assert published(reading, rest(1)) == 1
            elif number == 1:
                reading.channel_closed(1)
                assert published(reading, rest(1)) == 0
            else:
                # Announced above the limit of a message: not kept, however much of it comes.
                assert published(reading, rest(1) + begun(1, 5000)) == 1
                assert published(reading, rest(1)) == 0
            assert published(reading, rest(2)) == 1, turn
        assert part(reading, UnfinishedPublishes).used_bytes == 0
        assert not is_too_much(reading, begun(1) + begun(2))
        assert is_too_much(reading, begun(3))


def test_what_comes_whole_does_not_count() -> None:
    reading = decoder(**LIMITS)
    assert published(reading, begun(1, 900)) == 0
    for turn in range(3):
        wire = b"".join(Publish(bytes(900), channel=each).wire() for each in range(2, 50))
        assert published(reading, wire) == 48, turn
    assert published(reading, rest(1)) == 1


def test_one_message_always_fits_however_small_its_frames_are() -> None:
    for part_bytes in (1, 7, 1000):
        largest = Publish(bytes(1000), part_bytes=part_bytes)
        frames = [frame + HEARTBEAT_FRAME for frame in largest.frames()]
        assert decoded(frames, **LIMITS).publishes() == [largest.message()]
        assert decoded(byte_by_byte(largest.wire()), **LIMITS).publishes() == [largest.message()]
