"""From bytes to publishes, acks and methods: everything that comes in on one connection.

Sans-IO and total: `Decoder.feed` takes any bytes and returns what they complete. A violation of
the protocol is kept in `Decoder.error` as the HardError that closes the connection; it still
returns everything complete before it, and no other exception leaves this module.

Three ways through, from fast to general: a publish with the very bytes, up to its body, of the
one before, and a publish that lies whole in the buffer (`publishes.py`); anything else goes frame
by frame, here and in `amqp_frames/messages/assembly.py`. A frame that is not whole waits, in the
pieces it came in, until it is: nothing is scanned or copied twice however slowly it arrives, and
no earlier read is held by it.

Another channel's frames, an ack or a heartbeat do not end a channel's batch; a method does. A run
of basic.ack frames of one channel is decoded as numbers, without a method object for each.

Rules and words are those of RabbitMQ's rabbit_reader and rabbit_command_assembler. This module
finds the faults of a single frame; after `too_large` and `wrong_end` the place of the next frame is
unknown. amqp_frames/messages/assembly.py finds frames that are wrong only because of earlier ones.
"""

from __future__ import annotations

from array import array
from struct import Struct
from typing import Final, NamedTuple

from .compiled import codec
from .constants import (
    COMMAND_INVALID,
    CONTENT_HEADER_BYTES,
    EMPTY_FRAME_BYTES,
    FRAME_BODY,
    FRAME_END,
    FRAME_ERROR,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_SLACK_BYTES,
    UNEXPECTED_FRAME,
)
from .errors import HardError
from .messages.assembly import Assembly, UnfinishedPublishes
from .messages.batch import Batch
from .messages.publishes import INCOMPLETE, PUBLISH_IDS, publish_run
from .methods import BasicAck, Method, decode_method


class Acks:
    """Consecutive basic.ack of one channel: tag by tag, with its `multiple` bit."""

    __slots__ = ("multiples", "tags")

    def __init__(self, tags: array[int] | None = None, multiples: bytearray | None = None) -> None:
        self.tags = array("Q") if tags is None else tags
        self.multiples = bytearray() if multiples is None else multiples


class ChannelInput:
    """A channel's publishes, then its acks, of one read, between two other methods.

    Publishes stand before acks whatever their order on the wire was: outside tx nothing can
    tell the difference, and a republished message is on its way before its original is settled.
    """

    __slots__ = ("acks", "batch", "channel_number")

    def __init__(self, channel_number: int, batch: Batch | None = None) -> None:
        self.channel_number = channel_number
        self.batch = batch
        self.acks: Acks | None = None


class Begun(NamedTuple):
    """A publish whose frames are taken one by one has begun; it comes when it is whole.

    For the owner of the channels: a channel that is not open collects nothing.
    """

    channel_number: int


class Oversized(NamedTuple):
    """A publish whose body is announced larger than the broker takes: its bytes are not kept."""

    channel_number: int
    body_bytes: int
    # Its bit `immediate`, which RabbitMQ refuses before it looks at the size.
    is_immediate: bool = False


class MethodFrame(NamedTuple):
    """A method without content, and how many octets its frame had."""

    channel_number: int
    method: Method
    frame_bytes: int


# The least that a frame's payload must have, else its type is as good as unknown.
_PAYLOAD_BYTES_MIN: Final = {
    FRAME_METHOD: 4,
    FRAME_HEADER: CONTENT_HEADER_BYTES,
    FRAME_BODY: 0,
    FRAME_HEARTBEAT: 0,
}
# So much of a payload is shown.
_SHOWN_BYTES: Final = 16
# How Erlang shows an octet within a string; for other methods it shows numbers instead.
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


_tag_and_multiple = Struct(">QB").unpack_from
# A basic.ack frame from its size on.
ACK_SIZE_AND_IDS: Final = b"\x00\x00\x00\x0d" + BasicAck.prefix
_ACK_FRAME_BYTES: Final = 21


def is_whole_ack(data: bytes, position: int) -> bool:
    """Is the frame whole and well ended that begins at `position` as a basic.ack does?"""
    end = position + _ACK_FRAME_BYTES
    return end <= len(data) and data[end - 1] == FRAME_END


