"""How large the bodies of a batch of NSQ publishes are, without a look at each.

The frames around a body always take the same space (publishes.py), so that the size of the whole
batch tells. Only bodies that are cut into several frames, and batches of several topics, are
counted one by one.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..amqp_frames.constants import EMPTY_FRAME_BYTES
from ..amqp_frames.messages.batch import Batch
from .publishes import BODY_FRAME_BYTES_MAX, CONTENT_FRAME_BYTES

_FRAME_BYTES_MAX = BODY_FRAME_BYTES_MAX + EMPTY_FRAME_BYTES


def body_bytes(batch: Batch) -> Mapping[bytes, int]:
    """The sum of the bodies by their distinct key, which the topic begins."""
    starts, headers = batch.starts, batch.headers
    if len(batch.distinct) == 1 and batch.frame_bytes_max < _FRAME_BYTES_MAX:
        frames_bytes = headers[0] - starts[0] + CONTENT_FRAME_BYTES + EMPTY_FRAME_BYTES
        return {batch.distinct[0]: batch.wire_bytes - len(starts) * frames_bytes}
    found = dict.fromkeys(batch.distinct, 0)
    for key, header, end in zip(batch.keys, headers, batch.ends, strict=True):
        framed_bytes = end - header - CONTENT_FRAME_BYTES
        frame_count = -(-framed_bytes // _FRAME_BYTES_MAX)
        found[batch.distinct[key]] += framed_bytes - frame_count * EMPTY_FRAME_BYTES
    return found
