"""Runs of PUB, MPUB and DPUB, as batches of persistent AMQP publishes.

A run is consecutive whole commands of one kind. `decode_run` says where their bodies lie, and
`encode_publishes` writes each body once more, between the frames of a basic.publish to the exchange
that the topic is. The result is the batch that amqp_frames/decoder.py would make of these frames:
from here on nobody needs to know of NSQ.

`decode_run` stops without judging at anything that is not a whole and sound command of its kind;
`commands.py` is the one authority on errors.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from struct import Struct
from typing import Final, NamedTuple

from ..amqp_frames.compiled import codec
from ..amqp_frames.constants import (
    CLASS_BASIC,
    EMPTY_FRAME_BYTES,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_METHOD,
)
from ..amqp_frames.messages.batch import Batch, Columns
from ..amqp_frames.methods import BasicPublish
from .names import is_valid_name

PUB: Final = b"PUB"
MPUB: Final = b"MPUB"
DPUB: Final = b"DPUB"

# Of the frames in a batch: AMQP clients use it most, and its bytes go to them as they are.
CHANNEL_NUMBER: Final = 1
# A body above this is cut into several frames, as AMQP clients with the usual frame_max do it.
BODY_FRAME_BYTES_MAX: Final = 131_072 - EMPTY_FRAME_BYTES
# The most that `body_bytes_max` may be: a batch has 4 GiB at most, and the frames of an MPUB are
# much larger than it if its messages are small.
MPUB_BYTES_MAX: Final = 128 * 1024 * 1024
# As nsqd's reader: a longer line is no command.
LINE_BYTES_MAX: Final = 16_384
# A number with more digits is for `commands.py`, which counts it as nsqd does.
DIGITS_MAX: Final = 18

_size = Struct(">i").unpack_from
_frame_header = Struct(">BHI").pack
# The content header's frame: class, weight, body size, flags, delivery mode, frame end.
_content_header = Struct(">BHIHHQHBB").pack
_CONTENT_HEADER_BYTES: Final = 15
CONTENT_FRAME_BYTES: Final = _CONTENT_HEADER_BYTES + EMPTY_FRAME_BYTES
_DELIVERY_MODE_FLAG: Final = 0x1000
_PERSISTENT: Final = 2
_FRAME_END: Final = bytes((FRAME_END,))
# An empty routing key, and no bits.
_KEY_END: Final = b"\0\0"


class PublishLimits(NamedTuple):
    """The largest message and the largest MPUB, in bytes, and the longest delay of a DPUB."""

    message_bytes_max: int
    body_bytes_max: int
    delay_ms_max: int


class PublishRun(NamedTuple):
    """The commands of a run, and their messages as a batch.

    `counts` has how many messages each command has; None: one each. `delays_ms` has for each
    message for how long it is deferred; None without DPUB.
    """

    command: bytes
    batch: Batch
    counts: array[int] | None
    delays_ms: array[int] | None


class Bodies:
    """Where the messages of a run lie in the octets of a read, and whose they are.

    Message k is data[begins[k]:ends[k]], for the topic `topics[keys[k]]`.
    """

    __slots__ = ("begins", "counts", "delays_ms", "ends", "keys", "topics")

    def __init__(self) -> None:
        self.topics: list[bytes] = []
        self.keys = array("I")
        self.begins = array("I")
        self.ends = array("I")
        # Messages of each command; of MPUB only.
        self.counts = array("I")
        # Of DPUB only.
        self.delays_ms = array("I")


def decode_run(
    data: bytes, position: int, command: bytes, limits: PublishLimits
) -> tuple[PublishRun | None, int]:
    """The run of such commands from `position` on, and where it ends; None if there is none."""
    if codec is not None:
        end, topics, keys, begins, ends, counts, delays_ms = codec.nsq_bodies(
            data, position, command, *limits
        )
        if end == position:
            return None, position
        batch = encode_publishes(data, topics, keys, begins, ends)
        return _run(command, batch, counts, delays_ms), end
    bodies = Bodies()
    if command == MPUB:
        end = _scan_many(data, position, bodies, limits)
    else:
        end = _scan_single(data, position, command, bodies, limits)
    if end == position:
        return None, position
    return run_of(data, command, bodies), end


def run_of(data: bytes, command: bytes, bodies: Bodies) -> PublishRun:
    """The run that these bodies are."""
    batch = encode_publishes(data, bodies.topics, bodies.keys, bodies.begins, bodies.ends)
    return _run(command, batch, bodies.counts, bodies.delays_ms)


def _run(command: bytes, batch: Batch, counts: array[int], delays_ms: array[int]) -> PublishRun:
    if command == MPUB:
        batch.wholes = _wholes(counts)
        return PublishRun(command, batch, counts, None)
    return PublishRun(command, batch, None, delays_ms if command == DPUB else None)


def run_before(run: PublishRun, topic: str) -> PublishRun | None:
    """The commands that stand before the first one to this topic; None if there are none."""
    batch, name = run.batch, topic.encode()
    count = batch.keys.index(batch.distinct.index(bytes((len(name),)) + name + _KEY_END))
    if not count:
        return None
    starts, headers, ends = batch.starts[:count], batch.headers[:count], batch.ends[:count]
    columns = starts, headers, ends, batch.keys[:count], batch.persistent[:count]
    # Topics are numbered as they first come.
    distinct = batch.distinct[: max(columns[3]) + 1]
    head = _batch(batch.wire[: ends[-1]], columns, distinct, batch.frame_bytes_max)
    if batch.wholes is not None:
        head.wholes = [whole for whole in batch.wholes if whole[1] <= count] or None
    counts, delays_ms = run.counts, run.delays_ms
    if counts is not None:
        counts = counts[: list(accumulate(counts)).index(count) + 1]
    if delays_ms is not None:
        delays_ms = delays_ms[:count]
    return PublishRun(run.command, head, counts, delays_ms)


def _wholes(counts: Sequence[int]) -> list[tuple[int, int]] | None:
    """First index and end of the messages of each command that has several."""
    ends = list(accumulate(counts))
    wholes = [(end - count, end) for count, end in zip(counts, ends, strict=True) if count > 1]
    return wholes or None


def _scan_single(
    data: bytes, position: int, command: bytes, bodies: Bodies, limits: PublishLimits
) -> int:
    """Note the messages of PUB or DPUB; return where the last of them ends."""
    size = len(data)
    begins, ends, keys, delays = bodies.begins, bodies.ends, bodies.keys, bodies.delays_ms
    bytes_max = limits.message_bytes_max
    # By the line: number of the topic, and the delay.
    known: dict[bytes, tuple[int, int]] = {}
    numbers: dict[bytes, int] = {}
    is_delayed = command == DPUB
    while True:
        line_end = data.find(b"\n", position, position + LINE_BYTES_MAX)
        body = line_end + 5
        if line_end < 0 or body > size:
            break
        line = data[position:line_end]
        found = known.get(line)
        if found is None:
            found = _read_line(line, command, numbers, limits)
            if found is None:
                break
            known[line] = found
        body_bytes = _size(data, line_end + 1)[0]
        end = body + body_bytes
        if not 0 < body_bytes <= bytes_max or end > size:
            break
        keys.append(found[0])
        begins.append(body)
        ends.append(end)
        if is_delayed:
            delays.append(found[1])
        position = end
    bodies.topics = _used(numbers, keys)
    return position


def _scan_many(data: bytes, position: int, bodies: Bodies, limits: PublishLimits) -> int:
    """The same of MPUB."""
    size = len(data)
    begins, ends, keys = bodies.begins, bodies.ends, bodies.keys
    bytes_max = limits.message_bytes_max
    numbers: dict[bytes, int] = {}
    while True:
        line_end = data.find(b"\n", position, position + LINE_BYTES_MAX)
        at = line_end + 9
        if line_end < 0 or at > size:
            break
        found = _read_line(data[position:line_end], MPUB, numbers, limits)
        body_bytes, count = _size(data, line_end + 1)[0], _size(data, line_end + 5)[0]
        is_sound = 0 < body_bytes <= limits.body_bytes_max
        if found is None or not is_sound or not 0 < count <= message_count_max(limits):
            break
        noted = len(begins)
        left = count
        # The size of the body may be a lie.
        end_max = min(size, line_end + 5 + limits.body_bytes_max)
        while left and at + 4 <= size:
            message_bytes = _size(data, at)[0]
            end = at + 4 + message_bytes
            if not 0 < message_bytes <= bytes_max or end > end_max:
                break
            begins.append(at + 4)
            ends.append(end)
            at = end
            left -= 1
        if left:
            del begins[noted:], ends[noted:]
            break
        keys.extend(array("I", (found[0],)) * count)
        bodies.counts.append(count)
        position = at
    bodies.topics = _used(numbers, keys)
    return position


def _used(numbers: dict[bytes, int], keys: array[int]) -> list[bytes]:
    """The topics, without that of a command which was not whole."""
    return list(numbers)[: max(keys, default=-1) + 1]


def message_count_max(limits: PublishLimits) -> int:
    """How many messages an MPUB may have: as many as its body could hold of one octet each."""
    return (limits.body_bytes_max - 4) // 5


def _read_line(
    line: bytes, command: bytes, numbers: dict[bytes, int], limits: PublishLimits
) -> tuple[int, int] | None:
    """The topic's number and the delay in milliseconds; None if the line is not sound."""
    params = line.removesuffix(b"\r").split(b" ")
    is_delayed = command == DPUB
    if params[0] != command or len(params) < (3 if is_delayed else 2):
        return None
    topic = params[1]
    number = numbers.get(topic)
    if number is None and not is_valid_name(topic):
        return None
    delay_ms = 0
    if is_delayed:
        digits = params[2]
        if len(digits) > DIGITS_MAX or digits.strip(b"0123456789"):
            return None
        delay_ms = int(digits or b"0")
        if delay_ms > limits.delay_ms_max:
            return None
    return numbers.setdefault(topic, len(numbers)), delay_ms