def decode_acks(data: bytes, position: int) -> tuple[int, array[int], bytearray]:
    """The whole basic.ack there and those of its channel behind it: end, tags, `multiple` bits."""
    if codec is not None:
        return codec.acks(data, position)
    tags, multiples = array("Q"), bytearray()
    size = len(data)
    prefix = data[position : position + 11]
    end = position + _ACK_FRAME_BYTES
    while True:
        tag, multiple = _tag_and_multiple(data, position + 11)
        tags.append(tag)
        multiples.append(multiple & 1)
        position = end
        end += _ACK_FRAME_BYTES
        if end > size or data[end - 1] != FRAME_END or not data.startswith(prefix, position):
            return position, tags, multiples


_frame_header = Struct(">BHI").unpack_from
# A publish that is not whole at the end of a read waits for the rest of itself up to this size;
# above it, its frames are taken one by one, so that a large body is not copied read by read.
WHOLE_PUBLISH_BYTES_MAX: Final = 65_536
# A read up to this size is tried as whole publishes of one channel, or as whole acks, before it is
# looked at frame by frame: so a client that handles one message at a time sends them.
LONE_BYTES_MAX: Final = 4096
# A read up to this size is joined with what waited for it, so that both make one batch.
READ_BYTES_COPIED_MAX: Final = 65_536


Event = ChannelInput | MethodFrame | Oversized | Begun


