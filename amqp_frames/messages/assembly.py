"""One publish whose frames arrive one by one: spread over reads, or between other channels'.

The frames are collected once, in the order they came, and become a Batch of one message when the
body is whole: a body of n bytes costs a small multiple of n in copying, however many reads it
took. Words are those of RabbitMQ's rabbit_command_assembler.

`UnfinishedPublishes` limits the bytes that one connection has begun to publish and not finished,
over all its channels. A body may be as large as the largest message, and each channel may have one
under way. Windows do not count these bytes, because a window counts publishes that the reader has
handed over, and the reader cannot stop reading, because only further frames can complete the
publish.
"""

from __future__ import annotations

from typing import Final

from ..constants import (
    BODY_BYTES_MAX,
    CLASS_BASIC,
    CONTENT_HEADER_BYTES,
    EMPTY_FRAME_BYTES,
    FRAME_BODY,
    FRAME_ERROR,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    RESOURCE_ERROR,
    UNEXPECTED_FRAME,
)
from ..errors import HardError
from ..methods import BasicPublish
from ..properties import PERSISTENT, check_properties, must_look
from .batch import Batch
from .publishes import IMMEDIATE, publish_key

_IDS: Final = (BasicPublish.class_id, BasicPublish.method_id)


class UnfinishedPublishes:
    """Counts their wire bytes; `message_size_max_bytes` limits the body of each.

    One alone is never refused for being larger than `bytes_max`, which is no less than the largest
    message: its frames take up more than its body, the more the smaller they are.
    """

    __slots__ = ("_bytes_max", "message_size_max_bytes", "used_bytes")

    def __init__(self, message_size_max_bytes: int, bytes_max: int) -> None:
        self.message_size_max_bytes = message_size_max_bytes
        self._bytes_max = bytes_max
        self.used_bytes = 0

    def reserve(self, byte_count: int, held_bytes: int) -> None:
        """One has so many bytes more, `held_bytes` with these; 506 if that is too much.

        An error of the connection, not of the channel: the protocol knows 506 as nothing else, the
        memory is the connection's, and whose frame was the last says nothing of whose are many.
        RabbitMQ, which collects without a limit, has no words for it.
        """
        self.used_bytes += byte_count
        if self.used_bytes > self._bytes_max and self.used_bytes > held_bytes:
            text = (
                "unfinished publishes of the connection are larger than "
                f"configured max size {self._bytes_max}"
            )
            raise HardError(RESOURCE_ERROR, text, *_IDS)

    def release(self, byte_count: int) -> None:
        """So many are part of a whole message now, or dropped."""
        self.used_bytes -= byte_count
        assert self.used_bytes >= 0


class Assembly:
    """A publish between its method frame and the last of its body."""

    __slots__ = (
        "_frame_bytes_max",
        "_header_at",
        "_is_kept",
        "_key",
        "_persistent",
        "_remaining_bytes",
        "_unfinished",
        "_wire",
        "flagged",
        "is_discarded",
        "oversized_bytes",
    )

    def __init__(self, data: bytes, start: int, end: int, unfinished: UnfinishedPublishes) -> None:
        """Begin with the method frame in data[start:end], end octet included."""
        self._key = publish_key(data, start + FRAME_HEADER_BYTES, end - 1)
        self._wire = bytearray(data[start:end])
        self._header_at = end - start
        self._unfinished = unfinished
        # Of the body; below 0 until the content header is there.
        self._remaining_bytes = -1
        self._frame_bytes_max = 0
        self._persistent = False
        self._is_kept = True
        self.flagged = False
        # Nobody wants it any more: its frames are checked and dropped.
        self.is_discarded = False
        # The announced size of a body above the limit, else 0: its frames are not kept.
        self.oversized_bytes = 0
        unfinished.reserve(end - start, end - start)

    def discard(self) -> None:
        """Keep nothing of this publish, which still has frames to come."""
        self.is_discarded = True
        self._drop()

    def _drop(self) -> None:
        self._unfinished.release(len(self._wire))
        self._is_kept = False
        self._wire.clear()

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
        payload = start + FRAME_HEADER_BYTES
        # The two octets of `weight` must be 0.
        if kind != FRAME_HEADER or data[payload + 2 : payload + 4] != b"\x00\x00":
            raise _unexpected_frame(
                f"expected content header for class {CLASS_BASIC}, "
                "got non content header frame instead"
            )
        class_id = int.from_bytes(data[payload : payload + 2], "big")
        if class_id != CLASS_BASIC:
            raise _unexpected_frame(
                f"expected content header for class {CLASS_BASIC}, "
                f"got one for class {class_id} instead"
            )
        body_bytes = int.from_bytes(data[payload + 4 : payload + CONTENT_HEADER_BYTES], "big")
        if body_bytes > BODY_BYTES_MAX:
            raise _frame_error(
                f"content body size {body_bytes} exceeds maximum allowed size {BODY_BYTES_MAX}"
            )
        # Apart, so that the words of an error do not depend on later bytes.
        properties = data[payload + CONTENT_HEADER_BYTES : end - 1]
        mode = check_properties(properties, 0, len(properties))
        self._persistent = mode == PERSISTENT
        self.flagged = must_look(properties, mode)
        self._remaining_bytes = body_bytes
        self._keep(data, start, end)
        if body_bytes > self._unfinished.message_size_max_bytes:
            self.oversized_bytes = body_bytes
            self._drop()

    def _add_body(self, kind: int, data: bytes, start: int, end: int) -> None:
        if kind != FRAME_BODY:
            raise _unexpected_frame("expected content body, got non content body frame instead")
        body_bytes = end - start - EMPTY_FRAME_BYTES
        if body_bytes > self._remaining_bytes:
            raise _frame_error("content body frame exceeds remaining content size")
        self._remaining_bytes -= body_bytes
        # An empty frame adds nothing to the body: kept, it would let a client fill the memory.
        if body_bytes:
            self._keep(data, start, end)

    def _keep(self, data: bytes, start: int, end: int) -> None:
        if self._is_kept:
            self._frame_bytes_max = max(self._frame_bytes_max, end - start)
            self._wire += data[start:end]
            self._unfinished.reserve(end - start, len(self._wire))

    @property
    def is_immediate(self) -> bool:
        """Has the publish its bit `immediate`?"""
        return bool(self._key[-1] & IMMEDIATE)

    def batch(self, channel_number: int) -> Batch:
        """The whole message as a batch of one; nothing of it is unfinished any more."""
        self._unfinished.release(len(self._wire))
        batch = Batch(bytes(self._wire), channel_number)
        batch.starts.append(0)
        batch.headers.append(self._header_at)
        batch.ends.append(len(batch.wire))
        batch.wire_bytes = len(batch.wire)
        batch.keys.append(0)
        batch.distinct.append(self._key)
        batch.persistent.append(self._persistent)
        batch.frame_bytes_max = self._frame_bytes_max
        batch.flagged = [0] if self.flagged else None
        return batch


def _unexpected_frame(explanation: str) -> HardError:
    return HardError(UNEXPECTED_FRAME, explanation, BasicPublish.class_id, BasicPublish.method_id)


def _frame_error(explanation: str) -> HardError:
    return HardError(FRAME_ERROR, explanation, BasicPublish.class_id, BasicPublish.method_id)
