"""The frames that a client sends, to the byte."""

from __future__ import annotations

import struct

from leveret.amqp_frames.constants import FRAME_BODY, FRAME_END, FRAME_HEADER
from leveret.amqp_frames.methods import BasicPublish, Method, encode_method
from leveret.amqp_frames.properties import Properties, encode_properties

FRAME_MAX_BYTES = 131_072
TRANSIENT = Properties()
PERSISTENT = Properties(delivery_mode=2)


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes((FRAME_END,))


def content_header(channel: int, body_bytes: int, properties: Properties = TRANSIENT) -> bytes:
    payload = struct.pack(">HHQ", 60, 0, body_bytes) + encode_properties(properties)
    return frame(FRAME_HEADER, channel, payload)


def publish(
    routing_key: str,
    body: bytes = b"body",
    properties: Properties = TRANSIENT,
    *,
    exchange: str = "",
    mandatory: bool = False,
    immediate: bool = False,
    channel: int = 1,
    frame_max_bytes: int = FRAME_MAX_BYTES,
) -> bytes:
    """The frames of one basic.publish."""
    chunk_bytes = frame_max_bytes - 8
    method = BasicPublish(
        exchange=exchange, routing_key=routing_key, mandatory=mandatory, immediate=immediate
    )
    pieces = [encode_method(channel, method), content_header(channel, len(body), properties)]
    pieces += [
        frame(FRAME_BODY, channel, body[start : start + chunk_bytes])
        for start in range(0, len(body), chunk_bytes)
    ]
    return b"".join(pieces)


def methods_of(channel: int, *methods: Method) -> bytes:
    """The frames of these methods."""
    return b"".join(encode_method(channel, method) for method in methods)
