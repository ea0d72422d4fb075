"""One publish whose frames arrive one by one: spread over reads, or between other channels'.

The frames are collected once, in the order they came, and become a Batch of one message when the
body is whole: a body of n bytes costs a small multiple of n in copying, however many reads it
took. Words are those of RabbitMQ's rabbit_command_assembler.
"""

from __future__ import annotations

from .batch import Batch
from .constants import (
    COMMAND_INVALID,
    FRAME_BODY,
    FRAME_ERROR,
    FRAME_HEADER,
    SYNTAX_ERROR,
    UNEXPECTED_FRAME,
)
from .errors import HardError
from .properties import check_properties

BASIC_CLASS = 60
PUBLISH_METHOD = 40
PUBLISH_IDS = b"\x00\x3c\x00\x28"
# RabbitMQ's MAX_MSG_SIZE (rabbit_common/include/rabbit.hrl): above it no message size may be set.
BODY_BYTES_MAX = 536_870_912
# Properties that the broker must look at before it may let the bytes pass (of the second octet
# of flags: expiration is bit 8, in the first).
FLAG_EXPIRATION_HIGH = 0x01
FLAG_USER_ID_LOW = 0x10


def publish_key(data: bytes, start: int, end: int) -> bytes:
    """Exchange, routing key and bits of the basic.publish in data[start:end], checked.

    `start` is the first octet of the method's payload. HardError SYNTAX_ERROR if the arguments do
    not fill the payload exactly.
    """
    key = data[start + 6 : end]
    exchange_end = 1 + key[0] if key else 1
    if exchange_end < len(key) and exchange_end + key[exchange_end] + 2 == len(key):
        return key
    raise HardError(
        SYNTAX_ERROR, "illegal basic.publish arguments", BASIC_CLASS, PUBLISH_METHOD
    )


class Assembly:
    """A publish between its method frame and the last of its body."""

    __slots__ = (
        "_body_bytes",
        "_frame_bytes_max",
        "_header_at",
        "_key",
        "_message_size_max_bytes",
        "_persistent",
        "_remaining_bytes",
        "_wire",
        "flagged",
        "oversized_bytes",
    )

    def __init__(
        self, data: bytes, start: int, end: int, message_size_max_bytes: int
    ) -> None:
        """Begin with the method frame in data[start:end], end octet included."""
        self._key = publish_key(data, start + 7, end - 1)
        self._wire = bytearray(data[start:end])
        self._header_at = end - start
        self._message_size_max_bytes = message_size_max_bytes
        self._remaining_bytes = -1
        self._body_bytes = 0
        self._frame_bytes_max = 0
        self._persistent = 0
        self.flagged = False
        # The announced size of a body above the limit, else 0: its frames are not kept.
        self.oversized_bytes = 0

    def add(self, kind: int, data: bytes, start: int, end: int) -> bool:
        """Take the next frame of this channel; true when the message is whole.

        HardError if it is not the frame that must come next.
        """
        if self._remaining_bytes < 0:
            self._add_header(kind, data, start, end)
        else:
            self._add_body(kind, data, start, end)
        return self._remaining_bytes == 0

    def _add_header(self, kind: int, data: bytes, start: int, end: int) -> None:
        payload = start + 7
        if kind != FRAME_HEADER or end - 1 - payload < 14:
            raise HardError(
                UNEXPECTED_FRAME,
                f"expected content header for class {BASIC_CLASS}, "
                "got non content header frame instead",
                BASIC_CLASS,
                PUBLISH_METHOD,
            )
        class_id = int.from_bytes(data[payload : payload + 2], "big")
        if class_id != BASIC_CLASS or data[payload + 2 : payload + 4] != b"\x00\x00":
            raise HardError(
                UNEXPECTED_FRAME,
                f"expected content header for class {BASIC_CLASS}, "
                f"got one for class {class_id} instead",
                BASIC_CLASS,
                PUBLISH_METHOD,
            )
        body_bytes = int.from_bytes(data[payload + 4 : payload + 12], "big")
        if body_bytes > BODY_BYTES_MAX:
            raise HardError(
                FRAME_ERROR,
                f"content body size {body_bytes} exceeds maximum allowed size {BODY_BYTES_MAX}",
                BASIC_CLASS,
                PUBLISH_METHOD,
            )
        self._persistent = check_properties(data, payload + 12, end - 1) == 2
        self.flagged = bool(
            data[payload + 12] & FLAG_EXPIRATION_HIGH or data[payload + 13] & FLAG_USER_ID_LOW
        )
        self._body_bytes = self._remaining_bytes = body_bytes
        if body_bytes > self._message_size_max_bytes:
            self.oversized_bytes = body_bytes
            return
        self._frame_bytes_max = end - start
        self._wire += data[start:end]

    def _add_body(self, kind: int, data: bytes, start: int, end: int) -> None:
        if kind != FRAME_BODY:
            raise HardError(
                UNEXPECTED_FRAME,
                "expected content body, got non content body frame instead",
                BASIC_CLASS,
                PUBLISH_METHOD,
            )
        body_bytes = end - start - 8
        if body_bytes > self._remaining_bytes:
            raise HardError(
                FRAME_ERROR,
                "content body frame exceeds remaining content size",
                BASIC_CLASS,
                PUBLISH_METHOD,
            )
        self._remaining_bytes -= body_bytes
        # An empty frame adds nothing to the body: kept, it would let a client fill the memory.
        if body_bytes and not self.oversized_bytes:
            self._frame_bytes_max = max(self._frame_bytes_max, end - start)
            self._wire += data[start:end]

    def batch(self, channel_number: int) -> Batch:
        """The whole message as a batch of one."""
        batch = Batch(bytes(self._wire), channel_number)
        batch.starts.append(0)
        batch.headers.append(self._header_at)
        batch.ends.append(len(batch.wire))
        batch.keys.append(0)
        batch.distinct.append(self._key)
        batch.persistent.append(self._persistent)
        batch.frame_bytes_max = self._frame_bytes_max
        batch.flagged = [0] if self.flagged else None
        return batch


def unexpected_command() -> HardError:
    """The answer to a method that only a server may send, or that carries content it may not."""
    return HardError(COMMAND_INVALID, "unimplemented method")
