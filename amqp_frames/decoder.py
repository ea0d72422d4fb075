"""From bytes to publishes, acks and methods: everything that comes in on one connection.

Sans-IO and total: `Decoder.feed` takes any bytes and returns what they complete. A violation of
the protocol is kept in `Decoder.error` as the HardError that closes the connection; what was
complete before it is still returned, and no other exception leaves this module.

Three ways through, from fast to general: a publish with the very bytes, up to its body, of the
one before, and a publish that lies whole in the buffer (`publishes.py`); anything else goes frame
by frame, here and in `assembly.py`. A frame that is not whole waits, in the pieces it came in,
until it is: nothing is scanned or copied twice however slowly it arrives, and no earlier
read is held by it.

Another channel's frames, an ack or a heartbeat do not end a channel's batch; a method does.
Rules and words are those of RabbitMQ's rabbit_reader and rabbit_command_assembler.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from .assembly import PUBLISH_IDS, Assembly, unexpected_command
from .batch import Acks, Batch, ChannelInput
from .constants import (
    FRAME_BODY,
    FRAME_END,
    FRAME_ERROR,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    UNEXPECTED_FRAME,
)
from .errors import HardError
from .methods import BasicDeliver, BasicGetOk, BasicPublish, BasicReturn, Method, decode_method
from .publishes import INCOMPLETE, PublishRun

_header = Struct(">BHI").unpack_from
_tag_and_multiple = Struct(">QB").unpack_from
_ACK_SIZE_AND_IDS = b"\x00\x00\x00\x0d\x00\x3c\x00\x50"
_ACK_FRAME_BYTES = 21
_CHANNEL_CLOSE_OK = b"\x00\x14\x00\x29"
_FRAME_OVERHEAD_BYTES = 8
# A publish that is not whole at the end of a read waits for the rest of itself up to this size;
# above it, its frames are taken one by one, so that a large body is not copied read by read.
WHOLE_PUBLISH_BYTES_MAX = 65_536

# What waits and is at least so long is completed by itself.
SPLICED_BYTES_MIN = 2048


class MethodFrame(NamedTuple):
    """A method without content."""

    channel_number: int
    method: Method


class Oversized(NamedTuple):
    """A publish whose body is announced larger than the broker takes: its bytes are not kept."""

    channel_number: int
    body_bytes: int


Event = ChannelInput | MethodFrame | Oversized


class Decoder:
    """The incoming half of one connection, behind the protocol header.

    `frame_max_bytes` is the negotiated maximum, overhead included (0: no limit); like RabbitMQ,
    8 octets too many are tolerated. `message_size_max_bytes` limits a message's body.
    """

    __slots__ = (
        "_assemblies",
        "_events",
        "_frame_max_bytes",
        "_needed_bytes",
        "_numbers",
        "_open",
        "_pending",
        "_pending_bytes",
        "_run",
        "error",
        "lost_sync",
    )

    def __init__(self, frame_max_bytes: int, message_size_max_bytes: int) -> None:
        self._run = PublishRun(0, message_size_max_bytes)
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._needed_bytes = 0
        self._assemblies: dict[int, Assembly] = {}
        self._events: list[Event] = []
        self._open: dict[int, ChannelInput] = {}
        self._numbers: dict[int, dict[bytes, int]] = {}
        self.set_frame_max(frame_max_bytes)
        self.error: HardError | None = None
        # After an error: is it still known where frames begin?
        self.lost_sync = False

    def set_frame_max(self, frame_max_bytes: int) -> None:
        """Take the maximum that tune-ok settled on; 0 is no limit."""
        self._frame_max_bytes = frame_max_bytes or 0xFFFFFFFF
        self._run.frame_max_bytes = self._frame_max_bytes

    def feed(self, data: bytes) -> list[Event]:
        """Take the bytes of one read; return what they complete, in order.

        After an error only methods on channel 0 are returned, for the close handshake.
        """
        if self.lost_sync:
            return []
        events = self._events = []
        position = 0
        if self._pending:
            if self._pending_bytes + len(data) < self._needed_bytes:
                self._pending.append(data)
                self._pending_bytes += len(data)
                return events
            data, position = self._complete(data)
        self._open.clear()
        position = self._decode(data, position)
        if position < len(data) and not self.lost_sync:
            # A copy: the rest must not keep the whole read alive.
            self._pending.append(data[position:] if position else data)
            self._pending_bytes = len(data) - position
        return events

    def _complete(self, data: bytes) -> tuple[bytes, int]:
        """Put what was waiting in front of a read; return what to decode, and from where.

        A large publish is completed by itself, and the read decoded from where it ends: to join
        the two would copy all of the read for the sake of its first part.
        """
        waiting = b"".join(self._pending)
        self._pending.clear()
        if self._needed_bytes < SPLICED_BYTES_MIN:
            return waiting + data, 0
        missing = self._needed_bytes - len(waiting)
        whole = waiting + data[:missing]
        self._open.clear()
        taken = self._decode(whole, 0)
        if taken == len(whole):
            return data, missing
        return whole[taken:] + data[missing:], 0

    def _decode(self, data: bytes, position: int) -> int:
        """Decode whole frames from there; return where the first that is not whole begins."""
        size = len(data)
        spread = -1
        while size - position >= _FRAME_OVERHEAD_BYTES:
            kind, channel_number, payload_bytes = _header(data, position)
            if kind == FRAME_METHOD and channel_number and self.error is None:
                if (
                    data.startswith(PUBLISH_IDS, position + 7)
                    and position != spread
                    and channel_number not in self._assemblies
                ):
                    after = self._publishes(data, position, channel_number)
                    if self._run.ended == INCOMPLETE:
                        if self._run.needed_bytes <= WHOLE_PUBLISH_BYTES_MAX:
                            self._needed_bytes = self._run.needed_bytes
                            return after
                        spread = after
                    elif after == position:
                        spread = after
                    position = after
                    continue
                if (
                    data.startswith(_ACK_SIZE_AND_IDS, position + 3)
                    and channel_number not in self._assemblies
                ):
                    after = self._acks(data, position, channel_number)
                    if after > position:
                        position = after
                        continue
            if payload_bytes > self._frame_max_bytes:
                self._lose_sync(
                    kind,
                    b"",
                    f"{{frame_too_large,{payload_bytes},"
                    f"{self._frame_max_bytes - _FRAME_OVERHEAD_BYTES}}}",
                )
                return size
            end = position + _FRAME_OVERHEAD_BYTES + payload_bytes
            if end > size:
                self._needed_bytes = end - position
                return position
            if data[end - 1] != FRAME_END:
                self._lose_sync(
                    kind, data[position + 7 : end - 1], f"{{invalid_frame_end_marker,{data[end - 1]}}}"
                )
                return size
            try:
                self._frame(kind, channel_number, data, position, end)
            except HardError as error:
                if self.error is None:
                    self.error = error
                    self._assemblies.clear()
            position = end
        self._needed_bytes = _FRAME_OVERHEAD_BYTES
        return position

    def _publishes(self, data: bytes, position: int, channel_number: int) -> int:
        """Take a run of whole publishes into the channel's batch; return where it ends."""
        channel_input = self._input(channel_number)
        batch = channel_input.batch
        if batch is None:
            batch = Batch(data, channel_number)
            self._numbers[channel_number] = {}
        after = self._run.take(batch, self._numbers[channel_number], position)
        if after > position:
            channel_input.batch = batch
        elif channel_input.batch is None and channel_input.acks is None:
            del self._open[channel_number]
            self._events.pop()
        return after

    def _acks(self, data: bytes, position: int, channel_number: int) -> int:
        """Take a run of basic.ack; return where it ends."""
        size = len(data)
        prefix = data[position : position + 11]
        tags: list[int] = []
        multiples = bytearray()
        while (
            position + _ACK_FRAME_BYTES <= size
            and data.startswith(prefix, position)
            and data[position + _ACK_FRAME_BYTES - 1] == FRAME_END
        ):
            tag, multiple = _tag_and_multiple(data, position + 11)
            tags.append(tag)
            multiples.append(multiple & 1)
            position += _ACK_FRAME_BYTES
        if tags:
            channel_input = self._input(channel_number)
            acks = channel_input.acks
            if acks is None:
                acks = channel_input.acks = Acks()
            acks.tags.extend(tags)
            acks.multiples += multiples
        return position

    def _input(self, channel_number: int) -> ChannelInput:
        channel_input = self._open.get(channel_number)
        if channel_input is None:
            channel_input = self._open[channel_number] = ChannelInput(channel_number)
            self._events.append(channel_input)
        return channel_input

    def _frame(self, kind: int, channel_number: int, data: bytes, start: int, end: int) -> None:
        """Take one whole frame, end octet checked; HardError if it must not come here."""
        payload_bytes = end - start - _FRAME_OVERHEAD_BYTES
        if self.error is not None:
            # Closing: RabbitMQ's reader, too, looks at nothing but methods on channel 0.
            if channel_number or kind != FRAME_METHOD:
                return
        elif (
            kind not in (FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT)
            or (kind == FRAME_METHOD and payload_bytes < 4)
            or (kind == FRAME_HEADER and payload_bytes < 12)
            or (kind == FRAME_HEARTBEAT and payload_bytes)
        ):
            raise HardError(
                FRAME_ERROR, f"{_snippet(kind, data[start + 7 : end - 1])}: unknown_frame"
            )
        elif kind == FRAME_HEARTBEAT:
            if channel_number:
                raise HardError(UNEXPECTED_FRAME, _snippet(kind, b""))
            return
        if channel_number == 0 and kind != FRAME_METHOD:
            raise HardError(UNEXPECTED_FRAME, _snippet(kind, data[start + 7 : end - 1]))
        assembly = self._assemblies.get(channel_number)
        if assembly is not None and data.startswith(_CHANNEL_CLOSE_OK, start + 7):
            # The client heard of its channel's end in the middle of a publish, and gave that up.
            del self._assemblies[channel_number]
            assembly = None
        if assembly is not None:
            self._assemble(assembly, kind, channel_number, data, start, end)
        elif kind == FRAME_METHOD:
            self._method(channel_number, data, start, end)
        else:
            raise HardError(
                UNEXPECTED_FRAME, "expected method frame, got non method frame instead"
            )

    def _method(self, channel_number: int, data: bytes, start: int, end: int) -> None:
        if data.startswith(PUBLISH_IDS, start + 7) and channel_number:
            self._assemblies[channel_number] = Assembly(
                data, start, end, self._run.message_size_max_bytes
            )
            return
        method = decode_method(data, start + 7, end - 1)
        if isinstance(method, (BasicDeliver, BasicGetOk, BasicReturn, BasicPublish)):
            raise unexpected_command()
        self._open.pop(channel_number, None)
        self._events.append(MethodFrame(channel_number, method))

    def _assemble(
        self, assembly: Assembly, kind: int, channel_number: int, data: bytes, start: int, end: int
    ) -> None:
        if not assembly.add(kind, data, start, end):
            return
        del self._assemblies[channel_number]
        # What the channel published before stands in a batch of its own.
        self._open.pop(channel_number, None)
        if assembly.oversized_bytes:
            self._events.append(Oversized(channel_number, assembly.oversized_bytes))
            return
        channel_input = ChannelInput(channel_number)
        channel_input.batch = assembly.batch(channel_number)
        self._events.append(channel_input)

    def _lose_sync(self, kind: int, payload: bytes, reason: str) -> None:
        if self.error is None:
            self.error = HardError(FRAME_ERROR, f"{_snippet(kind, payload)}: {reason}")
        self.lost_sync = True
        self._assemblies.clear()


def _snippet(kind: int, payload: bytes) -> str:
    """How rabbit_reader describes a frame: its type and its first octets, as an Erlang binary."""
    some = payload[:16]
    printable = some and all(32 <= octet < 127 and octet not in b'"\\' for octet in some)
    octets = f'"{some.decode("ascii")}"' if printable else ",".join(map(str, some))
    return f"type {kind}, {'all' if len(payload) <= 16 else 'first 16'} octets = <<{octets}>>"
