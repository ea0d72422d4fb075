"""Runs of whole publishes of one channel: the hot loop of decoding.

It takes well-formed publishes that lie whole in the buffer and stops, without judging, at anything
else: the frame by frame way (`amqp_frames/decoder.py`, `assembly.py`) is the one authority on
errors. `publish_run` makes a run in the form that the process has: `CompiledRun`, whose loop is in
C, or `PublishRun`, its specification in Python. The rest is of the latter.

Publishers repeat themselves, so the decoder checks a shape once and then looks it up. A shape is
everything of a publish up to the bytes of its body: names, properties, sizes. A publish with the
same bytes in front, and the frame end where it belongs, is sound and needs no decoding. Where
shapes differ, for example in the body's size, the properties are most often still the same.

The memory for shapes is bounded per connection; past the bound the decoder forgets them and learns
them anew.
"""

from __future__ import annotations

from array import array
from struct import Struct
from typing import Final

from ..compiled import codec
from ..constants import CLASS_BASIC, FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_METHOD
from ..errors import AmqpError
from ..methods import BasicPublish, decode_method
from ..properties import PERSISTENT, check_properties, must_look
from .batch import Batch

PUBLISH_IDS: Final = BasicPublish.prefix
# In the bits that end a publish's key.
IMMEDIATE: Final = 2


def publish_key(data: bytes, start: int, end: int) -> bytes:
    """Exchange, routing key and bits of the basic.publish in data[start:end], checked.

    `start` is the first octet of the method's payload. HardError if the arguments do not fill the
    payload exactly.
    """
    key = data[start + 6 : end]
    exchange_end = 1 + key[0] if key else 1
    if exchange_end >= len(key) or exchange_end + key[exchange_end] + 2 != len(key):
        # Raises, as for any method with such arguments.
        decode_method(data, start, end)
    return key


# How many shapes one channel may have at a time, and how many channels may have any.
SHAPES_MAX: Final = 64
SHAPE_CHANNELS_MAX: Final = 16
# How many properties, and of what size.
PROPERTIES_MAX: Final = 64
PROPERTIES_BYTES_MAX: Final = 128


# Publishes that are alike up to their bodies, which are of one frame or none:
# - all the octets that they have in common: two or three frames, up to the first of the body;
# - how many octets each of them has in all;
# - where the content header's frame begins;
# - exchange, routing key and bits, as in Batch.distinct;
# - whether they are persistent;
# - how many octets the largest of their frames has.
Shape = tuple[bytes, int, int, bytes, bool, int]


class PublishShapes:
    """The shapes and properties that one connection's publishes had lately."""

    __slots__ = ("_properties", "by_channel")

    def __init__(self) -> None:
        # Channel number -> octets of method and header frame -> shape. For the hot loop to look
        # up, and for whoever learns a shape to add it, SHAPES_MAX of them at the most.
        self.by_channel: dict[int, dict[bytes, Shape]] = {}
        # Properties as on the wire -> persistent, and whether the broker must look at them.
        self._properties: dict[bytes, tuple[bool, bool]] = {}

    def renew(self, channel_number: int) -> dict[bytes, Shape]:
        """An empty place for shapes of the channel: it had none, or too many."""
        if len(self.by_channel) >= SHAPE_CHANNELS_MAX:
            self.by_channel.clear()
        shapes = self.by_channel[channel_number] = {}
        return shapes

    def properties(self, properties: bytes) -> tuple[bool, bool] | None:
        """Whether they say persistent, and whether the broker must look; None if malformed."""
        known = self._properties.get(properties)
        if known is not None:
            return known
        try:
            mode = check_properties(properties, 0, len(properties))
        except AmqpError:
            return None
        known = (mode == PERSISTENT, must_look(properties, mode))
        if len(properties) <= PROPERTIES_BYTES_MAX:
            if len(self._properties) >= PROPERTIES_MAX:
                self._properties.clear()
            self._properties[properties] = known
        return known


_frame_header = Struct(">BHI").unpack_from
_method_header = Struct(">BHI4s").unpack_from
# Frame header, class, weight and body size.
_content_header = Struct(">BHIHHQ").unpack_from
# The least that a publish's frames have: no names, no properties.
_METHOD_FRAME_BYTES_MIN: Final = 17
_HEADER_FRAME_BYTES_MIN: Final = 22

