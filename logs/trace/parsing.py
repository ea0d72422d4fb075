"""One line of a trace: is it an event, and does it say what its readers rely on?

A trace is read after crashes, copies and versions, so nothing in it is taken for granted: a line
that is no event, or lacks a field, is told of by its number and left out. Fields that only later
versions write are missing without that being a defect.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

from .events import EVENTS
from .kinds import KINDS, is_of_kind

try:
    import orjson
except ModuleNotFoundError:  # it is for CPython only
    orjson = None  # type: ignore[assignment]

Line = dict[str, Any]

NO_EVENT: Final = "is no event"
# Reasons of `trace.started` and `trace.stopped`: somebody switched the trace while the broker ran,
# so that it may have been on or off before; or the trace ended with its broker.
ASKED_FOR: Final = "asked for"
BROKER_STOPS: Final = "the broker stops"
# What says which messages, queues and numbers an event is about.
_RELIED_ON: Final = frozenset(
    (
        *("connection", "channel", "batch", "batches", "messages", "queue", "seq_no"),
        *("letter_batch", "letters", "routing_key", "exchange", "delivery_tag", "reply_code"),
    )
)
# Events of which only some have these fields: numbers are given in confirm mode only.
_SOMETIMES: Final = {
    "command.assembled": {"seq_no"},
    "message.refused": {"seq_no"},
    "message.returned": {"seq_no"},
    "message.replied": {"seq_no"},
    "message.dropped": {"seq_no"},
    "command.carried_out": {"seq_no"},
    "rejection.received": {"seq_no"},
    "confirm.slow": {"seq_no"},
}
_NEEDED_ALSO: Final = {
    "message.routed": ["queues"],
    "message.dead_lettered": ["queues", "reason"],
    "journal.appended": ["queue_id"],
    "message.delivered": ["attempt"],
    "message.recovered": ["attempt"],
    "message.settled": ["reason"],
    "message.requeued": ["reason"],
    "message.touched": ["until"],
    "message.deferred": ["until", "attempt"],
    "message.due": ["attempt"],
    "message.expired": ["reason"],
    "message.evicted": ["reason"],
    "message.rejected": ["reason"],
    "confirm.rejected": ["reason"],
    "letter.dropped": ["reason"],
    "channel.closed": ["reason"],
    "transaction.failed": ["reason"],
    "message.refused": ["reason"],
    "trace.lost": ["dropped"],
}
_NEEDED: Final = {
    name: frozenset(
        (
            *("time", "actor"),
            *(field for field in event.fields if field in _RELIED_ON - _SOMETIMES.get(name, set())),
            *_NEEDED_ALSO.get(name, ()),
        )
    )
    for name, event in EVENTS.items()
}
_NOTHING: Final[frozenset[str]] = frozenset()
_TYPE_OF_KIND: Final[dict[str, type]] = {"text": str, "number": int, "flag": bool}
_TYPES: Final = {name: _TYPE_OF_KIND.get(kind, list) for name, kind in KINDS.items()}


def parsed_line(data: bytes) -> Line | None:
    """The event of a line, None if it is none."""
    try:
        line = (orjson or json).loads(data)
    except ValueError:
        # A name that is not UTF-8 has surrogate escapes, which orjson refuses.
        try:
            line = json.loads(data)
        except (ValueError, RecursionError):
            return None
    if not isinstance(line, dict):
        return None
    is_event = (
        isinstance(line.get("event"), str)
        and isinstance(line.get("boot"), str)
        and is_of_kind(line.get("t_ns"), "number")
    )
    return cast("Line", line) if is_event else None


def defect(line: Line) -> str:
    """The fields that an event lacks and readers rely on; empty if it lacks none.

    An event that this version does not know lacks nothing: it is read by none.
    """
    event = line["event"]
    needed = _NEEDED.get(event, _NOTHING)
    if not needed <= line.keys():
        return f"{event} lacks {min(needed - line.keys())!r}"
    for name, value in line.items():
        # Most values are settled by their type: this is done for every line.
        known = _TYPES.get(name)
        if known is None:
            continue
        if type(value) is known:
            if known is str or known is bool:
                continue
            if is_of_kind(value, KINDS[name]):
                continue
        return f"{event} has a {name!r} that cannot be"
    return ""
