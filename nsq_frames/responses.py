"""The frames that answer a client: OK, errors, heartbeats, the answers of IDENTIFY and AUTH."""

from __future__ import annotations

import json
from collections.abc import Mapping
from struct import Struct
from typing import Final

FRAME_RESPONSE: Final = 0
FRAME_ERROR: Final = 1
FRAME_MESSAGE: Final = 2

_frame_header = Struct(">II").pack


def frame(kind: int, content: bytes) -> bytes:
    """One whole frame."""
    return _frame_header(len(content) + 4, kind) + content


OK: Final = frame(FRAME_RESPONSE, b"OK")
HEARTBEAT: Final = frame(FRAME_RESPONSE, b"_heartbeat_")
CLOSE_WAIT: Final = frame(FRAME_RESPONSE, b"CLOSE_WAIT")
BAD_PROTOCOL: Final = frame(FRAME_ERROR, b"E_BAD_PROTOCOL")


def json_response(fields: Mapping[str, object]) -> bytes:
    """A response of JSON, in the order of the fields and without blanks, as Go writes it."""
    return frame(FRAME_RESPONSE, json.dumps(fields, separators=(",", ":")).encode())


def error_frame(text: bytes) -> bytes:
    """An error: its code, a blank and its description."""
    return frame(FRAME_ERROR, text)
