from __future__ import annotations

import random

from benchmarks import wire
from benchmarks.confirms import ACK_FRAME_BYTES, Confirms


def fed_in_reads(stream: bytes, lengths: list[int], channel: int = 1) -> Confirms:
    """Feed a stream in reads of these lengths, as the load does: with the tail of the last one."""
    confirms = Confirms(channel)
    tail, begin = b"", 0
    for length in lengths:
        data = tail + stream[begin : begin + length]
        confirms.feed(data)
        tail, begin = data[-(ACK_FRAME_BYTES - 1) :], begin + length
    return confirms


def returned(body: bytes) -> bytes:
    arguments = b"\x018\x08NO_ROUTE\x00\x04none"
    return wire.method(1, 60, 50, arguments) + wire.publish(1, "", "none", body)[31:]


def test_a_multiple_ack_confirms_all_up_to_its_tag() -> None:
    assert fed_in_reads(wire.ack(1, 700, multiple=True), [21]).count == 700


def test_a_single_ack_above_a_gap_counts_once() -> None:
    stream = wire.ack(1, 5) + wire.ack(1, 4, multiple=True)
    confirms = fed_in_reads(stream, [42])
    assert (confirms.base, confirms.count) == (5, 5)


def test_single_acks_out_of_order_are_all_counted() -> None:
    tags = [3, 1, 5, 2]
    confirms = fed_in_reads(b"".join(wire.ack(1, tag) for tag in tags), [84])
    assert (confirms.base, confirms.count) == (3, 4)


def test_a_long_run_with_one_tag_out_of_place_is_counted_frame_by_frame() -> None:
    tags = [*range(1, 100), 101, 100, *range(102, 200)]
    confirms = fed_in_reads(b"".join(wire.ack(1, tag) for tag in tags), [len(tags) * 21])
    assert confirms.base == 199


def test_a_run_that_leaves_one_out_does_not_confirm_it() -> None:
    tags = [*range(1, 50), *range(51, 101)]
    confirms = fed_in_reads(b"".join(wire.ack(1, tag) for tag in tags), [len(tags) * 21])
    assert (confirms.base, confirms.count) == (49, 99)


def test_acks_of_other_channels_are_not_counted() -> None:
    stream = wire.ack(2, 9, multiple=True) + wire.ack(1, 4, multiple=True)
    assert fed_in_reads(stream, [42], channel=1).count == 4
    assert fed_in_reads(stream, [42], channel=2).count == 9


def test_acks_behind_returns_are_counted_wherever_the_reads_end() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    generator = random.Random(seed)
    message = returned(wire.body_of(200))
    stream = b"".join(message + wire.ack(1, tag) for tag in range(1, 301))
    for longest in (1, 30, 1000, 100_000):
        lengths = [generator.randint(1, longest) for _ in range(2 * len(stream) // longest)]
        lengths.append(len(stream))
        assert fed_in_reads(stream, lengths).base == 300
