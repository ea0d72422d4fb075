"""The compiled form of the codec has the same results as the Python that specifies it.

On octets of all kinds, sound or not: events and their columns, errors and their words, and what a
decoder still waits for. `tests/fuzz/compiled.c` looks for faults of memory in the C itself.
"""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
from array import array

import pytest
from decoding import Publish, ack, decoder
from forms import Stream, batches_of, columns, compared, compiled, form, outcome, random_stream
from hypothesis import given
from hypothesis import strategies as st
from leveret.amqp_frames.compiled import FORM
from leveret.amqp_frames.constants import HEARTBEAT_FRAME
from leveret.amqp_frames.decoder import ChannelInput
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.messages.deliveries import encode_answers, encode_deliveries
from leveret.amqp_frames.messages.indexes import rows_of, split
from leveret.amqp_frames.messages.publishes import publish_run

pytestmark = pytest.mark.skipif(compiled is None, reason="the codec is not compiled here")

STREAMS = 1_500
SOAK_STREAMS = int(os.environ.get("STREAMS", "1000000"))


def compare_streams(seed: int, count: int) -> tuple[int, int]:
    """How many streams were compared, and how many of them ended in an error."""
    errors = 0
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        try:
            errors += compared(random_stream(rng), rng)
        except BaseException:
            print(f"LEVERET_SEED={seed}, stream {number}")
            raise
    return count, errors


def test_both_forms_have_the_same_results_on_streams_at_random(seed: int) -> None:
    count, errors = compare_streams(seed, STREAMS)
    assert count // 10 < errors < count


@pytest.mark.soak
def test_both_forms_have_the_same_results_on_very_many_streams(seed: int) -> None:
    count, errors = compare_streams(seed, SOAK_STREAMS)
    print(f"{count:,} streams, {errors:,} of them ending in an error: the same in both forms")
    assert errors > count // 10


@given(st.binary(max_size=80), st.integers(0, 2**32), st.integers(0, 400), st.integers(0, 40))
def test_both_forms_have_the_same_results_on_any_octets(
    octets: bytes, seed: int, place: int, removed: int
) -> None:
    rng = random.Random(seed)
    stream = random_stream(rng)
    wire = stream.wire
    reads = [wire[:place] + octets + wire[place + removed :]]
    compared(stream._replace(reads=reads), rng)


@pytest.mark.parametrize(
    ("pieces", "is_alone"),
    [
        ([Publish()], True),
        ([Publish(b"")], True),
        ([Publish(b"body" * 9, part_bytes=5)], True),
        ([Publish(channel=7), Publish(b"other", b"\0\1k\0", channel=7), Publish(channel=7)], True),
        # A property that the broker must look at: `expiration`.
        ([Publish(), Publish(properties=b"\1\0\x03100")], True),
        ([Publish(channel=0)], False),
        ([Publish(), Publish(channel=2)], False),
        ([Publish(), ack(1)], False),
        ([ack(1), Publish()], False),
        ([Publish(properties=b"\x20\0")], False),
        ([Publish(), b"\1"], False),
        ([], False),
    ],
)
def test_a_read_of_nothing_but_publishes_of_one_channel_is_found_in_both_forms(
    pieces: list[Publish | bytes], is_alone: bool
) -> None:
    wire = b"".join(each if isinstance(each, bytes) else each.wire() for each in pieces)
    found = []
    for each in (compiled, None):
        with form(each):
            batch = publish_run(131_072, 1000).decode_alone(wire)
        found.append(None if batch is None else columns(batch))
    assert found[0] == found[1]
    assert (found[0] is not None) is is_alone
    if is_alone:
        # As it comes with the frames of others behind it.
        [batch] = batches_of(Stream([wire + HEARTBEAT_FRAME]))
        batch.wire = batch.wire[: len(wire)]
        assert columns(batch) == found[0]
    for end in range(len(wire)):
        with form(compiled):
            cut = publish_run(131_072, 1000).decode_alone(wire[:end])
        with form(None):
            same = publish_run(131_072, 1000).decode_alone(wire[:end])
        assert (cut and columns(cut)) == (same and columns(same))