# Why a run ended.
ANOTHER_FRAME: Final = 0  # the next bytes are not a whole and plain publish of this channel
INCOMPLETE: Final = 1  # it may be one, but its next frame is not whole yet


class PublishRun:
    """Takes consecutive publishes of one channel out of a buffer into its batch."""

    __slots__ = (
        "_frame_max_bytes",
        "_message_size_max_bytes",
        "_recent",
        "_shapes",
        "ended",
        "needed_bytes",
    )

    def __init__(self, frame_max_bytes: int, message_size_max_bytes: int) -> None:
        """Take no frame with a larger payload and no message with a larger body."""
        self._frame_max_bytes = frame_max_bytes
        self._message_size_max_bytes = message_size_max_bytes
        self._shapes = PublishShapes()
        # The shape decoded last, if it can be looked for again.
        self._recent: Shape | None = None
        self.ended = ANOTHER_FRAME
        # With INCOMPLETE: how many bytes from where the run ended must be there to go on.
        self.needed_bytes = 0

    def decode_batch(
        self, data: bytes, channel_number: int, numbers: dict[bytes, int], position: int
    ) -> Batch | None:
        """The publishes from `position` on as a new batch; None if there are none.

        `numbers` is empty, and has then the keys' numbers.
        """
        batch = Batch(data, channel_number)
        return batch if self.decode_run(batch, numbers, position) > position else None

    def decode_alone(self, data: bytes) -> Batch | None:
        """The batch that a read is which is nothing but whole publishes of one channel, if it is.

        For short reads: of any other, this is work done twice.
        """
        channel_number = int.from_bytes(data[1:3], "big")
        batch = self.decode_batch(data, channel_number, {}, 0) if channel_number else None
        return batch if batch is not None and batch.ends[-1] == len(data) else None

    def decode_run(self, batch: Batch, numbers: dict[bytes, int], position: int) -> int:
        """Append the publishes from `position` on to the batch; return where they end.

        `numbers` maps each distinct key of the batch to its number.
        """
        data = batch.wire
        size = len(data)
        starts, ends, persistents = batch.starts, batch.ends, batch.persistent
        shapes = self._shapes.by_channel.get(batch.channel_number)
        if shapes is None or len(shapes) >= SHAPES_MAX:
            shapes = self._shapes.renew(batch.channel_number)
        self._recent, self.ended = None, ANOTHER_FRAME
        begin = position
        follows_gap = bool(starts) and ends[-1] != position
        while size - position >= _METHOD_FRAME_BYTES_MIN:
            # Method and header frame, if neither's size needs more than one octet.
            header = position + 8 + data[position + 6]
            body = header + 8 + data[header + 6] if header + 6 < size else size
            shape = shapes.get(data[position:body]) or self._recent
            first = position
            if shape is not None:
                prefix, total = shape[0], shape[1]
                while data.startswith(prefix, position):
                    end = position + total
                    if end > size or data[end - 1] != FRAME_END:
                        break
                    position = end
            if shape is None or position == first:
                shape = self._decode(batch, numbers, shapes, position)
                if shape is None:
                    break
                position += shape[1]
            _, total, header_at, key, persistent, largest = shape
            number = numbers.get(key, -1)
            if number < 0:
                number = numbers[key] = len(numbers)
                batch.distinct.append(key)
            if largest > batch.frame_bytes_max:
                batch.frame_bytes_max = largest
            if position - first == total:
                starts.append(first)
                batch.headers.append(first + header_at)
                ends.append(position)
                batch.keys.append(number)
                persistents.append(persistent)
            else:
                _extend(batch, first, position, shape, number)
        batch.wire_bytes += position - begin
        if follows_gap and position > begin:
            batch.contiguous = False
        return position

    def _decode(
        self, batch: Batch, numbers: dict[bytes, int], shapes: dict[bytes, Shape], position: int
    ) -> Shape | None:
        """The shape of the one publish at `position`, learned if it may come again.

        None if there is no publish that is whole and plain; `ended` then says which.
        """
        data = batch.wire
        size = len(data)
        channel_number = batch.channel_number
        frame_max_bytes = self._frame_max_bytes
        kind, channel, method_bytes, ids = _method_header(data, position)
        header = position + 8 + method_bytes
        if (
            ids != PUBLISH_IDS
            or channel != channel_number
            or kind != FRAME_METHOD
            or method_bytes > frame_max_bytes
        ):
            return None
        if header > size:
            self._incomplete(header - position)
            return None
        key = data[position + 13 : header - 1]
        if data[header - 1] != FRAME_END or not (
            key in numbers or _is_key(data, position + 7, header - 1)
        ):
            return None
        return self._decode_content(batch, shapes, key, position, header)

    def _decode_content(
        self, batch: Batch, shapes: dict[bytes, Shape], key: bytes, position: int, header: int
    ) -> Shape | None:
        """The same, of a publish whose method frame ends before `header`."""
        data = batch.wire
        size = len(data)
        if header + _HEADER_FRAME_BYTES_MIN > size:
            self._await(batch, position, header, FRAME_HEADER)
            return None
        kind, channel, header_bytes, class_id, weight, body_bytes = _content_header(data, header)
        body = header + 8 + header_bytes
        if (
            kind != FRAME_HEADER
            or channel != batch.channel_number
            or class_id != CLASS_BASIC
            or weight
            or header_bytes > self._frame_max_bytes
            or body_bytes > self._message_size_max_bytes
        ):
            return None
        if body > size:
            self._incomplete(body - position)
            return None
        known = self._shapes.properties(data[header + 19 : body - 1])
        if known is None or data[body - 1] != FRAME_END:
            return None
        end, largest = body, body - header
        if body_bytes:
            end, largest = self._body(batch, position, body, body_bytes, largest)
            if not end:
                return None
        persistent, must_look = known
        self._recent = None
        if must_look:
            if batch.flagged is None:
                batch.flagged = []
            batch.flagged.append(len(batch))
        elif end - body == (body_bytes + 8 if body_bytes else 0):
            prefix = data[position : body + 7] if body_bytes else data[position:body]
            self._recent = (prefix, end - position, header - position, key, persistent, largest)
            if len(shapes) < SHAPES_MAX:
                shapes[data[position:body]] = self._recent
            return self._recent
        return b"", end - position, header - position, key, persistent, largest

    def _body(
        self, batch: Batch, position: int, at: int, body_bytes: int, largest: int
    ) -> tuple[int, int]:
        """Where the body frames from `at` on end, and the largest frame of all.

        0 as the end if they are not plain or not whole.
        """
        data = batch.wire
        size = len(data)
        remaining = body_bytes
        while remaining:
            end = size
            if at + 8 <= size:
                kind, channel, frame_bytes = _frame_header(data, at)
                end = at + 8 + frame_bytes
                if (
                    kind != FRAME_BODY
                    or channel != batch.channel_number
                    # An empty frame in a body is left out by the frame by frame way.
                    or not 0 < frame_bytes <= remaining
                    or frame_bytes > self._frame_max_bytes
                    or (end <= size and data[end - 1] != FRAME_END)
                ):
                    return 0, 0
            if at + 8 > size or end > size:
                # Once the first of several is there, they are taken one by one: to wait for all
                # of them would be to look at the first again and again.
                if remaining == body_bytes:
                    self._await(batch, position, at, FRAME_BODY)
                return 0, 0
            remaining -= frame_bytes
            at = end
            if frame_bytes + 8 > largest:
                largest = frame_bytes + 8
        return at, largest

    def _await(self, batch: Batch, position: int, at: int, kind: int) -> None:
        """The buffer ends within the frame at `at`, or before it: may it still be the right one?"""
        data = batch.wire
        end = at + 8
        if at + 7 <= len(data):
            next_kind, channel, frame_bytes = _frame_header(data, at)
            if (
                next_kind != kind
                or channel != batch.channel_number
                or frame_bytes > self._frame_max_bytes
            ):
                return
            end += frame_bytes
        if end > len(data):
            self._incomplete(end - position)

    def _incomplete(self, needed_bytes: int) -> None:
        self.ended = INCOMPLETE
        self.needed_bytes = needed_bytes


