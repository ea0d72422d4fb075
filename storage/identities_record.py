"""The record in which identities outlive their messages' segment. docs/JOURNAL.md draws it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from .identity_runs import IDENTITY_BYTES, IdentityRun

# Kind of the record, since format version 3; records.py has the others.
IDENTITIES = 7

RECORD_BYTES_AIMED_AT = 256 * 1024
HEAD_BYTES = 8

_head = Struct("<BIQ")
_run = Struct("<IQQQ")


class IdentitiesRecord(NamedTuple):
    """Runs of one queue that were written anew."""

    queue_id: int
    # Their segment is the one that the record was read in; 0 here.
    runs: list[IdentityRun]


def identities_covered(queue_id: int, runs: Sequence[IdentityRun]) -> bytes:
    """The record from its kind on."""
    pieces = [_head.pack(IDENTITIES, len(runs), queue_id)]
    for run in runs:
        count = len(run.identities) // IDENTITY_BYTES
        pieces.append(_run.pack(count, run.first_entry_id, run.last_entry_id, run.until_ms))
    pieces += [bytes(run.identities) for run in runs]
    return b"".join(pieces)


def identities_bytes(runs: Sequence[IdentityRun]) -> int:
    """The size of the record of these runs."""
    covered = _head.size + sum(_run.size + len(run.identities) for run in runs)
    return HEAD_BYTES + covered


def in_records(runs: Sequence[IdentityRun]) -> Iterator[Sequence[IdentityRun]]:
    """The runs divided among records, of which none is much larger than the bound."""
    start = size = 0
    for position, run in enumerate(runs):
        size += _run.size + len(run.identities)
        if size >= RECORD_BYTES_AIMED_AT:
            yield runs[start : position + 1]
            start, size = position + 1, 0
    if start < len(runs):
        yield runs[start:]


def decode_identities(data: bytes, start: int, end: int) -> IdentitiesRecord:
    """The covered bytes of a record that verified; ValueError if they make no sense."""
    _, count, queue_id = _head.unpack_from(data, start)
    position = start + _head.size
    octets_at = position + count * _run.size
    runs: list[IdentityRun] = []
    for _ in range(count):
        identities, first, last, until_ms = _run.unpack_from(data, position)
        position += _run.size
        octets_end = octets_at + identities * IDENTITY_BYTES
        octets = bytearray(data[octets_at:octets_end])
        runs.append(IdentityRun(0, first, last, until_ms, octets))
        octets_at = octets_end
    if octets_at != end or not count:
        msg = f"identities record of {end - start} bytes ends at {octets_at - start}"
        raise ValueError(msg)
    return IdentitiesRecord(queue_id, runs)
