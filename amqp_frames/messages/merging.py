"""Several batches as one: lone publishes that a queue got in one round of the event loop.

A thousand connections with one publish each bring a thousand batches of one message. What a queue,
the journal and a consumer's channel do once for each batch costs more than what they do for a
message, so the queue merges them first. The bytes of a message stay as they came.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from ..compiled import codec
from .batch import TTL_NONE, Batch


def merged(batches: Sequence[Batch]) -> Batch:
    """The messages of all of them, one batch behind the other, in a batch of their own.

    Message k of batch b has the number k plus the messages of the batches before b. Bytes between
    messages are left out. The batch's channel number is -1 if theirs differ, `received_ns` that
    of the first. `number`, `journal_place`, `traced`, `excerpted` and `arrived` are as of a new
    batch: the caller merges neither traced messages nor excerpts, nor batches that were read back.
    """
    made = _in_python(batches) if codec is None else _compiled(batches)
    # They came in one round of the event loop.
    made.received_ns = batches[0].received_ns
    first = 0
    for batch in batches:
        if batch.flagged is not None:
            made.flagged = [*(made.flagged or ()), *(first + index for index in batch.flagged)]
        if batch.ttls_ms is not None or made.ttls_ms is not None:
            _extend_ttls(made, first, batch)
        if batch.durable is not None or made.durable is not None:
            _extend_durable(made, first, batch)
        first += len(batch.starts)
    return made


def _in_python(batches: Sequence[Batch]) -> Batch:
    """Bytes, places, keys and persistence."""
    made = Batch(b"", batches[0].channel_number)
    starts, headers, ends, keys = made.starts, made.headers, made.ends, made.keys
    numbers: dict[bytes, int] = {}
    pieces: list[bytes] = []
    position = 0
    for batch in batches:
        wire = batch.wire
        if batch.channel_number != made.channel_number:
            made.channel_number = -1
        if batch.frame_bytes_max > made.frame_bytes_max:
            made.frame_bytes_max = batch.frame_bytes_max
        renumbered = [numbers.setdefault(key, len(numbers)) for key in batch.distinct]
        for start, header, end, key in zip(
            batch.starts, batch.headers, batch.ends, batch.keys, strict=True
        ):
            pieces.append(wire[start:end])
            starts.append(position)
            headers.append(position + header - start)
            position += end - start
            ends.append(position)
            keys.append(renumbered[key])
        made.persistent += batch.persistent
    made.wire = b"".join(pieces)
    made.wire_bytes = position
    made.distinct = list(numbers)
    return made


def _compiled(batches: Sequence[Batch]) -> Batch:
    """The same."""
    made = Batch(b"", 0)
    (
        made.wire,
        made.channel_number,
        made.starts,
        made.headers,
        made.ends,
        made.keys,
        made.distinct,
        made.persistent,
        made.frame_bytes_max,
    ) = codec.merge(batches)
    made.wire_bytes = len(made.wire)
    return made


def _extend_ttls(made: Batch, first: int, batch: Batch) -> None:
    """Times to live from message `first` on; those before have none if none said so."""
    if made.ttls_ms is None:
        made.ttls_ms = array("Q", (TTL_NONE,)) * first
    made.ttls_ms.extend(batch.ttls_ms or array("Q", (TTL_NONE,)) * len(batch))


def _extend_durable(made: Batch, first: int, batch: Batch) -> None:
    """Durable messages from message `first` on; None in a batch means all of them."""
    if made.durable is None:
        made.durable = array("I", range(first))
    durable = range(len(batch)) if batch.durable is None else batch.durable
    assert isinstance(made.durable, array)
    made.durable.extend([first + index for index in durable])
