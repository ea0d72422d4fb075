"""Both forms of the codec in one process, and streams of octets to hold them against each other."""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import NamedTuple

from decoding import Publish, ack, body_frames, content_header, decoder, frame, publish_method
from holding import parts
from leveret.amqp_frames import decoder as decoding_module
from leveret.amqp_frames.compiled import REVISION
from leveret.amqp_frames.constants import FRAME_BODY, FRAME_HEADER, HEARTBEAT_FRAME
from leveret.amqp_frames.decoder import ChannelInput, Event
from leveret.amqp_frames.messages import deliveries, indexes, merging, publishes, stored
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.methods import BasicQos, encode_method
from leveret.nsq_frames import deliveries as nsq_deliveries
from leveret.nsq_frames import finishes as nsq_finishes
from leveret.nsq_frames import publishes as nsq_publishes

try:
    from leveret.amqp_frames.compiled import _codec as compiled

    if compiled.REVISION != REVISION:
        compiled = None  # type: ignore[assignment]
except ImportError:
    compiled = None  # type: ignore[assignment]

# Each has the form that it calls under this name.
_CALLERS = (
    decoding_module,
    deliveries,
    indexes,
    merging,
    publishes,
    stored,
    nsq_deliveries,
    nsq_finishes,
    nsq_publishes,
)
NO_LIMIT = 0xFFFFFFFF


@contextmanager
def form(codec: ModuleType | None) -> Iterator[None]:
    """All callers have this form meanwhile; None is the Python one."""
    before = [caller.codec for caller in _CALLERS]  # type: ignore[attr-defined]
    for caller in _CALLERS:
        caller.codec = codec  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for caller, each in zip(_CALLERS, before, strict=True):
            caller.codec = each  # type: ignore[attr-defined]


class Stream(NamedTuple):
    """Octets of one connection as they are read, and its limits."""

    reads: list[bytes]
    frame_max_bytes: int = 131_072
    message_size_max_bytes: int = 1 << 27

    @property
    def wire(self) -> bytes:
        return b"".join(self.reads)


def columns(batch: Batch) -> tuple[object, ...]:
    """All that the codec says of a batch."""
    return (
        bytes(batch.wire),
        batch.channel_number,
        *(list(each) for each in (batch.starts, batch.headers, batch.ends, batch.keys)),
        [(each.typecode, each.itemsize) for each in (batch.starts, batch.keys)],
        batch.distinct,
        batch.persistent,
        batch.contiguous,
        batch.frame_bytes_max,
        batch.flagged,
        batch.wire_bytes,
    )


def described(event: Event) -> object:
    """All of an event, to compare."""
    if not isinstance(event, ChannelInput):
        return event
    acks = None if event.acks is None else (list(event.acks.tags), event.acks.multiples)
    batch = None if event.batch is None else columns(event.batch)
    return event.channel_number, batch, acks


def outcome(stream: Stream, codec: ModuleType | None) -> list[object]:
    """All that a decoder in this form makes of the stream, read by read, and what it waits for."""
    with form(codec):
        reading = decoder(stream.frame_max_bytes, stream.message_size_max_bytes)
        found: list[object] = []
        for read in stream.reads:
            found.append([described(event) for event in reading.feed(read)])
            # The pieces of what is not whole yet.
            pieces = (each for each in parts(reading, list) if each and type(each[0]) is bytes)
            found.append([b"".join(each) for each in pieces])
        error = reading.error
    if error is not None:
        found.append((error.reply_code, error.reply_text, error.class_id, error.method_id))
    found.append(reading.lost_sync)
    return found


def batches_of(stream: Stream) -> list[Batch]:
    """The stream's batches, as the Python form decodes them."""
    with form(None):
        reading = decoder(stream.frame_max_bytes, stream.message_size_max_bytes)
        events = [event for read in stream.reads for event in reading.feed(read)]
    inputs = [event for event in events if isinstance(event, ChannelInput)]
    return [each.batch for each in inputs if each.batch is not None]


# --- Streams at random

_NAMES = [b"", b"a", b"orders", b"x" * 20, b"\xff\xfe"]
_MARKS = [b"", b"\x02CC", b"\x03BCC", b"\x02", b"CC"]
_ODD = b"FASVtlCExDITbBsuifdL\0\1\2\3\x16\x80\xce\xfe\xff\x28\x3c"


def _short(octets: bytes) -> bytes:
    return bytes((len(octets),)) + octets


