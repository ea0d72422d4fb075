"""The columns that the parts of a queue read of messages, by index into a batch.

The one place in core/queue/ that knows how to find a property of a message. A part asks here and
never looks at wire bytes, so that a batch may one day be a place on the disk.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...amqp_frames.messages.batch import TTL_NONE, Batch, Indexes
from ...amqp_frames.messages.dedup_headers import DIGEST_BYTES, IdentityReader
from ...amqp_frames.messages.priorities import read_priorities

__all__ = (
    "DIGEST_BYTES",
    "TTL_NONE",
    "IdentityReader",
    "body_sizes",
    "read_priorities",
    "times_to_live",
)


def body_sizes(batch: Batch, indexes: Indexes) -> Iterator[int]:
    """The size of each message's body, in bytes."""
    return map(batch.body_bytes, indexes)


def times_to_live(batch: Batch, indexes: Indexes) -> list[int] | None:
    """Each message's own time to live, in milliseconds, TTL_NONE without; None if none has any."""
    ttls_ms = batch.ttls_ms
    return None if ttls_ms is None else [ttls_ms[index] for index in indexes]
