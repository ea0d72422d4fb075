"""Stored publishes are read back as the decoder has read them when they came in."""

from __future__ import annotations

from random import Random
from struct import pack

import pytest
from forms import compiled, form
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.amqp_frames.messages.stored import read_stored, stored_starts
from leveret.amqp_frames.properties import Properties, encode_properties

SEEDS = range(30)


def frame(kind: int, payload: bytes, channel_number: int) -> bytes:
    return pack(">BHI", kind, channel_number, len(payload)) + payload + b"\xce"


def publish(random: Random, channel_numbers: tuple[int, ...] = (1, 1, 1, 2)) -> bytes:
    """A persistent publish as a client may send it."""
    channel_number = random.choice(channel_numbers)
    key = random.choice((b"", b"orders", b"k" * 255))
    body = random.randbytes(random.choice((0, 1, 100, 300)))
    properties = Properties(
        delivery_mode=2,
        message_id=random.choice((None, f"{random.getrandbits(60):x}")),
        headers=random.choice((None, {"tenant": random.randrange(9)})),
    )
    method = pack(">HHHB", 60, 40, 0, 0) + bytes([len(key)]) + key + b"\0"
    header = pack(">HHQ", 60, 0, len(body)) + encode_properties(properties)
    frames = frame(1, method, channel_number) + frame(2, header, channel_number)
    while body:
        size = random.choice((1, 90, len(body)))
        frames += frame(3, body[:size], channel_number)
        body = body[size:]
    return frames


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_published_is_read_back_like_it_was_decoded(seed: int) -> None:
    random = Random(seed)
    wire = b"".join(publish(random) for _ in range(random.choice((1, 2, 20))))
    decoded, stored = decode_publishes(wire), read_stored(wire)
    for name in stored.__slots__:
        if name != "flagged":
            assert getattr(stored, name) == getattr(decoded, name), name
    assert list(stored_starts(memoryview(wire))) == [*decoded.starts, len(wire)]


@pytest.mark.skipif(compiled is None, reason="the codec is not compiled here")
@pytest.mark.parametrize("seed", SEEDS)
def test_publishes_of_one_channel_are_read_back_alike_in_both_forms(seed: int) -> None:
    random = Random(seed)
    channel_numbers = random.choice(((1,), (7,), (1, 2)))
    wire = b"".join(publish(random, channel_numbers) for _ in range(random.choice((1, 2, 20))))
    with form(None):
        in_python = read_stored(wire)
    with form(compiled):
        in_c = read_stored(wire)
    for name in in_python.__slots__:
        assert getattr(in_python, name) == getattr(in_c, name), name


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_that_end_within_a_publish_are_refused(seed: int) -> None:
    random = Random(seed)
    wire = publish(random)
    cut = wire + wire[: random.randrange(1, len(wire))]
    with pytest.raises(ValueError, match="not a row of publishes"):
        read_stored(cut)
    with pytest.raises(ValueError, match="not a row of publishes"):
        stored_starts(memoryview(cut))


def test_an_empty_frame_in_a_body_is_refused() -> None:
    method = frame(1, pack(">HHHBBB", 60, 40, 0, 0, 0, 0), 1)
    header = frame(2, pack(">HHQ", 60, 0, 5) + encode_properties(Properties()), 1)
    wire = method + header + frame(3, b"", 1) + frame(3, b"hello", 1)
    with pytest.raises(ValueError, match="not a row of publishes"):
        read_stored(wire)
    with pytest.raises(ValueError, match="not a row of publishes"):
        stored_starts(memoryview(wire))