def encode_publishes(
    data: bytes,
    topics: list[bytes],
    keys: array[int],
    begins: array[int],
    ends: array[int],
) -> Batch:
    """A batch of these messages, each a persistent basic.publish to the exchange of its topic.

    `keys` becomes a column of it.
    """
    distinct = [bytes((len(topic),)) + topic + _KEY_END for topic in topics]
    if codec is not None:
        wire, starts, headers, wire_ends, persistent, largest = codec.nsq_publishes(
            data, topics, keys, begins, ends
        )
        columns = starts, headers, wire_ends, keys, persistent
        return _batch(wire, columns, distinct, largest)
    methods = [_method_frame(topic) for topic in topics]
    # By the size of the body: content header, and the frame header of a body of one frame.
    heads: dict[int, bytes] = {}
    pieces: list[bytes] = []
    starts, headers, wire_ends = array("I"), array("I"), array("I")
    at = largest = 0
    for key, begin, end in zip(keys, begins, ends, strict=True):
        method = methods[key]
        starts.append(at)
        at += len(method)
        headers.append(at)
        body_bytes = end - begin
        if body_bytes <= BODY_FRAME_BYTES_MAX:
            head = heads.get(body_bytes)
            if head is None:
                head = heads[body_bytes] = _head(body_bytes)
                largest = max(largest, body_bytes)
            pieces += (method, head, data[begin:end], _FRAME_END)
            at += CONTENT_FRAME_BYTES + EMPTY_FRAME_BYTES + body_bytes
        else:
            cut = _cut(data, begin, end)
            pieces += (method, cut)
            at += len(cut)
            largest = BODY_FRAME_BYTES_MAX
        wire_ends.append(at)
    columns = starts, headers, wire_ends, keys, bytearray(b"\1") * len(keys)
    frame_bytes_max = max(largest + EMPTY_FRAME_BYTES, CONTENT_FRAME_BYTES)
    return _batch(b"".join(pieces), columns, distinct, frame_bytes_max)


