"""The columns that the parts of a queue read of messages, by index into a batch.

The one place in core/queue/ that knows how to find a property of a message. A part asks here and
never looks at wire bytes, because a row may be paged (`span.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

from ...amqp_frames.messages.batch import TTL_NONE, Batch, Indexes
from ...amqp_frames.messages.dedup_headers import DIGEST_BYTES, IdentityReader
from ...amqp_frames.messages.priorities import read_priorities
from .span import PagedSpan, Span

__all__ = (
    "DIGEST_BYTES",
    "TTL_NONE",
    "IdentityReader",
    "are_persistent",
    "body_sizes",
    "priorities_of",
    "read_priorities",
    "sizes_of",
    "times_to_live",
)


def body_sizes(batch: Batch, indexes: Indexes) -> Iterator[int]:
    """The size of each message's body, in bytes."""
    return map(batch.body_bytes, indexes)


def sizes_of(span: Span) -> Iterable[int]:
    """The size of the body of each message of a row, in bytes.

    0 for a paged row whose sizes the disk has not said yet (`sizing.py`).
    """
    if isinstance(span, PagedSpan):
        return repeat(0, len(span)) if span.sizes is None else span.sizes
    return body_sizes(span.batch, span.indexes)


def priorities_of(span: Span, priority_max: int) -> Sequence[int]:
    """The priority of each message of a row, at most this."""
    if isinstance(span, PagedSpan):
        return [min(span.priority, priority_max)] * len(span)
    return read_priorities(span.batch, span.indexes, priority_max)


def times_to_live(batch: Batch, indexes: Indexes) -> list[int] | None:
    """Each message's own time to live, in milliseconds, TTL_NONE without; None if none has any."""
    ttls_ms = batch.ttls_ms
    return None if ttls_ms is None else [ttls_ms[index] for index in indexes]


def are_persistent(batch: Batch, indexes: Indexes) -> bool:
    """Are these messages all persistent?"""
    persistent = batch.persistent
    return 0 not in persistent or all(persistent[index] for index in indexes)
