"""basic.return for publishers, with a tag for those that asked for one.

A return carries no delivery tag, so a client cannot tell which publish it means. One that
announced the capability `return_delivery_tag` gets the header `x-delivery-tag`, the publish's
seq_no, added to the returned message.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..amqp_frames.batch import Batch
from ..amqp_frames.constants import CONTENT_HEADER_BYTES, EMPTY_FRAME_BYTES
from ..amqp_frames.deliveries import encode_returns, encode_tagged_return
from ..amqp_frames.field_types import Field
from ..amqp_frames.properties import decode_properties, encode_properties

TAG_HEADER = "x-delivery-tag"


def encode_returned(
    batch: Batch,
    indexes: Sequence[int],
    first_seq_no: int,
    channel_number: int,
    frame_max_bytes: int,
    tags_returns: bool,
) -> bytes:
    """The frames of basic.return 312 for these messages, each directly before its ack."""
    if not tags_returns or not first_seq_no:
        return encode_returns(batch, indexes, first_seq_no, channel_number, frame_max_bytes)
    properties_bytes_max = (
        (frame_max_bytes or 0xFFFFFFFF) - EMPTY_FRAME_BYTES - CONTENT_HEADER_BYTES
    )
    pieces = []
    for index in indexes:
        properties = _tagged(batch, index, first_seq_no + index)
        if len(properties) <= properties_bytes_max:
            pieces.append(
                encode_tagged_return(
                    batch, index, first_seq_no, channel_number, frame_max_bytes, properties
                )
            )
        else:
            # A content header cannot be split: this one has no room for the tag.
            pieces.append(
                encode_returns(batch, (index,), first_seq_no, channel_number, frame_max_bytes)
            )
    return b"".join(pieces)


def _tagged(batch: Batch, index: int, seq_no: int) -> bytes:
    """The message's properties with the tag among its headers."""
    header = batch.headers[index]
    size = int.from_bytes(batch.wire[header + 3 : header + 7], "big")
    properties = decode_properties(batch.wire, header + 19, header + 7 + size)
    headers = dict(properties.headers or {})
    headers[TAG_HEADER] = Field("long", seq_no)
    return encode_properties(properties._replace(headers=headers))