def _extend(batch: Batch, first: int, end: int, shape: Shape, number: int) -> None:
    """Append publishes of one shape and key that follow each other from `first` to `end`."""
    _, total, header_at, _, persistent, _ = shape
    count = (end - first) // total
    batch.starts.extend(range(first, end, total))
    batch.headers.extend(range(first + header_at, end, total))
    batch.ends.extend(range(first + total, end + 1, total))
    batch.keys.extend(array("I", (number,)) * count)
    batch.persistent += (b"\1" if persistent else b"\0") * count


def _is_key(data: bytes, start: int, end: int) -> bool:
    try:
        publish_key(data, start, end)
    except AmqpError:
        return False
    return True


class CompiledRun:
    """The same in C: every octet is checked anew, which costs less than to look up a shape."""

    __slots__ = ("_frame_max_bytes", "_message_size_max_bytes", "ended", "needed_bytes")

    def __init__(self, frame_max_bytes: int, message_size_max_bytes: int) -> None:
        """Take no frame with a larger payload and no message with a larger body."""
        self._frame_max_bytes = frame_max_bytes
        self._message_size_max_bytes = message_size_max_bytes
        self.ended = ANOTHER_FRAME
        self.needed_bytes = 0

    def decode_batch(
        self, data: bytes, channel_number: int, numbers: dict[bytes, int], position: int
    ) -> Batch | None:
        """As PublishRun.decode_batch."""
        distinct: list[bytes] = []
        end, self.needed_bytes, flagged, largest, columns = codec.publishes(
            data,
            position,
            channel_number,
            self._frame_max_bytes,
            self._message_size_max_bytes,
            numbers,
            distinct,
        )
        self.ended = INCOMPLETE if self.needed_bytes else ANOTHER_FRAME
        if columns is None:
            return None
        batch = Batch(data, channel_number, columns)
        batch.distinct = distinct
        batch.frame_bytes_max = largest
        batch.flagged = flagged
        batch.wire_bytes = end - position
        return batch

    def decode_alone(self, data: bytes) -> Batch | None:
        """As PublishRun.decode_alone."""
        found = codec.publishes_alone(data, self._frame_max_bytes, self._message_size_max_bytes)
        if found is None:
            return None
        channel_number, distinct, flagged, largest, columns = found
        batch = Batch(data, channel_number, columns)
        batch.distinct = distinct
        batch.frame_bytes_max = largest
        batch.flagged = flagged
        batch.wire_bytes = len(data)
        return batch

    def decode_run(self, batch: Batch, numbers: dict[bytes, int], position: int) -> int:
        """As PublishRun.decode_run."""
        end, self.needed_bytes, flagged, largest, columns = codec.publishes(
            batch.wire,
            position,
            batch.channel_number,
            self._frame_max_bytes,
            self._message_size_max_bytes,
            numbers,
            batch.distinct,
        )
        self.ended = INCOMPLETE if self.needed_bytes else ANOTHER_FRAME
        if columns is None:
            return position
        count = len(batch.starts)
        if count and batch.ends[-1] != position:
            batch.contiguous = False
        starts, headers, ends, keys, persistent = columns
        batch.starts += starts
        batch.headers += headers
        batch.ends += ends
        batch.keys += keys
        batch.persistent += persistent
        batch.wire_bytes += end - position
        if largest > batch.frame_bytes_max:
            batch.frame_bytes_max = largest
        if flagged is not None:
            batch.flagged = [*(batch.flagged or ()), *(count + index for index in flagged)]
        return end


def publish_run(frame_max_bytes: int, message_size_max_bytes: int) -> PublishRun | CompiledRun:
    """A run in the form that this process has."""
    form = PublishRun if codec is None else CompiledRun
    return form(frame_max_bytes, message_size_max_bytes)


def decode_publishes(wire: bytes) -> Batch:
    """Read back wire bytes that the journal kept: whole publishes, one behind the other.

    Their channels may differ: the batch's is -1 then. ValueError if the bytes are anything else; a
    checksum has vouched for them, so that is a fault of ours.
    """
    first = int.from_bytes(wire[1:3], "big")
    batch = Batch(wire, first)
    run = publish_run(0xFFFFFFFF, 0xFFFFFFFF)
    numbers: dict[bytes, int] = {}
    is_mixed = False
    position = 0
    while position < len(wire):
        batch.channel_number = int.from_bytes(wire[position + 1 : position + 3], "big")
        is_mixed = is_mixed or batch.channel_number != first
        end = run.decode_run(batch, numbers, position)
        if end == position:
            msg = f"not a row of publishes: {wire[position : position + 64]!r}"
            raise ValueError(msg)
        position = end
    if is_mixed:
        batch.channel_number = -1
    return batch