class Decoder:
    """The incoming half of one connection, behind the protocol header.

    `frame_max_bytes` is the negotiated maximum, overhead included (0: no limit); like RabbitMQ,
    8 octets too many are tolerated. `message_size_max_bytes` limits a message's body,
    `unfinished_bytes_max` what all publishes take up that are not whole yet.
    """

    __slots__ = (
        "_assemblies",
        "_events",
        "_frame_max_bytes",
        "_is_closing",
        "_needed_bytes",
        "_numbers",
        "_open",
        "_pending",
        "_pending_bytes",
        "_run",
        "_unfinished",
        "error",
        "lost_sync",
    )

    def __init__(
        self, frame_max_bytes: int, message_size_max_bytes: int, unfinished_bytes_max: int
    ) -> None:
        self._unfinished = UnfinishedPublishes(message_size_max_bytes, unfinished_bytes_max)
        self.set_frame_max(frame_max_bytes)
        # The frame that is not whole yet, as it came; worth a look when it has `_needed_bytes`.
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._needed_bytes = 0
        self._assemblies: dict[int, Assembly] = {}
        # Of the read at hand: all its events, and by channel what may still grow.
        self._events: list[Event] = []
        self._open: dict[int, ChannelInput] = {}
        self._numbers: dict[int, dict[bytes, int]] = {}
        self._is_closing = False
        self.error: HardError | None = None
        # After an error: is it no longer known where frames begin?
        self.lost_sync = False

    def set_frame_max(self, frame_max_bytes: int) -> None:
        """Take the maximum that tune-ok settled on; 0 is no limit."""
        self._frame_max_bytes = frame_max_bytes or 0xFFFFFFFF
        self._run = publish_run(self._frame_max_bytes, self._unfinished.message_size_max_bytes)

    def channel_closed(self, channel_number: int) -> None:
        """Forget what a closed channel had begun to publish.

        Its client may not know yet and send the rest: that is let pass, and dropped.
        """
        assembly = self._assemblies.get(channel_number)
        if assembly is not None:
            assembly.discard()

    def close(self) -> None:
        """The connection is ending: from here on nothing counts but methods on channel 0."""
        self._is_closing = True
        self._assemblies.clear()

    def feed(self, data: bytes) -> list[Event]:
        """Take the bytes of one read; return what they complete, in order.

        After an error, as after `close`, these are methods on channel 0, for the close handshake.
        """
        if len(data) <= LONE_BYTES_MAX and not (
            self._pending or self._assemblies or self._is_closing
        ):
            if data.startswith(PUBLISH_IDS, FRAME_HEADER_BYTES):
                batch = self._run.decode_alone(data)
                if batch is not None:
                    return [ChannelInput(batch.channel_number, batch)]
            elif data.startswith(ACK_SIZE_AND_IDS, 3):
                channel_input = self._acks_alone(data)
                if channel_input is not None:
                    return [channel_input]
        if self.lost_sync:
            return []
        position = 0
        while self._pending and position < len(data) and not self.lost_sync:
            position = self._complete_pending(data, position)
        if position < len(data) and not self.lost_sync:
            self._decode_and_keep_rest(data, position)
        # The decoded batches belong to the caller alone, or an idle connection would hold its last
        # read.
        events = self._events
        self._events = []
        self._open.clear()
        self._numbers.clear()
        return events

    def _acks_alone(self, data: bytes) -> ChannelInput | None:
        """The whole read, if it is nothing but whole acks of one channel."""
        channel_number = data[1] << 8 | data[2]
        if data[0] != FRAME_METHOD or not channel_number or not is_whole_ack(data, 0):
            return None
        end, tags, multiples = decode_acks(data, 0)
        if end != len(data):
            return None
        channel_input = ChannelInput(channel_number)
        channel_input.acks = Acks(tags, multiples)
        return channel_input

    def _complete_pending(self, data: bytes, position: int) -> int:
        """Complete the waiting frame from the new bytes; return how far the read is used up.

        A large read is not joined with waiting bytes, except for the part that completes their
        frame: a copy of all of it would take as long as everything else that is done with it.
        """
        missing = self._needed_bytes - self._pending_bytes
        if missing <= 0 or len(data) - position < READ_BYTES_COPIED_MAX:
            missing = max(missing, len(data) - position)
        piece = data[position : position + missing]
        self._pending.append(piece)
        self._pending_bytes += len(piece)
        if self._pending_bytes >= self._needed_bytes:
            whole = b"".join(self._pending)
            self._pending.clear()
            self._decode_and_keep_rest(whole, 0)
            # What the rest of the read brings lies in other bytes, so in another batch.
            self._open.clear()
            self._numbers.clear()
        return position + len(piece)

    def _decode_and_keep_rest(self, data: bytes, position: int) -> None:
        self._needed_bytes = FRAME_HEADER_BYTES
        position = self._decode(data, position)
        if position < len(data) and not self.lost_sync:
            # A copy: the rest must not keep the whole read alive.
            self._pending.append(data[position:] if position else data)
            self._pending_bytes = len(data) - position

    def _decode(self, data: bytes, position: int) -> int:
        """Decode whole frames from there on; return where the first that is not whole begins."""
        size = len(data)
        while size - position >= FRAME_HEADER_BYTES:
            kind, channel_number, payload_bytes = _frame_header(data, position)
            is_free = channel_number not in self._assemblies and not self._is_closing
            if kind == FRAME_METHOD and channel_number and is_free:
                after = position
                if data.startswith(PUBLISH_IDS, position + 7):
                    after = self._publishes(data, position, channel_number)
                    if self._run.ended == INCOMPLETE and self._is_worth_waiting():
                        return after
                elif data.startswith(ACK_SIZE_AND_IDS, position + 3):
                    after = self._acks(data, position, channel_number)
                if after > position:
                    position = after
                    continue
            end = self._frame_end(data, position, kind, payload_bytes)
            if end < 0:
                return position
            if self.lost_sync:
                return size
            self._frame(kind, channel_number, data, position, end)
            position = end
        return position

    def _is_worth_waiting(self) -> bool:
        """Is the incomplete publish that ended a run best left until more of it has come?"""
        needed_bytes = self._run.needed_bytes
        if needed_bytes > WHOLE_PUBLISH_BYTES_MAX:
            return False
        self._needed_bytes = needed_bytes
        return True

    def _frame_end(self, data: bytes, position: int, kind: int, payload_bytes: int) -> int:
        """Where the frame at `position` ends; -1 if it is not whole yet.

        A frame that is too large or does not end as it must is an error after which it is not
        known where the next one begins.
        """
        if payload_bytes > self._frame_max_bytes:
            self._lose_sync(too_large(kind, payload_bytes, self._frame_max_bytes))
            return position
        end = position + EMPTY_FRAME_BYTES + payload_bytes
        if end > len(data):
            self._needed_bytes = end - position
            return -1
        if data[end - 1] != FRAME_END:
            self._lose_sync(wrong_end(kind, data, position, end))
        return end

    def _publishes(self, data: bytes, position: int, channel_number: int) -> int:
        """Take a run of whole publishes into the channel's batch; return where it ends."""
        channel_input = self._open.get(channel_number)
        batch = None if channel_input is None else channel_input.batch
        if batch is not None:
            return self._run.decode_run(batch, self._numbers[channel_number], position)
        numbers: dict[bytes, int] = {}
        batch = self._run.decode_batch(data, channel_number, numbers, position)
        if batch is None:
            return position
        self._input(channel_number).batch = batch
        self._numbers[channel_number] = numbers
        return batch.ends[-1]

    def _acks(self, data: bytes, position: int, channel_number: int) -> int:
        """Take a run of basic.ack; return where it ends."""
        if not is_whole_ack(data, position):
            return position
        end, tags, multiples = decode_acks(data, position)
        channel_input = self._input(channel_number)
        acks = channel_input.acks
        if acks is None:
            channel_input.acks = Acks(tags, multiples)
        else:
            acks.tags += tags
            acks.multiples += multiples
        return end

    def _input(self, channel_number: int) -> ChannelInput:
        channel_input = self._open.get(channel_number)
        if channel_input is None:
            channel_input = self._open[channel_number] = ChannelInput(channel_number)
            self._events.append(channel_input)
        return channel_input

    def _frame(self, kind: int, channel_number: int, data: bytes, start: int, end: int) -> None:
        """Take one whole frame; if it must not come here, that is the connection's error."""
        if self._is_closing and (channel_number or kind != FRAME_METHOD):
            # Closing: RabbitMQ's reader, too, looks at nothing but methods on channel 0.
            return
        try:
            check_kind(kind, channel_number, data, start, end)
            if kind == FRAME_HEARTBEAT:
                return
            assembly = self._assemblies.get(channel_number)
            if assembly is not None and not (assembly.is_discarded and kind == FRAME_METHOD):
                self._assemble(assembly, kind, channel_number, data, start, end)
            elif kind == FRAME_METHOD:
                self._assemblies.pop(channel_number, None)
                self._method(channel_number, data, start, end)
            else:
                raise HardError(
                    UNEXPECTED_FRAME, "expected method frame, got non method frame instead"
                )
        except HardError as error:
            # Without its traceback, whose frames would keep the whole read.
            self.error = self.error or error.with_traceback(None)
            self.close()

    def _method(self, channel_number: int, data: bytes, start: int, end: int) -> None:
        if channel_number and data.startswith(PUBLISH_IDS, start + FRAME_HEADER_BYTES):
            self._assemblies[channel_number] = Assembly(data, start, end, self._unfinished)
            self._events.append(Begun(channel_number))
            return
        method = decode_method(data, start + FRAME_HEADER_BYTES, end - 1)
        if channel_number and method.has_content:
            # Deliveries and returns are the server's to send.
            raise HardError(
                COMMAND_INVALID, "unimplemented method", method.class_id, method.method_id
            )
        self._open.pop(channel_number, None)
        self._events.append(MethodFrame(channel_number, method, end - start))

    def _assemble(
        self, assembly: Assembly, kind: int, channel_number: int, data: bytes, start: int, end: int
    ) -> None:
        if not assembly.add(kind, data, start, end):
            return
        del self._assemblies[channel_number]
        if assembly.is_discarded:
            return
        # What the channel published before stands in a batch of its own.
        self._open.pop(channel_number, None)
        if assembly.oversized_bytes:
            self._events.append(
                Oversized(channel_number, assembly.oversized_bytes, assembly.is_immediate)
            )
            return
        self._events.append(ChannelInput(channel_number, assembly.batch(channel_number)))

    def _lose_sync(self, error: HardError) -> None:
        self.error = self.error or error
        self.lost_sync = True
        self.close()
