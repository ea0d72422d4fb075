from __future__ import annotations

from array import array
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from leveret.storage.entries_record import (
    EntriesRecord,
    encode_entries,
    entries_bytes_at_most,
)
from leveret.storage.records import (
    DELIVERED,
    HEAD,
    SETTLE,
    BodyRecord,
    RangesRecord,
    RemovedRecord,
    SegmentRecord,
    body_bytes_at_most,
    decode_record,
    encode_body,
    encode_ranges,
    encode_removed,
    encode_segment,
    ranges_bytes,
)
from publishes import batch_of, publish

SEGMENT_NUMBER = 0x1234
numbers = st.integers(0, 2**64 - 1)
ranges = st.lists(st.tuples(numbers, numbers), max_size=5)


def verified(record: bytes) -> bytes:
    """The covered bytes of a record, checked as a reader does."""
    length, crc = HEAD.unpack_from(record)
    covered = record[HEAD.size :]
    assert length == len(covered)
    assert crc == crc32(covered, SEGMENT_NUMBER)
    assert covered[0] != 0
    return covered


@given(
    queue_id=numbers,
    batch_number=numbers,
    indexes=st.sets(st.integers(0, 2**32 - 1), min_size=1),
    first_id=st.integers(0, 2**63),
    gap=st.integers(0, 2**40),
)
def test_entries_come_back(
    queue_id: int, batch_number: int, indexes: set[int], first_id: int, gap: int
) -> None:
    ordered = array("I", sorted(indexes))
    ids = array("Q", range(first_id, first_id + len(ordered)))
    ids[-1] += gap
    record = encode_entries(queue_id, batch_number, ordered, ids, SEGMENT_NUMBER)
    assert len(record) <= entries_bytes_at_most(len(ordered))
    covered = verified(record)
    decoded = decode_record(covered, 0, len(covered))
    assert isinstance(decoded, EntriesRecord)
    assert decoded[:2] == (queue_id, batch_number)
    assert list(decoded.indexes) == list(ordered)
    assert list(decoded.entry_ids) == list(ids)


def test_what_is_contiguous_is_a_range_and_takes_no_room() -> None:
    many = encode_entries(1, 2, range(1000), range(5, 1005), SEGMENT_NUMBER)
    one = encode_entries(1, 2, range(1), range(5, 6), SEGMENT_NUMBER)
    assert len(many) == len(one)
    assert encode_entries(1, 2, array("I", range(1000)), range(5, 1005), SEGMENT_NUMBER) == many
    assert decode_record(many, HEAD.size, len(many)) == EntriesRecord(
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
                record = encode_entries(1, 2, indexes, ids, SEGMENT_NUMBER, deadlines)
                assert len(record) <= entries_bytes_at_most(count, deadlines)
                covered = verified(record)
                decoded = decode_record(covered, 0, len(covered))
                assert isinstance(decoded, EntriesRecord)
                assert decoded.deadlines == deadlines
                assert list(decoded.indexes) == list(indexes)
                assert list(decoded.entry_ids) == list(ids)


def test_an_entries_record_without_deadlines_is_as_it_was_in_format_version_1() -> None:
    record = encode_entries(1, 2, range(3), range(5, 8), SEGMENT_NUMBER)
    assert record[HEAD.size :] == bytes.fromhex(
        "03 00 03000000 0100000000000000 0200000000000000 00000000 0500000000000000"
    )


@given(kind=st.sampled_from((SETTLE, DELIVERED)), queue_id=numbers, ranges=ranges)
def test_ranges_come_back(kind: int, queue_id: int, ranges: list[tuple[int, int]]) -> None:
    record = encode_ranges(kind, queue_id, ranges, SEGMENT_NUMBER)
    assert len(record) == ranges_bytes(len(ranges))
    covered = verified(record)
    assert decode_record(covered, 0, len(covered)) == RangesRecord(kind, queue_id, ranges)


@given(number=numbers, next_batch_number=numbers, ranges=ranges)
def test_bookkeeping_of_segments_comes_back(
    number: int, next_batch_number: int, ranges: list[tuple[int, int]]
) -> None:
    covered = encode_segment(number, next_batch_number, ranges)[HEAD.size :]
    assert decode_record(covered, 0, len(covered)) == SegmentRecord(
        number, next_batch_number, ranges
    )
    covered = verified(encode_removed(ranges, SEGMENT_NUMBER))
    assert decode_record(covered, 0, len(covered)) == RemovedRecord(ranges)


@pytest.mark.parametrize(
    ("durable", "stored"),
    [(None, [0, 1, 2, 3]), (range(1, 3), [1, 2]), (array("I", [0, 3]), [0, 3])],
)
def test_a_body_holds_the_wire_bytes_of_the_durable_messages(
    durable: range | array[int] | None, stored: list[int]
) -> None:
    batch = batch_of([b"%d" % index * 9 for index in range(4)], 77, durable)
    head, wire = encode_body(batch, SEGMENT_NUMBER)
    assert len(head) + len(wire) <= body_bytes_at_most(batch)
    covered = verified(head + wire)
    record = decode_record(covered, 0, len(covered))
    assert isinstance(record, BodyRecord)
    assert record.batch_number == 77
    assert list(record.indexes) == stored
    assert covered[record.wire_start : record.wire_end] == b"".join(
        publish(b"%d" % index * 9) for index in stored
    )


def test_messages_that_lie_together_are_not_copied() -> None:
    batch = batch_of([b"a", b"b"], 1)
    _, wire = encode_body(batch, SEGMENT_NUMBER)
    assert isinstance(wire, memoryview)
    assert wire.obj is batch.wire


@given(covered=st.binary(min_size=1, max_size=80), kind=st.integers(0, 8))
def test_any_bytes_are_a_record_or_a_value_error(covered: bytes, kind: int) -> None:
    data = bytes([kind]) + covered
    try:
        decode_record(data, 0, len(data))
    except ValueError:
        return
