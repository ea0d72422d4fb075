"""Batches that are made of other batches.

`with_properties`: a batch some of whose messages have other properties than they came with. It is
the one case in which the broker stores and delivers other bytes than a publisher sent.

`BatchOfCopies`: messages of several batches published anew, with other keys and properties.

`copied`: some messages of a batch published anew, as they are.

`excerpt`: a few messages of a batch in a batch of their own.

A Batch keeps its whole read. A queue that keeps few of its messages for long keeps an excerpt
instead, which has their bytes and no others, and answers every question about a message as the
whole batch does.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..constants import (
    CONTENT_HEADER_BYTES,
    EMPTY_FRAME_BYTES,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    FRAME_METHOD,
)
from ..properties import PERSISTENT, Properties, encode_properties, must_look
from ..values.field_table import encode_short_string
from .arrivals import Arrived, arrivals_of
from .batch import Batch, Indexes
from .contents import column, frame, reframe_content
from .publishes import PUBLISH_IDS


def excerpt(batch: Batch, chosen: Indexes) -> Batch:
    """The messages with these numbers, which ascend, numbered from 0 on.

    `excerpted` of the new batch has the numbers that they had in the batch as it was routed, or
    read back. Not for the journal: who appends to it names the batch that was routed.
    """
    made = Batch(b"", batch.channel_number)
    starts, headers, ends = (
        column(each, chosen) for each in (batch.starts, batch.headers, batch.ends)
    )
    _copy_wire(made, batch, starts, headers, ends)
    numbers = column(batch.keys, chosen)
    used = sorted(set(numbers))
    made.distinct = [batch.distinct[number] for number in used]
    if len(used) == 1:
        made.keys = array("I", bytes(4 * len(numbers)))
    else:
        renumbered = {number: place for place, number in enumerate(used)}
        made.keys = array("I", [renumbered[number] for number in numbers])
    made.persistent = bytearray(column(batch.persistent, chosen))
    made.frame_bytes_max = batch.frame_bytes_max
    if batch.flagged is not None:
        made.flagged = _places(chosen, batch.flagged)
    if batch.ttls_ms is not None:
        made.ttls_ms = array("Q", column(batch.ttls_ms, chosen))
    made.number = batch.number
    if batch.durable is not None:
        made.durable = array("I", _places(chosen, batch.durable))
    made.journal_place = batch.journal_place
    if batch.traced is not None:
        made.traced = array("I", _places(chosen, batch.traced)) or None
    made.received_ns = batch.received_ns
    made.arrived = arrivals_of(batch.arrived, chosen)
    if batch.excerpted is None:
        made.excerpted = chosen
    else:
        made.excerpted = array("I", column(batch.excerpted, chosen))
    return made


def copied(
    batch: Batch, chosen: Indexes, number: int, ttl_ms: int | None, arrived: Arrived
) -> Batch:
    """The same messages as new ones, in a batch that has this number and is not traced.

    The queues that they came from have looked at their properties already. `ttl_ms`: how long all
    of them may live in a queue. `arrived`: when those of the whole batch did.
    """
    made = excerpt(batch, chosen)
    made.number = number
    made.received_ns, made.arrived = 0, arrivals_of(arrived, chosen)
    made.excerpted = made.journal_place = made.traced = None
    persistent = made.persistent
    made.durable = None
    if not all(persistent):
        made.durable = array("I", [index for index, flag in enumerate(persistent) if flag])
    made.ttls_ms = None if ttl_ms is None else array("Q", [ttl_ms]) * len(persistent)
    return made


def _places(chosen: Indexes, wanted: Indexes | list[int]) -> list[int]:
    """Where in `chosen`, which ascends, those of the wanted are that are in it."""
    if len(wanted) > len(chosen):
        among = wanted if isinstance(wanted, range) else frozenset(wanted)
        return [place for place, index in enumerate(chosen) if index in among]
    count = len(chosen)
    places = ((bisect_left(chosen, index), index) for index in wanted)
    return [place for place, index in places if place < count and chosen[place] == index]


def _copy_wire(
    made: Batch, batch: Batch, starts: Sequence[int], headers: Sequence[int], ends: Sequence[int]
) -> None:
    """The bytes of these messages, one behind the other, and where they are now."""
    wire, first = batch.wire, starts[0]
    if ends[-1] - first == sum(ends) - sum(starts):
        made.wire = wire[first : ends[-1]]
        made.wire_bytes = len(made.wire)
        made.starts = array("I", [start - first for start in starts])
        made.headers = array("I", [header - first for header in headers])
        made.ends = array("I", [end - first for end in ends])
        return
    pieces: list[bytes] = []
    position = 0
    for start, header, end in zip(starts, headers, ends, strict=True):
        pieces.append(wire[start:end])
        made.starts.append(position)
        made.headers.append(position + header - start)
        position += end - start
        made.ends.append(position)
    made.wire = b"".join(pieces)
    made.wire_bytes = position


def with_properties(batch: Batch, properties: Mapping[int, bytes]) -> Batch:
    """The same messages; these have those properties (flags and values) in their headers."""
    made = Batch(b"", batch.channel_number)
    made.keys, made.distinct, made.persistent = batch.keys, batch.distinct, batch.persistent
    made.flagged = batch.flagged
    made.received_ns, made.arrived = batch.received_ns, batch.arrived
    largest = batch.frame_bytes_max
    wire = batch.wire
    pieces: list[bytes] = []
    position = 0
    for index, (start, header, end) in enumerate(
        zip(batch.starts, batch.headers, batch.ends, strict=True)
    ):
        made.starts.append(position)
        made.headers.append(position + header - start)
        octets = properties.get(index)
        if octets is None:
            content = wire[start:end]
        else:
            payload = header + FRAME_HEADER_BYTES
            body = payload + int.from_bytes(wire[payload - 4 : payload], "big") + 1
            head = frame(
                FRAME_HEADER,
                batch.channel_number,
                wire[payload : payload + CONTENT_HEADER_BYTES] + octets,
            )
            largest = max(largest, len(head))
            content = wire[start:header] + head + wire[body:end]
        pieces.append(content)
        position += len(content)
        made.ends.append(position)
    made.wire = b"".join(pieces)
    made.wire_bytes = position
    made.frame_bytes_max = largest
    return made


class NewHead(NamedTuple):
    """The frames before the body of a message that is published anew."""

    # Exchange and routing key, as short strings, and the octet of the bits.
    key: bytes
    # Flags and values, as on the wire.
    properties: bytes
    is_persistent: bool
    # Must the broker look at the properties (`Batch.flagged`)?
    is_flagged: bool


def new_head(exchange: str, routing_key: str, properties: Properties) -> NewHead:
    """The head of a message that is neither mandatory nor immediate; ValueError as encoding it."""
    octets = encode_properties(properties)
    key = encode_short_string(exchange) + encode_short_string(routing_key) + b"\0"
    mode = properties.delivery_mode or 0
    return NewHead(key, octets, mode == PERSISTENT, must_look(octets, mode))


class BatchOfCopies:
    """Gathers messages of several batches that are published anew, and makes one batch of them."""

    def __init__(self, channel_number: int) -> None:
        self._made = Batch(b"", channel_number)
        self._numbers: dict[bytes, int] = {}
        self._pieces: list[bytes] = []
        self._end = 0

    def add(self, batch: Batch, index: int, head: NewHead) -> None:
        """Add the message with this body of the batch; its frames are as large as they were."""
        made = self._made
        key, properties, is_persistent, is_flagged = head
        number = self._numbers.setdefault(key, len(self._numbers))
        if number == len(made.distinct):
            made.distinct.append(key)
        # Behind the method's ids is a reserved short.
        method = frame(FRAME_METHOD, made.channel_number, PUBLISH_IDS + b"\0\0" + key)
        content = reframe_content(
            batch.wire, batch.headers[index], batch.ends[index], made.channel_number, 0, properties
        )
        if is_flagged:
            made.flagged = [*(made.flagged or ()), len(made)]
        made.starts.append(self._end)
        made.headers.append(self._end + len(method))
        self._end += len(method) + len(content)
        made.ends.append(self._end)
        made.keys.append(number)
        made.persistent.append(is_persistent)
        header_bytes = EMPTY_FRAME_BYTES + CONTENT_HEADER_BYTES + len(properties)
        made.frame_bytes_max = max(made.frame_bytes_max, batch.frame_bytes_max, header_bytes)
        self._pieces += (method, content)

    def batch(self) -> Batch | None:
        """All of them as a batch; None if there are none."""
        if not self._pieces:
            return None
        self._made.wire = b"".join(self._pieces)
        self._made.wire_bytes = self._end
        return self._made
