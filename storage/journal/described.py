"""Records as facts with names, for a person or a program to read.

Identities and the directory's id are left out: with the one a publisher's messages could be
recognised, with the other a client could plant records (`records.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ...amqp_frames.messages.arrivals import ArrivalRuns, Arrived
from ...amqp_frames.messages.batch import Batch
from . import records
from .ledger import Deadlines

# Further ranges of a record are counted.
RANGES_SHOWN_MAX: Final = 20
# So much of a message's body is shown.
BODY_BYTES_SHOWN_MAX: Final = 200

Facts = dict[str, Any]


def facts_of(record: records.Record) -> Facts:
    """The kind of a record, and what it says."""
    match record:
        case records.BodyRecord():
            wire_bytes = record.wire_end - record.wire_start
            return {
                "kind": "body",
                "batch": record.batch_number,
                "messages": len(record.indexes),
                "bytes": wire_bytes,
                **_arrived(record.arrived),
            }
        case records.EntriesRecord():
            return _entries(record)
        case records.RangesRecord(kind, queue_id, ranges):
            name = "settle" if kind == records.SETTLE else "delivered"
            return {"kind": name, "queue_id": queue_id, **_ranges("ids", ranges)}
        case records.DeferredRecord(queue_id, deferred):
            ids = [(first, last) for first, last, _ in deferred]
            due = [due_ms for _, _, due_ms in deferred]
            return {
                "kind": "deferred",
                "queue_id": queue_id,
                **_ranges("ids", ids),
                "due_ms": due[0] if len(set(due)) == 1 else due[:RANGES_SHOWN_MAX],
            }
        case records.IdentitiesRecord(queue_id, runs):
            ids = [(run.first_entry_id, run.last_entry_id) for run in runs]
            return {"kind": "identities", "queue_id": queue_id, **_ranges("ids", ids)}
        case records.CommitRecord():
            return {
                "kind": "commit",
                "synced_segment": record.segment,
                "synced_end": record.end,
                "entries_so_far": record.entries,
                "catalog_change": record.catalog_change,
            }
        case records.RemovedRecord(segments):
            return {"kind": "removed", **_ranges("segments", segments)}
        case records.CompactedRecord():
            return {"kind": "compacted", **record._asdict()}


def _entries(record: records.EntriesRecord) -> Facts:
    ids = record.entry_ids
    facts: Facts = {
        "kind": "entries",
        "queue_id": record.queue_id,
        "batch": record.batch_number,
        "first_id": ids[0],
        "last_id": ids[-1],
        "entries": len(ids),
    }
    columns = {"deadline_ms": record.deadlines, "due_ms": record.due_times}
    facts |= {name: _span(column) for name, column in columns.items() if column}
    if record.identities is not None:
        facts["remembered_until_ms"] = record.identities.until_ms
    return facts


def _arrived(arrived: Arrived) -> Facts:
    """The one time of all messages, or the earliest and the last; 0 is not known."""
    return {"arrived_ns": _span(arrived)} if arrived else {}


def _span(column: Deadlines | ArrivalRuns) -> object:
    """The one time of all entries, or the earliest and the last."""
    if isinstance(column, int):
        return column
    times = column.times_ns if isinstance(column, ArrivalRuns) else column
    return [min(times), max(times)]


def _ranges(name: str, ranges: Sequence[tuple[int, int]]) -> Facts:
    shown = [f"{first}-{last}" if last > first else f"{first}" for first, last in ranges]
    facts: Facts = {
        name: ",".join(shown[:RANGES_SHOWN_MAX]),
        "count": sum(last - first + 1 for first, last in ranges),
    }
    if len(shown) > RANGES_SHOWN_MAX:
        facts["further_ranges"] = len(shown) - RANGES_SHOWN_MAX
    return facts


def message_facts(batch: Batch) -> Iterator[Facts]:
    """Exchange, routing key and the first octets of the body of each message of a batch."""
    for index in range(len(batch)):
        key = batch.distinct[batch.keys[index]]
        exchange, rest = key[1 : 1 + key[0]], key[1 + key[0] :]
        body = _body(batch, index)
        yield {
            "index": index,
            "exchange": exchange.decode("utf-8", "backslashreplace"),
            "routing_key": rest[1 : 1 + rest[0]].decode("utf-8", "backslashreplace"),
            "body_bytes": len(body),
            "body": body[:BODY_BYTES_SHOWN_MAX].decode("utf-8", "backslashreplace"),
        }


def _body(batch: Batch, index: int) -> bytes:
    """What the frames behind the content header carry."""
    wire, at, end = batch.wire, batch.headers[index], batch.ends[index]
    pieces = []
    while at < end:
        payload_end = at + 7 + int.from_bytes(wire[at + 3 : at + 7], "big")
        if wire[at] == 3:
            pieces.append(bytes(wire[at + 7 : payload_end]))
        at = payload_end + 1
    return b"".join(pieces)
