"""Runs of publishes, and reading back what the journal kept."""

from __future__ import annotations

import contextlib
import random

import pytest
from decoding import Publish, body_frames, content_header, frame, messages, publish_method
from hypothesis import given
from hypothesis import strategies as st
from leveret.amqp_frames.constants import FRAME_BODY, HEARTBEAT_FRAME
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.messages.publishes import (
    ANOTHER_FRAME,
    INCOMPLETE,
    PublishRun,
    decode_publishes,
)

NO_LIMIT = 0xFFFFFFFF


def run(wire: bytes) -> tuple[Batch, PublishRun, int]:
    batch = Batch(wire, 1)
    taking = PublishRun(NO_LIMIT, NO_LIMIT)
    return batch, taking, taking.decode_run(batch, {}, 0)


@given(
    st.lists(
        st.builds(
            Publish,
            body=st.one_of(st.just(b"x" * 30), st.binary(max_size=60)),
            key=st.sampled_from([b"\0\1a\0", b"\0\1b\0", b"\1x\1c\1"]),
            properties=st.sampled_from([b"\0\0", b"\x10\0\2", b"\x10\0\1"]),
            part_bytes=st.sampled_from([NO_LIMIT, 7]),
            channel=st.just(1),
        ),
        max_size=30,
    )
)
def test_stored_publishes_are_read_back_as_they_came(sent: list[Publish]) -> None:
    wire = b"".join(publish.wire() for publish in sent)
    batch = decode_publishes(wire)
    assert list(messages(batch)) == [publish.message() for publish in sent]
    assert batch.wire is wire
    assert batch.contiguous


def test_stored_publishes_may_be_of_several_channels() -> None:
    sent = [Publish(b"%d" % at, channel=1 + at % 2) for at in range(4)]
    batch = decode_publishes(b"".join(publish.wire() for publish in sent))
    assert len(batch) == 4
    assert batch.channel_number == -1
    assert decode_publishes(sent[1].wire() * 2).channel_number == 2


def test_nothing_stored_is_an_empty_batch() -> None:
    batch = decode_publishes(b"")
    assert len(batch) == 0
    assert batch.wire_bytes == 0


@pytest.mark.parametrize(
    "wire",
    [
        b"x",
        Publish().wire()[:-1],
        Publish().wire() + b"\1",
        Publish().wire() + HEARTBEAT_FRAME,
        HEARTBEAT_FRAME + Publish().wire(),
        Publish().wire()[:-1] + b"\0",
        publish_method(b"\0\0\0"),
        publish_method(b"\0\0\0") + content_header(2) + frame(FRAME_BODY, b"123"),
        publish_method(b"\0\0\0") + content_header(2) + b"".join(body_frames(b"12", 1))[:-1],
    ],
)
def test_anything_else_that_was_stored_is_a_fault_of_ours(wire: bytes) -> None:
    with pytest.raises(ValueError, match="not a row of publishes"):
        decode_publishes(wire)


def test_any_stored_bytes_are_read_or_a_value_error() -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    wire = Publish(b"x" * 10).wire() * 2 + Publish(b"12345", part_bytes=2).wire()
    for _ in range(2000):
        damaged = bytearray(wire)
        damaged[chance.randrange(len(wire))] = chance.randrange(256)
        with contextlib.suppress(ValueError):
            assert len(list(messages(decode_publishes(bytes(damaged))))) == 3


def test_a_run_waits_for_the_next_frame_of_a_publish_that_has_begun() -> None:
    publish = Publish(b"12345678")
    wire = publish.wire()
    method_bytes, header_bytes, _ = map(len, publish.frames())
    header = method_bytes + header_bytes
    for size in range(17, len(wire)):
        batch, taking, position = run(wire + wire[:size])
        assert (len(batch), position, taking.ended) == (1, len(wire), INCOMPLETE)
        # Each frame's header must be there to know how much the frame needs.
        needed = {
            size < method_bytes: method_bytes,
            method_bytes <= size < method_bytes + 7: method_bytes + 8,
            method_bytes + 7 <= size < header: header,
            header <= size < header + 7: header + 8,
            header + 7 <= size: len(wire),
        }[True]
        assert taking.needed_bytes == needed


def test_a_run_does_not_wait_behind_the_first_of_several_body_frames() -> None:
    publish = Publish(b"12345678", part_bytes=2)
    begun = b"".join(publish.frames()[:3])
    for size in range(len(begun), len(publish.wire())):
        _, taking, position = run(publish.wire()[:size])
        assert (position, taking.ended) == (0, ANOTHER_FRAME)


@pytest.mark.parametrize("names", [b"\xff" + b"x" * 255 + b"\xff" + b"y" * 255, b"\0\0"])
@pytest.mark.parametrize("header", [0, 1000])
def test_a_run_of_one_shape_is_found_whatever_its_frames_sizes(names: bytes, header: int) -> None:
    properties = b"\x20\0" + (header + 6).to_bytes(4, "big") + b"\0S" + header.to_bytes(4, "big")
    publish = Publish(b"", names + b"\0", properties + bytes(header))
    batch, _, _ = run(publish.wire() * 5)
    assert list(messages(batch)) == [publish.message()] * 5
    assert batch.distinct == [names + b"\0"]


def test_more_shapes_than_are_remembered_are_no_harm() -> None:
    sent = [Publish(b"x", b"\0\2%02d\0" % (at % 100)) for at in range(300)]
    assert list(messages(decode_publishes(b"".join(each.wire() for each in sent)))) == [
        publish.message() for publish in sent
    ]


def test_shapes_are_remembered_from_batch_to_batch_but_numbers_are_not() -> None:
    taking = PublishRun(NO_LIMIT, NO_LIMIT)
    for key in (b"\0\1a\0", b"\0\1b\0", b"\0\1a\0"):
        batch = Batch(Publish(b"x", key).wire() * 2, 1)
        assert taking.decode_run(batch, {}, 0) == len(batch.wire)
        assert batch.distinct == [key]
        assert list(batch.keys) == [0, 0]