def _value(rng: random.Random, depth: int) -> bytes:
    kind = rng.choice("tbBsuIilLfdDTVSxFA" if depth else "tVSIlS")
    sizes = {"V": 0, "t": 1, "b": 1, "B": 1, "s": 2, "u": 2, "I": 4, "i": 4, "f": 4, "D": 5}
    if kind in "Sx":
        content = rng.randbytes(rng.randrange(12))
        return kind.encode() + struct.pack(">I", len(content)) + content
    if kind in "FA":
        content = _fields(rng, depth - 1, kind == "F")
        return kind.encode() + struct.pack(">I", len(content)) + content
    return kind.encode() + rng.randbytes(sizes.get(kind, 8))


def _fields(rng: random.Random, depth: int, are_named: bool) -> bytes:
    pieces = []
    for _ in range(rng.randrange(4)):
        if are_named:
            pieces.append(rng.choice(_MARKS[1:3]) if rng.random() < 0.1 else _short(b"name"))
        pieces.append(_value(rng, depth))
    return b"".join(pieces)


def _deep(levels: int) -> bytes:
    """Tables in a table, so many levels deep with the outermost."""
    fields = b""
    for _ in range(levels - 1):
        fields = b"\1tF" + struct.pack(">I", len(fields)) + fields
    return struct.pack(">I", len(fields)) + fields


def random_properties(rng: random.Random) -> bytes:
    """Flags and values; sound, but for some of the flags that mean nothing."""
    flags = rng.getrandbits(16) & rng.getrandbits(16)
    if rng.random() < 0.3:
        flags = rng.choice([0, 0x1000, 0x3000, 0x2000, 0x9080])
    pieces = [struct.pack(">H", flags)]
    for place in range(14):
        if not flags & 0x8000 >> place:
            continue
        if place == 2:
            if rng.random() < 0.03:
                pieces.append(_deep(rng.randrange(60, 68)))
                continue
            fields = _fields(rng, 3, True)
            pieces.append(struct.pack(">I", len(fields)) + fields)
        elif place in (3, 4):
            pieces.append(bytes((rng.choice([0, 1, 2, 2, 2, 9]),)))
        elif place == 9:
            pieces.append(rng.randbytes(8))
        elif place == 6 and rng.random() < 0.2:
            pieces.append(_short(b"amq.rabbitmq.reply-to"))
        else:
            pieces.append(_short(rng.choice([b"", b"value", rng.choice(_MARKS)])))
    return b"".join(pieces)


def random_publish(rng: random.Random, channel: int) -> Publish:
    """One publish, whose body has one frame or several."""
    key = (
        _short(rng.choice(_NAMES)) + _short(rng.choice(_NAMES)) + bytes((rng.choice([0, 0, 1, 3]),))
    )
    body = rng.randbytes(rng.choice([0, 0, 1, 5, 40, 200]))
    part_bytes = rng.choice([1 << 30, 1 << 30, 7])
    return Publish(body, key, random_properties(rng), channel, part_bytes)


def _others(rng: random.Random, channel: int) -> bytes:
    """Frames that are no publish, and publishes that are not plain."""
    other = rng.randrange(10)
    if other == 0:
        return HEARTBEAT_FRAME
    if other == 1:
        return encode_method(channel, BasicQos(0, 5, False))
    if other == 2:
        return publish_method(b"\0\1q\0", channel)
    if other == 3:
        return content_header(rng.choice([0, 4]), channel=channel)
    if other == 4:
        return b"".join(body_frames(b"body", channel=channel))
    if other == 5:
        empty = frame(FRAME_BODY, b"", channel)
        method, header, *bodies = random_publish(rng, channel).frames()
        return method + header + empty + b"".join(bodies)
    if other == 6:
        method, *rest = random_publish(rng, channel).frames()
        return method + HEARTBEAT_FRAME + b"".join(rest)
    if other == 7:
        short = struct.pack(">HHQ", 60, 0, 0)[: rng.randrange(13)]
        return publish_method(b"\0\1q\0", channel) + frame(FRAME_HEADER, short, channel)
    if other == 8:
        return publish_method(rng.choice([b"", b"\0", b"\0\1", b"\5ab\0\0"]), channel)
    return rng.randbytes(rng.randrange(30))


def _mutated(rng: random.Random, wire: bytes) -> bytes:
    data = bytearray(wire)
    for _ in range(rng.choice([0, 0, 1, 1, 2, 5])):
        if not data:
            break
        at = rng.randrange(len(data))
        change = rng.randrange(6)
        if change == 0:
            data[at] = rng.randrange(256)
        elif change == 1:
            data[at] ^= 1 << rng.randrange(8)
        elif change == 2:
            data[at] = rng.choice(_ODD)
        elif change == 3:
            del data[at : at + rng.randrange(1, 9)]
        elif change == 4:
            data[at:at] = rng.randbytes(rng.randrange(1, 5))
        else:
            del data[at:]
    return bytes(data)


