"""A run of publishes is the batch that the AMQP decoder makes of the frames in it."""

from __future__ import annotations

import pytest
from leveret.amqp_frames.decoder import ChannelInput, Decoder
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.amqp_frames.properties import decode_properties
from leveret.nsq_frames.publishes import (
    BODY_FRAME_BYTES_MAX,
    DPUB,
    MPUB,
    MPUB_BYTES_MAX,
    PUB,
    PublishLimits,
    PublishRun,
    decode_run,
    message_count_max,
    run_before,
)
from nsq_wire import dpub, mpub, pub

LIMITS = PublishLimits(16_000_000, 5_242_880, 3_600_000)
COLUMNS = ("starts", "headers", "ends", "keys", "distinct", "persistent", "wire_bytes")


def run(command: bytes, data: bytes, position: int = 0) -> PublishRun:
    found, end = decode_run(data, position, command, LIMITS)
    assert found is not None
    assert end == len(data)
    return found


def columns(batch: Batch) -> dict[str, object]:
    return {name: getattr(batch, name) for name in COLUMNS}


@pytest.mark.parametrize(
    ("command", "data"),
    [
        (PUB, pub("t", b"x")),
        (PUB, pub("t", b"same") * 100),
        (PUB, b"".join(pub(topic, topic.encode() * k) for k in range(1, 9) for topic in "abca")),
        (PUB, pub("n" * 64, b"x") + pub("n" * 54 + "#ephemeral", b"y")),
        (MPUB, mpub("t", *(b"%d" % k for k in range(50))) + mpub("u", b"x")),
        (DPUB, dpub("t", 1, b"x") + dpub("t", 2, b"y") + dpub("u", 1, b"z")),
        *((PUB, pub("t", bytes(BODY_FRAME_BYTES_MAX + more))) for more in (-1, 0, 1)),
        (PUB, pub("t", b"s") + pub("t", bytes(3 * BODY_FRAME_BYTES_MAX)) + pub("t", b"e")),
    ],
)
def test_the_amqp_decoder_makes_the_same_batch_of_its_wire(command: bytes, data: bytes) -> None:
    batch = run(command, data).batch
    again = decode_publishes(batch.wire)
    assert columns(again) == columns(batch)
    assert again.channel_number == batch.channel_number
    assert again.flagged is batch.flagged is None
    assert batch.frame_bytes_max == again.frame_bytes_max
    assert again.contiguous
    assert batch.contiguous
    # Frame by frame, too: a channel reads it, as from any client.
    decoder = Decoder(131_072, 16_000_000, 32_000_000)
    events = [event for event in decoder.feed(batch.wire) if isinstance(event, ChannelInput)]
    assert decoder.error is None
    assert sum(len(each.batch) for each in events if each.batch is not None) == len(batch)


def test_messages_are_persistent_and_say_nothing_else() -> None:
    batch = run(PUB, pub("t", b"body")).batch
    header = batch.headers[0]
    properties = decode_properties(batch.wire, header + 19, batch.ends[0] - 8 - 4 - 1)
    assert [each for each in properties if each is not None] == [2]
    assert batch.distinct == [b"\1t\0\0"]


def test_a_run_ends_before_the_first_command_that_is_not_whole_or_not_sound() -> None:
    whole = pub("t", b"1") + pub("u", b"2")
    for rest in (b"PUB v\n\0\0\0\2x", b"PUB v\n\0\0", b"PUB v", b"PUB a#b\n\0\0\0\1x", b"NOP\n"):
        found, end = decode_run(whole + rest, 0, PUB, LIMITS)
        assert found is not None
        assert end == len(whole)
        assert found.batch.distinct == [b"\1t\0\0", b"\1u\0\0"]
        assert len(found.batch) == 2


def test_an_mpub_is_in_the_run_whole_or_not_at_all() -> None:
    whole = mpub("t", b"1", b"2")
    cut = mpub("t", b"3", b"4")[:-1]
    found, end = decode_run(whole + cut, 0, MPUB, LIMITS)
    assert found is not None
    assert end == len(whole)
    assert len(found.batch) == 2
    assert list(found.counts or ()) == [2]


def test_the_frames_of_the_largest_mpub_can_be_counted_with_32_bits() -> None:
    """Of single octets, for the longest topic."""
    message_bytes = len(run(MPUB, mpub("n" * 64, b"x")).batch.wire)
    limits = LIMITS._replace(body_bytes_max=MPUB_BYTES_MAX)
    assert message_count_max(limits) * message_bytes < 2**32


def test_each_command_has_its_count_and_each_message_its_delay() -> None:
    assert run(PUB, pub("t", b"1") * 3).counts is None
    many = run(MPUB, mpub("t", b"1", b"2", b"3") + mpub("t", b"4"))
    assert list(many.counts or ()) == [3, 1]
    delayed = run(DPUB, dpub("t", 5, b"1") + dpub("t", 0, b"2"))
    assert list(delayed.delays_ms or ()) == [5, 0]
    assert many.delays_ms is None


@pytest.mark.parametrize(
    ("command", "before", "behind"),
    [
        (PUB, pub("t", b"1") + pub("u", b"2") * 2 + pub("t", b"3"), pub("v", b"4") * 2),
        (DPUB, dpub("t", 5, b"1") + dpub("u", 6, b"2"), dpub("v", 7, b"3") + dpub("t", 8, b"4")),
        (MPUB, mpub("t", b"1", b"2") + mpub("u", b"3"), mpub("v", b"4", b"5") + mpub("t", b"6")),
        (MPUB, mpub("t", b"1") + mpub("u", b"2"), mpub("v", b"4", b"5")),
        (PUB, b"", pub("v", b"1") + pub("t", b"2")),
    ],
)
def test_the_commands_before_a_topic_are_a_run_of_their_own(
    command: bytes, before: bytes, behind: bytes
) -> None:
    whole = run(command, before + behind)
    head = run_before(whole, "v")
    expected, _ = decode_run(before, 0, command, LIMITS)
    if head is None or expected is None:
        assert head is expected
        return
    assert columns(head.batch) == columns(expected.batch)
    assert head.batch.wire == expected.batch.wire
    assert head.batch.wholes == expected.batch.wholes
    assert (head.counts, head.delays_ms) == (expected.counts, expected.delays_ms)
