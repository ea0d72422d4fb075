"""Any bytes at all, and valid sessions in any chunks: what is decoded does not depend on them."""

from __future__ import annotations

import random
from itertools import accumulate, pairwise, zip_longest

import pytest
from decoding import Decoded, Publish, ack, byte_by_byte, decoded, frame
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from leveret.amqp_frames.constants import EMPTY_FRAME_BYTES, FRAME_END, HEARTBEAT_FRAME, REPLY_NAMES
from leveret.amqp_frames.decoder import READ_BYTES_COPIED_MAX
from leveret.amqp_frames.methods import (
    BasicNack,
    ChannelOpen,
    ConfirmSelect,
    ConnectionOpen,
    QueueDeclare,
    TxCommit,
    encode_method,
)
from leveret.amqp_frames.properties import Properties, encode_properties

LIMITS = {"frame_max_bytes": 4096, "message_size_max_bytes": 3000}

KEYS = (
    b"\0\5queue\0",
    b"\0\5other\0",
    b"\6events\7a.b.c.d\1",
    b"\0\0\0",
    b"\xff" + b"x" * 255 + b"\0\0",
)
PROPERTIES = tuple(
    encode_properties(each)
    for each in (
        Properties(),
        Properties(delivery_mode=2),
        Properties(delivery_mode=1, content_type="text/plain"),
        Properties(headers={"a": 1, "b": "x" * 300}, delivery_mode=2),
        Properties(expiration="5", user_id="guest"),
        Properties(message_id="m", user_id="guest", delivery_mode=2),
    )
)
CHANNELS = st.integers(1, 3)


def publishes() -> st.SearchStrategy[Publish]:
    return st.builds(
        Publish,
        body=st.one_of(st.just(b"x" * 20), st.binary(max_size=30), st.just(b"y" * 3001)),
        key=st.sampled_from(KEYS),
        properties=st.sampled_from(PROPERTIES),
        channel=CHANNELS,
        part_bytes=st.sampled_from([4088, 1, 7, 20]),
    )


def others() -> st.SearchStrategy[list[bytes]]:
    """Frames of one channel that are no publish."""
    methods = [BasicNack(3), ChannelOpen(), ConfirmSelect(), QueueDeclare(queue="q"), TxCommit()]
    return st.one_of(
        st.builds(ack, st.integers(0, 2**64 - 1), st.booleans(), CHANNELS),
        st.builds(encode_method, CHANNELS, st.sampled_from(methods)),
        st.just(encode_method(0, ConnectionOpen("/"))),
        st.just(HEARTBEAT_FRAME),
    ).map(lambda each: [each])


def sessions() -> st.SearchStrategy[bytes]:
    """Valid sessions: publishes in runs, some spread between other channels' frames."""
    runs = st.tuples(publishes(), st.integers(1, 8)).map(
        lambda run: [part for _ in range(run[1]) for part in run[0].frames()]
    )
    mixed = st.tuples(publishes(), publishes()).map(_interleaved)
    return st.lists(st.one_of(runs, mixed, others()), max_size=8).map(
        lambda items: b"".join(part for item in items for part in item)
    )


def _interleaved(pair: tuple[Publish, Publish]) -> list[bytes]:
    one, other = pair
    other = other._replace(channel=1 + one.channel % 3)
    mixed = zip_longest(one.frames(), other.frames(), fillvalue=b"")
    return [part for parts in mixed for part in (HEARTBEAT_FRAME, *parts)]


def cut(wire: bytes, places: list[float]) -> list[bytes]:
    ends = sorted({round(place * len(wire)) for place in places} | {0, len(wire)})
    return [wire[start:end] for start, end in pairwise(ends)]


CUTS = st.lists(st.floats(0, 1), max_size=12)


@given(sessions(), CUTS)
def test_chunking_changes_nothing(wire: bytes, places: list[float]) -> None:
    whole = decoded([wire], **LIMITS)
    assert whole.error is None
    assert decoded(cut(wire, places), **LIMITS) == whole


@given(
    st.lists(
        st.integers(READ_BYTES_COPIED_MAX - 50, 3 * READ_BYTES_COPIED_MAX), min_size=1, max_size=3
    ),
    st.sampled_from([4096, 100_000, 131_072]),
    st.lists(st.tuples(st.integers(0, 2), st.integers(-60, 60), st.booleans()), max_size=8),
)
@settings(max_examples=examples(200))
def test_chunking_changes_nothing_where_reads_are_too_large_to_be_joined(
    body_sizes: list[int], frame_bytes: int, places: list[tuple[int, int, bool]]
) -> None:
    # A body of frame ends: what is read twice is not found by looking for one.
    sent = [
        Publish(bytes((FRAME_END,)) * size, part_bytes=frame_bytes - EMPTY_FRAME_BYTES)
        for size in body_sizes
    ]
    wire = b"".join(publish.wire() for publish in sent)
    starts = [0, *accumulate(len(publish.wire()) for publish in sent)]
    cuts = {0, len(wire)}
    for number, offset, is_far in places:
        far = READ_BYTES_COPIED_MAX + 100 if is_far else 0
        cuts.add(min(max(0, starts[number % len(starts)] + far + offset), len(wire)))
    reads = [wire[start:end] for start, end in pairwise(sorted(cuts))]
    result = decoded(reads)
    assert result.error is None
    assert result.publishes() == [publish.message() for publish in sent]


