"""A batch some of whose messages have other properties than they came with.

The one case in which the bytes that a publisher sent are not those that are stored and delivered;
messages that are not named keep theirs.
"""

from __future__ import annotations

from collections.abc import Mapping

from .batch import Batch
from .constants import CONTENT_HEADER_BYTES, FRAME_HEADER, FRAME_HEADER_BYTES
from .contents import frame


def with_properties(batch: Batch, properties: Mapping[int, bytes]) -> Batch:
    """The same messages; these have those properties (flags and values) in their headers."""
    made = Batch(b"", batch.channel_number)
    made.keys, made.distinct, made.persistent = batch.keys, batch.distinct, batch.persistent
    made.flagged = batch.flagged
    made.received_ns = batch.received_ns
    largest = batch.frame_bytes_max
    wire = batch.wire
    pieces: list[bytes] = []
    position = 0
    for index, (start, header, end) in enumerate(
        zip(batch.starts, batch.headers, batch.ends, strict=True)
    ):
        made.starts.append(position)
        made.headers.append(position + header - start)
        octets = properties.get(index)
        if octets is None:
            content = wire[start:end]
        else:
            payload = header + FRAME_HEADER_BYTES
            body = payload + int.from_bytes(wire[payload - 4 : payload], "big") + 1
            head = frame(
                FRAME_HEADER,
                batch.channel_number,
                wire[payload : payload + CONTENT_HEADER_BYTES] + octets,
            )
            largest = max(largest, len(head))
            content = wire[start:header] + head + wire[body:end]
        pieces.append(content)
        position += len(content)
        made.ends.append(position)
    made.wire = b"".join(pieces)
    made.frame_bytes_max = largest
    return made
