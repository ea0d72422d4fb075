"""The limits that a queue's arguments set, as data. `limited_queue.py` keeps to them."""

from __future__ import annotations

from typing import NamedTuple

from ..amqp_frames.field_table import Table


class Limits(NamedTuple):
    """What a queue may hold; None: no limit."""

    # Ready messages, and bytes of the bodies of these.
    ready_max: int | None = None
    ready_bytes_max: int | None = None
    # Over the limit, new messages are rejected; else the oldest are dropped.
    rejects: bool = False
    # What is rejected goes to the dead-letter exchange.
    dead_letters_rejected: bool = False
    # How long a message may wait, in milliseconds.
    ttl_ms: int | None = None


def limits_of(arguments: Table) -> Limits | None:
    """The limits in a declaration's arguments, which are valid; None if it sets none."""
    ready_max = _number(arguments, "x-max-length")
    ready_bytes_max = _number(arguments, "x-max-length-bytes")
    ttl_ms = _number(arguments, "x-message-ttl")
    if ready_max is None and ready_bytes_max is None and ttl_ms is None:
        return None
    overflow = arguments.get("x-overflow")
    rule = "drop-head" if overflow is None else overflow.value
    rejects = rule != "drop-head"
    return Limits(ready_max, ready_bytes_max, rejects, rule == "reject-publish-dlx", ttl_ms)


def _number(arguments: Table, name: str) -> int | None:
    argument = arguments.get(name)
    if argument is None:
        return None
    assert isinstance(argument.value, int)
    return argument.value
