"""The compiled form of NSQ's loops has the same results as the Python that specifies it.

On octets of all kinds, sound or not, cut into reads anywhere. `tests/fuzz/compiled.c` looks for
faults of memory in the C itself.
"""

from __future__ import annotations

import gc
import os
import random
import sys
from array import array

import forms
import pytest
from forms import compiled, form
from hypothesis import given
from hypothesis import strategies as st
from leveret.nsq_frames.deliveries import encode_messages
from leveret.nsq_frames.finishes import decode_finishes
from leveret.nsq_frames.publishes import MPUB, PUB, decode_run, encode_publishes
from nsq_streams import (
    LIMITS,
    Stream,
    batches_of,
    compared,
    ends_in_fault,
    events_of,
    outcome,
    random_stream,
    sent,
)

pytestmark = pytest.mark.skipif(compiled is None, reason="the codec is not compiled here")

STREAMS = 1_500
SOAK_STREAMS = int(os.environ.get("STREAMS", "1000000"))


def compare_streams(seed: int, count: int) -> int:
    """How many of the streams ended in a fault."""
    faults = 0
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        try:
            faults += ends_in_fault(compared(random_stream(rng), seed + number))
        except BaseException:
            print(f"LEVERET_SEED={seed}, stream {number}")
            raise
    return faults


def test_both_forms_have_the_same_results_on_streams_at_random(seed: int) -> None:
    faults = compare_streams(seed, STREAMS)
    assert STREAMS // 20 < faults < STREAMS


@pytest.mark.soak
def test_both_forms_have_the_same_results_on_very_many_streams(seed: int) -> None:
    faults = compare_streams(seed, SOAK_STREAMS)
    print(f"{SOAK_STREAMS:,} streams, {faults:,} of them ending in a fault: the same in both forms")
    assert faults > SOAK_STREAMS // 20


@given(st.binary(max_size=80), st.integers(0, 2**32), st.integers(0, 400), st.integers(0, 40))
def test_both_forms_have_the_same_results_on_any_octets(
    octets: bytes, seed: int, place: int, removed: int
) -> None:
    stream = random_stream(random.Random(seed))
    wire = b"".join(stream.reads)
    reads = [wire[:place] + octets + wire[place + removed :]]
    compared(stream._replace(reads=reads), seed)


@pytest.mark.parametrize(
    "wire",
    [
        b"PUB t\n\0\0\0\1x" * 2,
        b"PUB a\r\n\0\0\0\1xPUB b more\n\0\0\0\2xyPUB a\n\0\0\0\1z",
        b"DPUB t 7\n\0\0\0\1xDPUB t \n\0\0\0\1x",
        b"MPUB t\n\0\0\0\x0e\0\0\0\2\0\0\0\1x\0\0\0\1y" * 2,
        b"FIN 0000000000000009\nFIN 000000000000000a\nFIN 0000000000000001\n",
    ],
)
def test_a_run_cut_anywhere_has_the_same_results_in_both_forms(wire: bytes) -> None:
    for limits in LIMITS:
        for first in range(len(wire) + 1):
            for second in range(first, len(wire) + 1, 3):
                stream = Stream([wire[:first], wire[first:second], wire[second:]], limits)
                assert outcome(stream, compiled) == outcome(stream, None), (first, second)


def test_a_long_read_of_many_topics_has_the_same_numbers_in_both_forms() -> None:
    rng = random.Random(7)
    wire = b"".join(b"PUB t%d\n\0\0\0\1x" % rng.randrange(3000) for _ in range(9000))
    stream = Stream([wire], LIMITS[0])
    assert outcome(stream, compiled) == outcome(stream, None)


def test_ids_next_to_the_largest_are_the_same_ranges_in_both_forms() -> None:
    wire = b"FIN ffffffffffffffff\nFIN 0000000000000000\nFIN 0000000000000001\n"
    for codec in (None, compiled):
        with form(codec):
            assert decode_finishes(wire, 0) == ([(2**64 - 1, 2**64 - 1), (0, 1)], len(wire))


def test_messages_of_amqp_s_batches_are_the_same_in_both_forms(seed: int) -> None:
    """Whose bodies lie in any number of frames, behind headers of any size."""
    count = 0
    for number in range(300):
        for batch in forms.batches_of(forms.random_stream(random.Random(f"{seed} {number}"))):
            found = []
            for codec in (None, compiled):
                with form(codec):
                    found.append(sent(batch, random.Random(number)))
            assert found[0] == found[1], number
            count += 1
    assert count > 100


