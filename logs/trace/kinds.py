"""The kind of each field of a trace event: the schema for readers that want columns.

Nobody has to infer it from files, where a field may be missing in the first thousand lines.
"""

from __future__ import annotations

from typing import Final, Literal

# A span is a list of [first, last] pairs.
Kind = Literal["text", "number", "flag", "texts", "numbers", "spans"]

KINDS: Final[dict[str, Kind]] = {
    "t_ns": "number",
    "time": "text",
    "boot": "text",
    "event": "text",
    "actor": "text",
    "connection": "text",
    "channel": "number",
    "user": "text",
    "vhost": "text",
    "client": "text",
    "batch": "number",
    "batches": "numbers",
    "messages": "spans",
    "seq_no": "spans",
    "queue": "text",
    "queues": "texts",
    "exchanges": "texts",
    "exchange": "text",
    "routing_key": "text",
    "mandatory": "flag",
    "batch_messages": "number",
    "bytes": "number",
    "appends": "number",
    "records": "number",
    "duration_ns": "number",
    "unconfirmed_before": "number",
    "unconfirmed_after": "number",
    "smallest_unconfirmed": "number",
    "queue_id": "number",
    "ready_before": "number",
    "unacked_before": "number",
    "ready_after": "number",
    "waits_for_sync": "spans",
    "cumulative": "number",
    "singles": "spans",
    "consumer_tag": "text",
    "prefetch": "number",
    "no_ack": "flag",
    "active": "flag",
    "durable": "flag",
    "publishes": "number",
    "acks": "number",
    "held_bytes": "number",
    "free_bytes": "number",
    "free_bytes_min": "number",
    "memory_bytes": "number",
    "memory_bytes_max": "number",
    "delivery_tag": "spans",
    "letter_batch": "number",
    "letters": "spans",
    "transaction": "flag",
    "attempt": "number",
    "until": "text",
    "reason": "text",
    "late": "flag",
    "reply_code": "number",
    "one_of": "number",
    "users": "texts",
    "connections": "texts",
    "format": "number",
    "dropped": "number",
    "skipped": "number",
    "salvaged": "number",
    "damaged_bytes": "number",
}


_NUMBERS_END: Final = 2**63


def is_of_kind(value: object, kind: Kind) -> bool:
    """Is this, as JSON has it, a value of that kind?"""
    if kind == "number":
        # As other readers have them: a signed number of 64 bits. A flag is none.
        return type(value) is int and -_NUMBERS_END <= value < _NUMBERS_END
    if kind == "text":
        return isinstance(value, str)
    if kind == "flag":
        return isinstance(value, bool)
    if not isinstance(value, list):
        return False
    if kind == "spans":
        return _are_spans(value)
    return all(is_of_kind(each, "text" if kind == "texts" else "number") for each in value)


def _are_spans(pairs: list[object]) -> bool:
    """First and last, both from 0 on. However many numbers are between: nobody lists them."""
    for pair in pairs:
        if type(pair) is not list or len(pair) != 2:
            return False
        first, last = pair
        if type(first) is not int or type(last) is not int or not 0 <= first <= last < _NUMBERS_END:
            return False
    return True