def assert_the_ways_through_agree(wire: bytes) -> None:
    # Byte by byte every publish, but for its last byte, is seen before it is whole.
    assert decoded(byte_by_byte(wire), **LIMITS) == decoded([wire], **LIMITS)


@given(sessions())
@settings(max_examples=examples(30), deadline=None)
def test_the_ways_through_agree(wire: bytes) -> None:
    assert_the_ways_through_agree(wire)


@pytest.mark.soak
@given(sessions())
@settings(max_examples=examples(300), deadline=None)
def test_the_ways_through_agree_in_many_more_sessions(wire: bytes) -> None:
    assert_the_ways_through_agree(wire)


@given(st.lists(publishes(), max_size=20))
def test_what_is_decoded_is_what_was_published(sent: list[Publish]) -> None:
    result = decoded([b"".join(each.wire() for each in sent)])
    for channel in (1, 2, 3):
        expected = [each.message() for each in sent if each.channel == channel]
        assert result.publishes(channel) == expected


def assert_total(wire: bytes, reads: list[bytes]) -> Decoded:
    """Events or an error with one of the protocol's codes, however the bytes come in."""
    whole = decoded([wire], **LIMITS)
    assert decoded(reads, **LIMITS) == whole
    if whole.error is not None:
        code, text, _, _ = whole.error
        assert code in {501, 502, 503, 505, 540}
        assert text.startswith(f"{REPLY_NAMES[code]} - ")
        assert len(text.encode()) <= 255
    else:
        assert not whole.lost_sync
    return whole


@given(st.binary(max_size=200), CUTS)
def test_any_bytes_are_decoded_or_refused(wire: bytes, places: list[float]) -> None:
    assert_total(wire, cut(wire, places))


@given(
    st.lists(
        st.builds(
            frame, st.sampled_from([1, 2, 3, 4, 8]), st.binary(max_size=40), st.integers(0, 2)
        ),
        max_size=6,
    ),
    CUTS,
)
def test_any_frames_are_decoded_or_refused(frames: list[bytes], places: list[float]) -> None:
    wire = b"".join(frames)
    assert_total(wire, cut(wire, places))


@given(sessions(), st.data())
@settings(max_examples=examples(300))
def test_any_damage_to_a_session_is_decoded_or_refused(wire: bytes, data: st.DataObject) -> None:
    damaged = bytearray(wire)
    for _ in range(data.draw(st.integers(1, 4))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    assert_total(bytes(damaged), cut(bytes(damaged), data.draw(CUTS)))


def mutated(wire: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, taken out, put in or said twice."""
    damaged = bytearray(wire)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(damaged))
        what = chance.randrange(5)
        if what == 0:
            damaged[at] ^= 1 << chance.randrange(8)
        elif what == 1:
            damaged[at] = chance.choice(b"\0\1\2\3\x08\x28\x3c\xce\xff")
        elif what == 2:
            del damaged[at : at + chance.randint(1, 9)]
        elif what == 3:
            damaged[at:at] = chance.randbytes(chance.randint(1, 9))
        else:
            damaged[at:at] = damaged[at : at + chance.randint(1, 60)]
        if not damaged:
            damaged.append(0)
    return bytes(damaged)


def test_mutations_of_a_session_are_decoded_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    parts = [Publish(b"x" * 20, key, properties) for key in KEYS[:3] for properties in PROPERTIES]
    parts += [Publish(b"z" * 30, part_bytes=7, channel=2), Publish(b"", channel=2)] * 2
    session = [part.wire() for part in parts * 2]
    session += [ack(1), ack(2, True, 2), HEARTBEAT_FRAME, encode_method(1, QueueDeclare())]
    refused = 0
    for _ in range(1500):
        wire = mutated(b"".join(chance.sample(session, 8)), chance)
        reads = cut(wire, [chance.random() for _ in range(chance.randrange(9))])
        refused += assert_total(wire, reads).error is not None
    assert 0 < refused < 1500


@pytest.mark.parametrize("properties", PROPERTIES[:5])
def test_a_message_that_differs_in_one_byte_is_decoded_by_itself(properties: bytes) -> None:
    # The run of like messages must see every difference: each byte, the frame ends among them.
    publish = Publish(b"abc", b"\1x\1k\0", properties)
    like = publish.wire()
    for at in range(len(like)):
        for value in {like[at] ^ 1, like[at] ^ 0x80, 0, 1, 2, 3, 206, 255} - {like[at]}:
            other = like[:at] + bytes((value,)) + like[at + 1 :]
            wire = like * 3 + other + like * 2
            assert_total(wire, byte_by_byte(wire) if at % 7 == 0 else [wire[:-1], wire[-1:]])
            # With another before it, the odd one comes in a read of its own.
            assert decoded([like * 3, other, like * 2], **LIMITS) == decoded([wire], **LIMITS)
