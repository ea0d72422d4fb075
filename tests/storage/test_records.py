from __future__ import annotations

from array import array
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from leveret.amqp_frames.messages.arrivals import ARRIVED_NS_MAX, arrivals_of, joined_arrivals
from leveret.storage.journal.records import (
    COMMIT_BYTES,
    DELIVERED,
    HEAD_BYTES,
    NUMBER_MAX,
    RANGE_BYTES,
    RANGES_BYTES_MIN,
    SEGMENTS_LISTED_MAX,
    SETTLE,
    BodyRecord,
    CommitRecord,
    EntriesRecord,
    RangesRecord,
    RemovedRecord,
    Seal,
    body_bytes_at_most,
    decode_record,
    encode_body,
    encode_commit,
    encode_deferred,
    encode_entries,
    encode_ranges,
    entries_bytes_at_most,
    read_head,
    removed_covered,
    salt_of,
)
from leveret.storage.journal.segment_header import SegmentHeader, decode_header, encode_header
from publishes import batch_of, publish

numbers = st.integers(0, NUMBER_MAX)
ranges = st.lists(st.tuples(numbers, numbers), max_size=5)

DIRECTORY_ID = b"0123456789abcdef"


def new_seal() -> Seal:
    return Seal(DIRECTORY_ID, 7, 3, 0x1234)


def verified(record: bytes) -> bytes:
    """From its kind on, checked as a reader does."""
    head = read_head(record, 0, salt_of(DIRECTORY_ID, 7))
    assert head is not None
    assert (head.checksum_before, head.epoch, head.end) == (0x1234, 3, len(record))
    assert record[HEAD_BYTES] != 0
    return record[HEAD_BYTES:]