def _batch(wire: bytes, columns: Columns, distinct: list[bytes], frame_bytes_max: int) -> Batch:
    batch = Batch(wire, CHANNEL_NUMBER, columns)
    batch.distinct = distinct
    batch.wire_bytes = len(wire)
    batch.frame_bytes_max = frame_bytes_max
    return batch


def _method_frame(topic: bytes) -> bytes:
    # Behind the ids stands a short that is reserved.
    payload = BasicPublish.prefix + b"\0\0" + bytes((len(topic),)) + topic + _KEY_END
    return _frame_header(FRAME_METHOD, CHANNEL_NUMBER, len(payload)) + payload + _FRAME_END


def _content_frame(body_bytes: int) -> bytes:
    return _content_header(
        FRAME_HEADER,
        CHANNEL_NUMBER,
        _CONTENT_HEADER_BYTES,
        CLASS_BASIC,
        0,
        body_bytes,
        _DELIVERY_MODE_FLAG,
        _PERSISTENT,
        FRAME_END,
    )


def _head(body_bytes: int) -> bytes:
    return _content_frame(body_bytes) + _frame_header(FRAME_BODY, CHANNEL_NUMBER, body_bytes)


def _cut(data: bytes, begin: int, end: int) -> bytes:
    """Header and body frames of a message whose body does not fit in one."""
    view = memoryview(data)
    pieces: list[bytes | memoryview] = [_content_frame(end - begin)]
    for at in range(begin, end, BODY_FRAME_BYTES_MAX):
        chunk = view[at : min(end, at + BODY_FRAME_BYTES_MAX)]
        pieces += (_frame_header(FRAME_BODY, CHANNEL_NUMBER, len(chunk)), chunk, _FRAME_END)
    return b"".join(pieces)