def _reads(rng: random.Random, wire: bytes) -> list[bytes]:
    count = rng.choice([0, 0, 0, 1, 2, 6])
    ends = sorted(rng.randrange(len(wire) + 1) for _ in range(count))
    return [wire[at:end] for at, end in zip([0, *ends], [*ends, len(wire)], strict=True)]


def random_session(rng: random.Random) -> bytes:
    """Publishes and acks of a few channels, and now and then something else."""
    pieces: list[bytes] = []
    repeated = random_publish(rng, 1).wire()
    for _ in range(rng.choice([1, 1, 2, 5, 12])):
        channel = rng.choice([1, 1, 1, 2, 300])
        choice = rng.random()
        if choice < 0.2:
            pieces.append(repeated * rng.choice([1, 1, 3]))
        elif choice < 0.7:
            pieces.append(random_publish(rng, channel).wire())
        elif choice < 0.85:
            tags = range(rng.choice([1, 1, 4]))
            pieces += [ack(rng.getrandbits(64) >> tag, rng.random() < 0.3, channel) for tag in tags]
        elif rng.random() < 0.5:
            pieces.append(_others(rng, channel))
    return b"".join(pieces)


def random_stream(rng: random.Random) -> Stream:
    """A session, most often with some octets changed, cut into reads."""
    reads = _reads(rng, _mutated(rng, random_session(rng)))
    return Stream(reads, rng.choice([0, 131_072, 131_072, 60]), rng.choice([1 << 27, 1 << 27, 30]))


# --- What is made of batches

Call = Callable[[], object]


def random_calls(rng: random.Random, batches: list[Batch]) -> Iterator[Call]:
    """Deliveries, returns, answers and rows of batches, and one batch of them all."""
    for batch in batches:
        count = len(batch)
        chosen = sorted(rng.sample(range(count), rng.randrange(1, count + 1)))
        some = rng.choice(
            [range(count), range(chosen[0], count), tuple(chosen), range(0, count, 2)]
        )
        channel = rng.choice([batch.channel_number, 5, 65_535])
        frame_max_bytes = rng.choice([0, 131_072, 40])
        tag = rng.choice([1, 7, 1 << 40])
        yield lambda b=batch, i=some, c=channel, f=frame_max_bytes, t=tag: (  # type: ignore[misc]
            deliveries.encode_deliveries(b, i, t, b"\1c", bool(t & 2), c, f)
        )
        yield lambda b=batch, i=some, c=channel, f=frame_max_bytes, t=tag: (  # type: ignore[misc]
            deliveries.encode_returns(b, i, t & ~1, c, f)
        )
        row_count = rng.randrange(1, 5)
        row_of_key = [rng.randrange(row_count) for _ in batch.distinct]
        keys = rng.choice([batch.keys, list(batch.keys)])
        first = rng.randrange(count + 1)
        yield lambda k=keys, r=row_of_key, n=row_count, c=first: (  # type: ignore[misc]
            indexes.rows_of(k, r, n, c)
        )
        yield from _calls_of_indexes(rng, batch, chosen)
    if batches:
        yield lambda: columns(merging.merged(batches))
    first = rng.randrange(1, 100)
    singles = [(first + 5, first + 5 + rng.randrange(-1, 4)), (first + 20, first + 20)]
    ranges = singles[: rng.randrange(3)]
    method, cumulative = rng.choice([80, 120]), rng.choice([0, first])
    yield lambda: deliveries.encode_answers(9, method, cumulative, ranges)


def _calls_of_indexes(rng: random.Random, batch: Batch, chosen: list[int]) -> Iterator[Call]:
    """Messages of a batch divided by flags, by numbers, and into ranges."""
    count = len(batch)
    rows = (range(count), array("I", chosen), range(chosen[0], count), array("I"))
    one, other = rng.choice(rows), rng.choice(rows)
    number = rng.choice([0, 1, 1 << 60])
    yield lambda: indexes.split(one, batch.persistent, number)
    yield lambda: indexes.divided(one, other)
    yield lambda: indexes.ranges_of(one, number)


def compared(stream: Stream, rng: random.Random) -> bool:
    """Holds both forms to the same results; true if the stream ends in an error."""
    expected = outcome(stream, None)
    assert outcome(stream, compiled) == expected, stream
    for call in random_calls(rng, batches_of(stream)):
        with form(None):
            in_python = call()
        with form(compiled):
            assert call() == in_python, stream
    return isinstance(expected[-2], tuple) and len(expected[-2]) == 4
