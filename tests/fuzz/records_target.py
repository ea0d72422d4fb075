"""The records of the journal: octets that pass for the covered ones of a record that verifies.

A record that a client cannot forge may still be what a fault of ours wrote, or what a disk made of
one and its checksum. Held to: a record or ValueError, nothing else, and no more memory than the
octets allow. Whatever decodes and can be written is the same when it is written and read again.
"""

from __future__ import annotations

from leveret.amqp_frames.messages.arrivals import Arrived, joined_arrivals, runs_of
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.storage.journal.identity_runs import Identities, IdentityRun
from leveret.storage.journal.records import (
    COMMIT,
    COMPACTED,
    DEFERRED,
    DELIVERED,
    ENTRIES,
    HEAD_BYTES,
    IDENTITIES,
    REMOVED,
    SETTLE,
    BodyRecord,
    CommitRecord,
    CompactedRecord,
    DeferredRecord,
    EntriesRecord,
    IdentitiesRecord,
    RangesRecord,
    Record,
    RemovedRecord,
    Seal,
    decode_record,
    encode_commit,
    encode_compacted,
    encode_deferred,
    encode_entries,
    encode_messages,
    encode_ranges,
    identities_covered,
    removed_covered,
)
from publishes import publish

NAME = "records"
INPUT_BYTES_MAX = 1024


def _covered(sealed: bytes) -> bytes:
    return sealed[HEAD_BYTES:]


def _seal() -> Seal:
    return Seal(bytes(16), 1, 1, 0)


def seeds() -> list[bytes]:
    """A record of each kind and form."""
    seal = _seal()
    run = IdentityRun(0, 5, 6, 77, bytearray(range(32)))
    entries = [
        encode_entries(seal, 1, 2, range(3), range(10, 13)),
        encode_entries(seal, 1, 2, range(2), range(10, 12), 99, None, 77),
        encode_entries(seal, 1, 2, range(2), range(10, 12), 0, Identities(bytes(range(32)), 9)),
    ]
    return [
        *map(_covered, entries),
        _covered(encode_ranges(seal, SETTLE, 1, [(1, 5)])),
        _covered(encode_ranges(seal, DELIVERED, 1, [(1, 5), (7, 9)])),
        _covered(encode_deferred(seal, 1, [(1, 5, 1000)])),
        _covered(encode_commit(seal, 3, 4, 5, 6)),
        _covered(encode_compacted(seal, CompactedRecord(3, 1, 4000, 5, 6))),
        removed_covered([(1, 2)]),
        identities_covered(1, [run]),
        bytes((2, 0)) + bytes(16) + publish(b"body"),
        *(_body(arrived) for arrived in (77, joined_arrivals([(77, 1), (0, 1), (78, 2)]))),
    ]


def _body(arrived: Arrived) -> bytes:
    wire = publish(b"body") * 4
    return _covered(encode_messages(_seal(), 7, range(4), wire, arrived) + wire)


def run(data: bytes) -> None:
    """One input; raises if a promise is broken."""
    try:
        record = decode_record(data, 0, len(data)) if data else None
    except ValueError:
        return
    if isinstance(record, BodyRecord):
        _decode_wire(data[record.wire_start : record.wire_end])
        count = len(record.indexes)
        if count:
            assert [high for _, high, _ in runs_of(record.arrived, range(count))][-1] == count
    elif record is not None:
        written = _written(record)
        assert _plain(decode_record(written, 0, len(written))) == _plain(record)


def _decode_wire(wire: bytes) -> None:
    try:
        decode_publishes(wire)
    except ValueError:
        return


def _written(record: Record) -> bytes:
    seal = _seal()
    match record:
        case EntriesRecord():
            return _written_entries(record)
        case RangesRecord(kind, queue_id, ranges):
            return _covered(encode_ranges(seal, kind, queue_id, ranges))
        case DeferredRecord(queue_id, ranges):
            return _covered(encode_deferred(seal, queue_id, ranges))
        case CommitRecord():
            return _covered(encode_commit(seal, *record))
        case CompactedRecord():
            return _covered(encode_compacted(seal, record))
        case RemovedRecord(segments):
            return removed_covered(segments)
        case IdentitiesRecord(queue_id, runs):
            return identities_covered(queue_id, runs)
    raise AssertionError(f"{record} has no encoder here")


def _written_entries(record: EntriesRecord) -> bytes:
    queue_id, batch_number, indexes, entry_ids, *others = record
    return _covered(encode_entries(_seal(), queue_id, batch_number, indexes, entry_ids, *others))


def _plain(record: Record) -> object:
    """With columns as tuples of at most so many numbers: a range may be as long as it claims."""
    return [type(record).__name__, *map(_shown, record)]


def _shown(value: object) -> object:
    if isinstance(value, range):
        return value.start, value.stop
    if isinstance(value, IdentityRun):
        return [getattr(value, name) for name in value.__slots__]
    if isinstance(value, list):
        return list(map(_shown, value))
    if hasattr(value, "tolist"):
        numbers = value.tolist()
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return numbers[0], numbers[0] + len(numbers)
        return numbers
    return value


_KINDS = {ENTRIES, SETTLE, DELIVERED, REMOVED, IDENTITIES, COMMIT, DEFERRED, COMPACTED}
assert set(range(3, 11)) == _KINDS