@pytest.mark.parametrize(
    "change",
    ["an end behind the wire", "a header behind the end", "an end within a frame", "short"],
)
def test_columns_that_lie_are_an_exception_and_no_fault_of_memory(change: str) -> None:
    [batch] = batches_of(events_of(Stream([b"PUB t\n\0\0\0\1x" * 3], LIMITS[0]), None))
    if change == "an end behind the wire":
        batch.ends[1] = len(batch.wire) + 1
    elif change == "a header behind the end":
        batch.headers[1] = batch.ends[1] + 1
    elif change == "an end within a frame":
        batch.ends[1] -= 1
    else:
        del batch.headers[2]
    with form(compiled), pytest.raises(ValueError, match="no row of frames"):
        encode_messages(batch.wire, batch.headers, batch.ends, range(3), 1, 1, 1)


@pytest.mark.parametrize(
    ("topics", "keys", "begins", "ends"),
    [
        ([b"t"], [1], [0], [1]),
        ([b"t"], [0], [2], [1]),
        ([b"t"], [0], [0], [5]),
        ([b"t"], [0], [0, 1], [1]),
        ([b"t" * 256], [0], [0], [1]),
        ([], [0], [0], [1]),
    ],
)
def test_bodies_that_lie_are_an_exception_and_no_fault_of_memory(
    topics: list[bytes], keys: list[int], begins: list[int], ends: list[int]
) -> None:
    columns = [array("I", each) for each in (keys, begins, ends)]
    with form(compiled), pytest.raises(ValueError):
        encode_publishes(b"body", topics, *columns)


def test_arguments_of_other_types_are_an_exception() -> None:
    none = array("I")
    calls: list[tuple[str, tuple[object, ...]]] = [
        ("nsq_bodies", ()),
        ("nsq_bodies", ("PUB", 0, PUB, 1, 1, 1)),
        ("nsq_bodies", (b"PUB", 4, PUB, 1, 1, 1)),
        ("nsq_bodies", (b"PUB", 0, "PUB", 1, 1, 1)),
        ("nsq_bodies", (b"PUB", 0, PUB, -1, 1, 1)),
        ("nsq_bodies", (b"PUB", 0, MPUB, 1, 1 << 64, 1)),
        ("nsq_bodies", (b"PUB", 0, PUB, 1, 1, 1 << 32)),
        ("nsq_publishes", ()),
        ("nsq_publishes", (b"", (), none, none, none)),
        ("nsq_publishes", (b"", ["t"], none, none, none)),
        ("nsq_publishes", (b"", [], none, none, 7)),
        ("nsq_publishes", (b"", [], none, b"123", none)),
        ("nsq_finishes", (b"",)),
        ("nsq_finishes", (bytearray(), 0)),
        ("nsq_finishes", (b"", 1)),
        ("nsq_messages", (b"", none, none, range(0), 1, 1)),
        ("nsq_messages", (b"", none, none, 7, 1, 1, 1)),
        ("nsq_messages", (b"", none, 7, range(0), 1, 1, 1)),
        ("nsq_messages", (b"", none, none, range(0), -1, 1, 1)),
        ("nsq_messages", (b"", none, none, range(0), 1, 1 << 16, 1)),
        ("nsq_messages", (b"", none, none, range(1), 1, 1, 1)),
    ]
    for name, arguments in calls:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            getattr(compiled, name)(*arguments)


def test_calls_leave_no_memory_behind() -> None:
    def call_all() -> None:
        for number in range(40):
            compared(random_stream(random.Random(number)), number)
        test_columns_that_lie_are_an_exception_and_no_fault_of_memory("short")
        test_arguments_of_other_types_are_an_exception()

    for _ in range(3):
        call_all()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(30):
        call_all()
    gc.collect()
    # A block that each of these calls left behind would make thousands.
    assert sys.getallocatedblocks() - before < 300


def test_no_run_is_found_where_there_is_none_in_both_forms() -> None:
    for codec in (None, compiled):
        with form(codec):
            assert decode_run(b"xxPUB", 2, PUB, LIMITS[0]) == (None, 2)
            assert decode_finishes(b"xxFIN", 2) == ([], 2)