def test_a_publish_cut_anywhere_waits_for_as_many_bytes_in_both_forms() -> None:
    whole = Publish(b"body" * 5, properties=b"\x10\0\2", part_bytes=9).wire()
    for first in (b"", whole):
        for end in range(len(whole)):
            for second in (b"", whole[end:]):
                stream = Stream([first + whole[:end], second])
                assert outcome(stream, compiled) == outcome(stream, None), end


def test_a_long_read_of_many_keys_has_the_same_numbers_in_both_forms() -> None:
    rng = random.Random(7)
    keys = [b"\0" + bytes((len(name),)) + name + b"\0" for name in map(b"%d".__mod__, range(3000))]
    wire = b"".join(Publish(b"x", rng.choice(keys)).wire() for _ in range(9000))
    stream = Stream([wire, ack(3).join([wire, wire])])
    assert outcome(stream, compiled) == outcome(stream, None)


def test_runs_of_two_channels_in_turn_number_each_channel_s_keys_in_both_forms() -> None:
    wires = [
        Publish(b"x", b"\0\1%d\0" % (number % 7), channel=1 + number % 2).wire() + ack(number)
        for number in range(60)
    ]
    stream = Stream([b"".join(wires)])
    assert outcome(stream, compiled) == outcome(stream, None)
    one, two = batches_of(stream)
    assert (len(one.distinct), len(two.distinct)) == (7, 7)


def test_tables_are_taken_as_deep_as_in_python_and_no_deeper() -> None:
    for levels in range(60, 70):
        fields = b""
        for _ in range(levels - 1):
            fields = b"\1tF" + len(fields).to_bytes(4, "big") + fields
        table = len(fields).to_bytes(4, "big") + fields
        stream = Stream([Publish(b"x", properties=b"\x20\0" + table).wire()])
        assert outcome(stream, compiled) == outcome(stream, None), levels


def test_deliveries_may_be_chosen_by_any_sequence_of_numbers() -> None:
    [batch] = batches_of(Stream([b"".join(Publish(b"%d" % at).wire() for at in range(9))]))
    for indexes in (range(9), range(2, 5), range(1, 9, 3), (4,), [1, 2, 8], array("I", [0, 7])):
        with form(None):
            expected = encode_deliveries(batch, indexes, 4, b"\1c", False, 1, 0)
        with form(compiled):
            assert encode_deliveries(batch, indexes, 4, b"\1c", False, 1, 0) == expected


def broken(change: str) -> Batch:
    """A batch that says of itself what is not so."""
    [batch] = batches_of(Stream([Publish().wire() * 3]))
    if change == "an end behind the wire":
        batch.ends[1] = len(batch.wire) + 1
    elif change == "a header behind the end":
        batch.headers[1] = batch.ends[1] + 1
    elif change == "a key that is none":
        batch.keys[1] = 1
    elif change == "columns of different sizes":
        del batch.headers[2]
    elif change == "a key of no octets":
        batch.distinct[0] = b""
    else:
        batch.ends[1] -= 1
    return batch


@pytest.mark.parametrize(
    "change",
    [
        "an end behind the wire",
        "a header behind the end",
        "a key that is none",
        "columns of different sizes",
        "a key of no octets",
        "an end within a frame",
    ],
)
def test_columns_that_lie_are_an_exception_and_no_fault_of_memory(change: str) -> None:
    with form(compiled), pytest.raises((ValueError, IndexError)):
        encode_deliveries(broken(change), range(3), 1, b"\1c", False, 2, 0)


@pytest.mark.parametrize(
    ("keys", "row_of_key", "count", "fault"),
    [
        ([0, 2], [0, 1], 2, IndexError),
        ([0, 1], [0, 2], 2, IndexError),
        ([0, 1], [0, 1], 3, ValueError),
    ],
)
def test_rows_of_keys_that_are_none_are_an_exception_in_both_forms(
    keys: list[int], row_of_key: list[int], count: int, fault: type[Exception]
) -> None:
    for codec in (None, compiled):
        with form(codec), pytest.raises(fault):
            rows_of(keys, row_of_key, 2, count)


def test_a_message_without_a_flag_is_an_exception_in_both_forms() -> None:
    for codec in (None, compiled):
        with form(codec), pytest.raises(IndexError):
            split(array("I", [0, 2]), bytearray(2), 1)