@given(
    queue_id=numbers,
    batch_number=numbers,
    indexes=st.sets(st.integers(0, 2**32 - 1), min_size=1),
    first_id=st.integers(0, NUMBER_MAX // 2),
    gap=st.integers(0, 2**40),
)
def test_entries_come_back(
    queue_id: int, batch_number: int, indexes: set[int], first_id: int, gap: int
) -> None:
    ordered = array("I", sorted(indexes))
    ids = array("Q", range(first_id, first_id + len(ordered)))
    ids[-1] += gap
    record = encode_entries(new_seal(), queue_id, batch_number, ordered, ids)
    assert len(record) <= entries_bytes_at_most(len(ordered))
    covered = verified(record)
    decoded = decode_record(covered, 0, len(covered))
    assert isinstance(decoded, EntriesRecord)
    assert decoded[:2] == (queue_id, batch_number)
    assert list(decoded.indexes) == list(ordered)
    assert list(decoded.entry_ids) == list(ids)


def test_what_is_contiguous_is_a_range_and_takes_no_room() -> None:
    many = encode_entries(new_seal(), 1, 2, range(1000), range(5, 1005))
    one = encode_entries(new_seal(), 1, 2, range(1), range(5, 6))
    assert len(many) == len(one)
    listed = encode_entries(new_seal(), 1, 2, array("I", range(1000)), range(5, 1005))
    assert listed == many
    assert decode_record(many, HEAD_BYTES, len(many)) == EntriesRecord(
        1, 2, range(1000), range(5, 1005)
    )


@given(each=st.lists(numbers, min_size=1, max_size=5), data=st.data())
def test_deadlines_come_back_one_for_all_or_one_for_each(
    each: list[int], data: st.DataObject
) -> None:
    count = len(each)
    all_at_once = data.draw(numbers)
    for deadlines in (array("Q", each), all_at_once):
        # In every form that indexes and ids can have.
        for indexes in (range(2, 2 + count), array("I", range(0, 2 * count, 2))):
            for ids in (range(1, 1 + count), array("Q", range(1, 2 * count, 2))):
                record = encode_entries(new_seal(), 1, 2, indexes, ids, deadlines)
                assert len(record) <= entries_bytes_at_most(count, deadlines)
                covered = verified(record)
                decoded = decode_record(covered, 0, len(covered))
                assert isinstance(decoded, EntriesRecord)
                assert decoded.deadlines == deadlines
                assert list(decoded.indexes) == list(indexes)
                assert list(decoded.entry_ids) == list(ids)


def test_an_entries_record_without_deadlines_is_as_it_was_in_format_version_1() -> None:
    covered = verified(encode_entries(new_seal(), 1, 2, range(3), range(5, 8)))
    assert covered == bytes.fromhex(
        "03 00 03000000 0100000000000000 0200000000000000 00000000 0500000000000000"
    )


@given(kind=st.sampled_from((SETTLE, DELIVERED)), queue_id=numbers, ranges=ranges)
def test_ranges_come_back(kind: int, queue_id: int, ranges: list[tuple[int, int]]) -> None:
    record = encode_ranges(new_seal(), kind, queue_id, ranges)
    assert len(record) == RANGES_BYTES_MIN + RANGE_BYTES * len(ranges)
    covered = verified(record)
    assert decode_record(covered, 0, len(covered)) == RangesRecord(kind, queue_id, ranges)


@given(first=numbers, counts=st.lists(st.integers(1, SEGMENTS_LISTED_MAX // 5), max_size=5))
def test_a_removal_comes_back(first: int, counts: list[int]) -> None:
    ranges = [(first, min(first + count - 1, NUMBER_MAX)) for count in counts]
    covered = removed_covered(ranges)
    assert decode_record(covered, 0, len(covered)) == RemovedRecord(ranges)


def test_a_number_that_no_broker_gives_makes_no_sense() -> None:
    # Found by the fuzzer: the next one did not fit into a record, and the start ended with that.
    for covered in (
        removed_covered([(1, 2**64 - 1)]),
        verified(encode_commit(new_seal(), 1, 2, 2**64 - 1, 3)),
        verified(encode_ranges(new_seal(), SETTLE, 1, [(1, 2**64 - 1)])),
        verified(encode_entries(new_seal(), 1, 2, range(2), range(2**64 - 3, 2**64 - 1))),
        verified(encode_entries(new_seal(), 1, 2**64 - 1, range(2), range(2))),
        verified(encode_deferred(new_seal(), 1, [(1, 2**64 - 1, 5)])),
    ):
        with pytest.raises(ValueError, match="no number that a broker gives"):
            decode_record(covered, 0, len(covered))
    header, _ = encode_header(SegmentHeader(2**64 - 1, 1, [(1, 1)], DIRECTORY_ID))
    assert decode_header(header) is None


def test_more_segments_than_a_journal_has_are_no_list_of_segments() -> None:
    # Found by the fuzzer: a start listed each of them.
    for ranges in ([(1, NUMBER_MAX)], [(1, SEGMENTS_LISTED_MAX), (3, 3)]):
        covered = removed_covered(ranges)
        with pytest.raises(ValueError, match="segments announced"):
            decode_record(covered, 0, len(covered))
        header, _ = encode_header(SegmentHeader(1, 1, ranges, DIRECTORY_ID))
        assert decode_header(header) is None


@given(record=st.builds(CommitRecord, numbers, numbers, numbers, numbers))
def test_the_record_of_a_commit_comes_back(record: CommitRecord) -> None:
    encoded = encode_commit(new_seal(), *record)
    assert len(encoded) == COMMIT_BYTES
    covered = verified(encoded)
    assert decode_record(covered, 0, len(covered)) == record


@pytest.mark.parametrize(
    ("durable", "stored"),
    [(None, [0, 1, 2, 3]), (range(1, 3), [1, 2]), (array("I", [0, 3]), [0, 3])],
)
def test_a_body_holds_the_wire_bytes_of_the_durable_messages(
    durable: range | array[int] | None, stored: list[int]
) -> None:
    batch = batch_of([b"%d" % index * 9 for index in range(4)], 77, durable)
    head, wire = encode_body(new_seal(), batch)
    assert len(head) + len(wire) <= body_bytes_at_most(batch)
    covered = verified(head + wire)
    record = decode_record(covered, 0, len(covered))
    assert isinstance(record, BodyRecord)
    assert record.batch_number == 77
    assert list(record.indexes) == stored
    assert covered[record.wire_start : record.wire_end] == b"".join(
        publish(b"%d" % index * 9) for index in stored
    )


@given(
    durable=st.sets(st.integers(0, 5), min_size=1),
    times_ns=st.lists(st.sampled_from((0, 1, 2, ARRIVED_NS_MAX)), min_size=6, max_size=6),
    is_one=st.booleans(),
)
def test_a_body_says_when_its_messages_arrived(
    durable: set[int], times_ns: list[int], is_one: bool
) -> None:
    batch = batch_of([b"%d" % index for index in range(6)], 7, array("I", sorted(durable)))
    batch.arrived = times_ns[0] if is_one else joined_arrivals((each, 1) for each in times_ns)
    head, wire = encode_body(new_seal(), batch, batch.arrived)
    assert len(head) + len(wire) <= body_bytes_at_most(batch)
    covered = verified(head + wire)
    record = decode_record(covered, 0, len(covered))
    assert isinstance(record, BodyRecord)
    assert record.arrived == arrivals_of(batch.arrived, sorted(durable))
    messages = b"".join(publish(b"%d" % index) for index in sorted(durable))
    assert covered[record.wire_start : record.wire_end] == messages


def test_a_batch_that_arrived_as_one_costs_eight_bytes_more() -> None:
    batch = batch_of([b"%d" % index for index in range(100)], 7)
    sizes = [
        len(encode_body(new_seal(), batch, arrived)[0]) for arrived in (0, 1_700_000_000 << 30)
    ]
    assert sizes[1] - sizes[0] == 8


@pytest.mark.parametrize(
    ("form", "octets"),
    [
        (2, pack("<Q", ARRIVED_NS_MAX + 1)),
        (2, b"\1" * 7),
        (4, pack("<IIIQQ", 2, 1, 2, 5, ARRIVED_NS_MAX + 1)),
        # Of 3 messages, and of 2 in another order; of none.
        (4, pack("<IIIQQ", 2, 1, 3, 5, 6)),
        (4, pack("<IIIIQQQ", 3, 2, 1, 2, 5, 6, 7)),
        (4, pack("<I", 0)),
        (4, pack("<IIIQ", 2, 1, 2, 5)),
    ],
)
def test_times_of_arrival_that_no_broker_writes_make_no_sense(form: int, octets: bytes) -> None:
    covered = pack("<BBIQI", 2, form, 2, 7, 0) + octets
    with pytest.raises(ValueError, match=r"arriv|announced|ends at|requires"):
        decode_record(covered, 0, len(covered))


def test_messages_that_lie_together_are_not_copied() -> None:
    batch = batch_of([b"a", b"b"], 1)
    _, wire = encode_body(new_seal(), batch)
    assert isinstance(wire, memoryview)
    assert wire.obj is batch.wire


@given(covered=st.binary(min_size=1, max_size=80), kind=st.integers(0, 9))
def test_any_bytes_are_a_record_or_a_value_error(covered: bytes, kind: int) -> None:
    data = bytes([kind]) + covered
    try:
        decode_record(data, 0, len(data))
    except ValueError:
        return
