"""Runs of whole publishes of one channel: the hot loop of decoding.

Kept apart, small and over bytes and ints only, so that it can be compiled. It takes well-formed
publishes that lie whole in the buffer and stops, without judging, at anything else: the frame by
frame way (`decoder.py`, `assembly.py`) is the one authority on what is an error.
"""

from __future__ import annotations

from array import array
from struct import Struct

from .assembly import FLAG_EXPIRATION_HIGH, FLAG_USER_ID_LOW, PUBLISH_IDS, publish_key
from .batch import Batch
from .constants import FRAME_END
from .errors import AmqpError
from .properties import check_properties

_long = Struct(">I").unpack_from
_size_and_ids = Struct(">I4s").unpack_from
# Class 60, weight 0 of a content header.
_BASIC_HEADER = b"\x00\x3c\x00\x00"

# Why a run ended.
ANOTHER_FRAME = 0  # the next frame is not a publish of this channel, or not a plain one
INCOMPLETE = 1  # the next publish is not whole yet


class PublishRun:
    """Takes consecutive publishes of one channel out of a buffer into its batch."""

    __slots__ = ("ended", "frame_max_bytes", "message_size_max_bytes", "needed_bytes")

    def __init__(self, frame_max_bytes: int, message_size_max_bytes: int) -> None:
        self.frame_max_bytes = frame_max_bytes
        self.message_size_max_bytes = message_size_max_bytes
        self.ended = ANOTHER_FRAME
        # With INCOMPLETE: how many bytes the publish at the end has at the least.
        self.needed_bytes = 0

    def take(self, batch: Batch, numbers: dict[bytes, int], position: int) -> int:
        """Append the publishes from `position` on to the batch; return where they end.

        `numbers` maps each distinct key of the batch to its number.
        """
        data = batch.wire
        size = len(data)
        frame_start = data[position : position + 3]
        starts, headers, ends, keys = batch.starts, batch.headers, batch.ends, batch.keys
        frame_max = self.frame_max_bytes
        self.ended = ANOTHER_FRAME
        if starts and ends[-1] != position:
            batch.contiguous = False
        while True:
            # A method frame of this channel ...
            if size - position < 12:
                return position
            method_bytes, ids = _size_and_ids(data, position + 3)
            if ids != PUBLISH_IDS or not data.startswith(frame_start, position):
                return position
            header = position + 8 + method_bytes
            if method_bytes > frame_max:
                return position
            if header + 22 > size:
                return self._incomplete(position, header + 22 - position)
            key = data[position + 13 : header - 1]
            number = numbers.get(key, -1)
            if data[header - 1] != FRAME_END:
                return position
            if number < 0:
                try:
                    publish_key(data, position + 7, header - 1)
                except AmqpError:
                    return position
                number = numbers[key] = len(numbers)
                batch.distinct.append(key)
            # ... its content header ...
            header_bytes, ids = _size_and_ids(data, header + 3)
            body = header + 8 + header_bytes
            if (
                data[header] != 2
                or data[header + 1] != frame_start[1]
                or data[header + 2] != frame_start[2]
                or ids != _BASIC_HEADER
                or header_bytes > frame_max
                or header_bytes < 14
            ):
                return position
            if body > size:
                return self._incomplete(position, body - position)
            high, low = data[header + 19], data[header + 20]
            at = header + 21
            if low == 0 and not high & 0x6F:
                # Nothing but content_type and delivery_mode.
                if high & 0x80:
                    at += 1 + data[at]
                if high & 0x10:
                    mode = data[at] if at < body else 0
                    at += 1
                else:
                    mode = 0
                if at != body - 1:
                    return position
            else:
                try:
                    mode = check_properties(data, header + 19, body - 1)
                except AmqpError:
                    return position
            if data[body - 1] != FRAME_END:
                return position
            body_bytes = (
                _long(data, header + 15)[0]
                if data.startswith(b"\0\0\0\0", header + 11)
                else 1 << 40
            )
            if body_bytes > self.message_size_max_bytes:
                return position
            # ... and its body.
            end = self._body_end(data, body, body_bytes, frame_start, batch)
            if end < 0:
                return self._incomplete(position, body - position - end)
            if end == 0:
                return position
            starts.append(position)
            headers.append(header)
            ends.append(end)
            keys.append(number)
            persistent = mode == 2
            batch.persistent.append(persistent)
            flagged = bool(high & FLAG_EXPIRATION_HIGH or low & FLAG_USER_ID_LOW)
            if flagged:
                if batch.flagged is None:
                    batch.flagged = []
                batch.flagged.append(len(starts) - 1)
            if body - header > batch.frame_bytes_max:
                batch.frame_bytes_max = body - header
            # The messages after it that have the same bytes up to the body.
            prefix_bytes = body + 7 - position if body_bytes else body - position
            total = end - position
            if total == prefix_bytes + body_bytes + (body_bytes > 0) and not flagged:
                prefix = data[position : position + prefix_bytes]
                first = position = end
                while data.startswith(prefix, position):
                    end = position + total
                    if end > size or data[end - 1] != FRAME_END:
                        break
                    position = end
                if position > first:
                    count = (position - first) // total
                    offset = header + total - first
                    starts.extend(range(first, position, total))
                    headers.extend(range(first + offset, position, total))
                    ends.extend(range(first + total, position + 1, total))
                    keys.extend(array("I", (number,)) * count)
                    batch.persistent += bytes((persistent,)) * count
            else:
                position = end

    def _incomplete(self, position: int, needed_bytes: int) -> int:
        self.ended = INCOMPLETE
        self.needed_bytes = needed_bytes
        return position

    def _body_end(
        self, data: bytes, at: int, body_bytes: int, frame_start: bytes, batch: Batch
    ) -> int:
        """Where the body frames from `at` on end; 0 if they are not plain.

        A negative number if they are not whole yet: minus the bytes that they take at the least.
        """
        size = len(data)
        begin = at
        remaining = body_bytes
        largest = batch.frame_bytes_max
        while remaining:
            if at + 8 > size:
                return begin - at - remaining - 8
            frame_bytes = _long(data, at + 3)[0]
            if (
                data[at] != 3
                or data[at + 1] != frame_start[1]
                or data[at + 2] != frame_start[2]
                or frame_bytes > self.frame_max_bytes
                or frame_bytes > remaining
            ):
                return 0
            at += 8 + frame_bytes
            remaining -= frame_bytes
            if at > size:
                return begin - at - (remaining + 8 if remaining else 0)
            if data[at - 1] != FRAME_END:
                return 0
            if frame_bytes + 8 > largest:
                largest = frame_bytes + 8
        batch.frame_bytes_max = largest
        return at


def decode_publishes(wire: bytes) -> Batch:
    """Read back wire bytes that the journal kept: whole publishes, one behind the other.

    ValueError if the bytes are anything else; a checksum has vouched for them, so that is a fault
    of ours.
    """
    batch = Batch(wire, int.from_bytes(wire[1:3], "big"))
    run = PublishRun(0xFFFFFFFF, 0xFFFFFFFF)
    if run.take(batch, {}, 0) != len(wire):
        msg = f"not a row of publishes: {wire[:64]!r}"
        raise ValueError(msg)
    return batch
