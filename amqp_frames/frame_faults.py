"""What can be wrong with a frame by itself, in the words of RabbitMQ's rabbit_reader.

After `too_large` and `wrong_end` it is not known where the next frame begins. What is wrong with
a frame only because of those before it is said in assembly.py.
"""

from __future__ import annotations

from typing import Final

from .constants import (
    CONTENT_HEADER_BYTES,
    EMPTY_FRAME_BYTES,
    FRAME_BODY,
    FRAME_ERROR,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_SLACK_BYTES,
    UNEXPECTED_FRAME,
)
from .errors import HardError

# The least that a frame's payload must have, else its type is as good as unknown.
_PAYLOAD_BYTES_MIN: Final = {
    FRAME_METHOD: 4,
    FRAME_HEADER: CONTENT_HEADER_BYTES,
    FRAME_BODY: 0,
    FRAME_HEARTBEAT: 0,
}
# So much of a payload is shown.
_SHOWN_BYTES: Final = 16
# How Erlang shows an octet within a string; what is not here makes it show numbers instead.
_SHOWN: Final = {octet: chr(octet) for octet in range(32, 127)} | dict(
    zip(
        b'\b\t\n\v\f\r\x1b"\\',
        ("\\b", "\\t", "\\n", "\\v", "\\f", "\\r", "\\e", '\\"', "\\\\"),
        strict=True,
    )
)


def too_large(kind: int, payload_bytes: int, payload_bytes_max: int) -> HardError:
    """The frame says that its payload is larger than is taken, the slack included."""
    limit = payload_bytes_max - FRAME_SLACK_BYTES
    reason = f"{{frame_too_large,{payload_bytes},{limit}}}"
    return HardError(FRAME_ERROR, f"{_shown(kind, b'')}: {reason}")


def wrong_end(kind: int, data: bytes, start: int, end: int) -> HardError:
    """The frame in data[start:end] has something else where its end octet must be."""
    payload = data[start + FRAME_HEADER_BYTES : end - 1]
    reason = f"{{invalid_frame_end_marker,{data[end - 1]}}}"
    return HardError(FRAME_ERROR, f"{_shown(kind, payload)}: {reason}")


def check_kind(kind: int, channel_number: int, data: bytes, start: int, end: int) -> None:
    """HardError if the whole frame in data[start:end] can be nothing on its channel."""
    payload_bytes = end - start - EMPTY_FRAME_BYTES
    least = _PAYLOAD_BYTES_MIN.get(kind, payload_bytes + 1)
    if payload_bytes < least or (payload_bytes and kind == FRAME_HEARTBEAT):
        reply_code, reason = FRAME_ERROR, ": unknown_frame"
    elif kind == FRAME_HEARTBEAT if channel_number else kind in (FRAME_HEADER, FRAME_BODY):
        reply_code, reason = UNEXPECTED_FRAME, ""
    else:
        return
    payload = data[start + FRAME_HEADER_BYTES : end - 1]
    raise HardError(reply_code, _shown(kind, payload) + reason)


def _shown(kind: int, payload: bytes) -> str:
    """A frame's type and its first octets, as Erlang prints a binary."""
    some = payload[:_SHOWN_BYTES]
    if some and all(octet in _SHOWN for octet in some):
        octets = '"' + "".join(_SHOWN[octet] for octet in some) + '"'
    else:
        octets = ",".join(map(str, some))
    which = "all" if len(payload) <= _SHOWN_BYTES else f"first {_SHOWN_BYTES}"
    return f"type {kind}, {which} octets = <<{octets}>>"