def test_arguments_of_other_types_are_an_exception() -> None:
    calls: list[tuple[str, tuple[object, ...]]] = [
        ("publishes", ()),
        ("publishes", ("text", 0, 1, 0, 0, {}, [])),
        ("publishes", (b"", 1, 1, 0, 0, {}, [])),
        ("publishes", (b"", -1, 1, 0, 0, {}, [])),
        ("publishes", (b"", 0, 65_536, 0, 0, {}, [])),
        ("publishes", (b"", 0, 1, 0, 0, [], [])),
        ("acks", (b"", 1)),
        ("acks", (bytearray(21), 0)),
        ("deliveries", (b"", b"", b"", b"", [], 7, 1, False, b"", 1, False)),
        ("deliveries", (b"", b"1", b"", b"", [], range(1), 1, False, b"", 1, False)),
        ("returns", (b"", b"", b"", b"", [], range(1), 1, False, b"", 1)),
        ("returns", (b"", b"", b"", b"", (), range(1), 1, False, b"", 1)),
        ("answers", (1, 80, 0, 0, [(1,)])),
        ("answers", (1, 80, 0, 0, [(1, 1 << 40)])),
        ("answers", (1, 80, 0, 1 << 64, ())),
        ("merge", ([object()],)),
        ("merge", (7,)),
        ("rows", (b"", b"", 1)),
        ("rows", (7, b"", 1, 0)),
        ("rows", (b"", b"123", 1, 0)),
        ("rows", (b"", b"", -1, 0)),
        ("rows", (b"", b"", 1, 1 << 40)),
        ("rows", (b"", b"", 1, 1)),
        ("split", (range(1), b"", 0)),
        ("split", ([1 << 40], b"", 0)),
        ("split", (7, b"", 0)),
        ("split", (range(1), [1], 0)),
        ("split", (range(1), b"1", 1 << 64)),
        ("split", (b"123", b"1", 1)),
        ("divide", (range(1), 7)),
        ("divide", (range(-1, 1), range(1))),
        ("divide", (range(1), [None])),
        ("ranges", (range(1), -1)),
        ("ranges", (range(1), 1 << 64)),
        ("ranges", (["1"], 1)),
    ]
    for name, arguments in calls:
        with pytest.raises((TypeError, ValueError, IndexError, OverflowError, AttributeError)):
            getattr(compiled, name)(*arguments)


def test_calls_leave_no_memory_behind() -> None:
    def call_all() -> None:
        for number in range(40):
            rng = random.Random(number)
            compared(random_stream(rng), rng)
        for change in ("an end behind the wire", "a key that is none", "a key of no octets"):
            test_columns_that_lie_are_an_exception_and_no_fault_of_memory(change)
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


def test_a_read_without_an_ack_is_a_run_of_none() -> None:
    assert compiled.acks(b"x" * 50, 3) == (3, array("Q"), bytearray())


def test_answers_of_a_range_that_is_empty_are_none_in_both_forms() -> None:
    for codec in (None, compiled):
        with form(codec):
            assert encode_answers(1, 80, 0, [(5, 4)]) == b""


def test_the_environment_has_a_process_use_the_python_form() -> None:
    program = "from leveret.amqp_frames.compiled import FORM; print(FORM)"
    for value, expected in (("no", "pure Python"), ("yes", "compiled")):
        environment = {**os.environ, "LEVERET_COMPILED": value}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == f"{expected}\n"


def test_what_was_compiled_of_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import sys, types\n"
        "old = types.ModuleType('leveret.amqp_frames.compiled._codec')\n"
        "old.REVISION = 0\n"
        "sys.modules[old.__name__] = old\n"
        "from leveret.amqp_frames.compiled import FORM\n"
        "print(FORM)\n"
    )
    monkeypatch.delenv("LEVERET_COMPILED", raising=False)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "pure Python\n"


def test_the_process_has_the_form_that_it_says() -> None:
    reading = decoder()
    [event] = reading.feed(Publish().wire())
    assert isinstance(event, ChannelInput)
    assert event.batch is not None
    assert columns(event.batch) == columns(batches_of(Stream([Publish().wire()]))[0])
    wanted = os.environ.get("LEVERET_COMPILED") != "no"
    assert ("compiled" if wanted else "pure Python") == FORM
