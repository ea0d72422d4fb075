"""Identities in records: in those of their entries, and in records of their own."""

from __future__ import annotations

from array import array
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from leveret.storage.journal.identity_runs import IDENTITY_BYTES, Identities, IdentityRun
from leveret.storage.journal.records import (
    HEAD_BYTES,
    NUMBER_MAX,
    EntriesRecord,
    Seal,
    decode_record,
    encode_entries,
    identities_bytes,
    identities_covered,
    in_records,
)


@given(count=st.integers(1, 5), until_ms=st.integers(0, 2**64 - 1), deadline=st.booleans())
def test_identities_of_an_entries_record_come_back(
    count: int, until_ms: int, deadline: bool
) -> None:
    some = Identities(bytes(range(IDENTITY_BYTES)) * count, until_ms)
    ids, deadlines = range(7, 7 + count), array("Q", [3] * count) if deadline else 0
    record = encode_entries(Seal(b"", 1, 1, 0), 1, 2, range(count), ids, deadlines, some)
    decoded = decode_record(record, HEAD_BYTES, len(record))
    assert isinstance(decoded, EntriesRecord)
    assert decoded.identities == some
    assert list(decoded.entry_ids) == list(ids)


@given(
    sizes=st.lists(st.integers(1, 9000), min_size=1, max_size=20),
    queue_id=st.integers(0, NUMBER_MAX),
)
def test_runs_come_back_in_records_of_a_bounded_size(sizes: list[int], queue_id: int) -> None:
    runs = [
        IdentityRun(3, at, at + size, at * 5, bytearray(Random(at).randbytes(16 * size)))
        for at, size in enumerate(sizes)
    ]
    found: list[IdentityRun] = []
    for together in in_records(runs):
        covered = identities_covered(queue_id, together)
        size = HEAD_BYTES + len(covered)
        assert size == identities_bytes(together) < 256 * 1024 + 9000 * 16 + 1000
        decoded = decode_record(covered, 0, len(covered))
        assert decoded.queue_id == queue_id  # type: ignore[union-attr]
        found += decoded.runs  # type: ignore[union-attr]
    fields = ("first_entry_id", "last_entry_id", "until_ms", "identities")
    assert [[getattr(run, name) for name in fields] for run in found] == [
        [getattr(run, name) for name in fields] for run in runs
    ]


def test_a_record_that_ends_early_is_refused() -> None:
    covered = identities_covered(1, [IdentityRun(1, 1, 2, 0, bytearray(32))])
    for end in range(1, len(covered)):
        with pytest.raises(ValueError):
            decode_record(covered[:end], 0, end)
