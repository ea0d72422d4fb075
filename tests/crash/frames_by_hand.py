"""AMQP frames, encoded and taken apart by hand: nothing here shares a mistake with the broker."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_END = b"\xce"
PERSISTENT = 2
TRANSIENT = 1

Ids = tuple[int, int]

START, START_OK, TUNE, TUNE_OK = (10, 10), (10, 11), (10, 30), (10, 31)
OPEN, OPEN_OK, CLOSE, CLOSE_OK = (10, 40), (10, 41), (10, 50), (10, 51)
CHANNEL_OPEN, CHANNEL_OPEN_OK = (20, 10), (20, 11)
CHANNEL_CLOSE, CHANNEL_CLOSE_OK = (20, 40), (20, 41)
EXCHANGE_DECLARE, EXCHANGE_DECLARE_OK = (40, 10), (40, 11)
QUEUE_DECLARE, QUEUE_DECLARE_OK = (50, 10), (50, 11)
QUEUE_BIND, QUEUE_BIND_OK = (50, 20), (50, 21)
QUEUE_PURGE, QUEUE_PURGE_OK = (50, 30), (50, 31)
QUEUE_DELETE, QUEUE_DELETE_OK = (50, 40), (50, 41)
QOS, QOS_OK, CONSUME, CONSUME_OK = (60, 10), (60, 11), (60, 20), (60, 21)
CANCEL, CANCEL_OK, PUBLISH, RETURN, DELIVER = (60, 30), (60, 31), (60, 40), (60, 50), (60, 60)
GET, GET_OK, GET_EMPTY = (60, 70), (60, 71), (60, 72)
ACK, REJECT, NACK = (60, 80), (60, 90), (60, 120)
CONFIRM_SELECT, CONFIRM_SELECT_OK = (85, 10), (85, 11)


class Frame(NamedTuple):
    """One frame as it came."""

    kind: int
    channel: int
    payload: bytes

    @property
    def ids(self) -> Ids:
        """Class and method; (0, 0) of what is no method."""
        if self.kind != 1:
            return 0, 0
        class_id, method_id = struct.unpack_from(">HH", self.payload)
        return class_id, method_id


def short(text: str) -> bytes:
    """Encode a short string."""
    data = text.encode()
    return bytes([len(data)]) + data


def long(data: bytes) -> bytes:
    """Encode a long string, or the fields of a table."""
    return struct.pack(">I", len(data)) + data


def table(fields: Mapping[str, str | int]) -> bytes:
    """Encode a table of texts and numbers."""
    pieces = [
        short(name)
        + (
            b"S" + long(value.encode())
            if isinstance(value, str)
            else struct.pack(">cq", b"l", value)
        )
        for name, value in fields.items()
    ]
    return long(b"".join(pieces))


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Wrap a payload: 1 method, 2 header, 3 body, 8 heartbeat."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + FRAME_END


def method(channel: int, ids: Ids, arguments: bytes = b"") -> bytes:
    """Encode a method whose arguments are encoded already."""
    return frame(1, channel, struct.pack(">HH", *ids) + arguments)


def start_ok(
    user: str = "guest", password: str = "guest", mechanism: str = "PLAIN", properties: bytes = b""
) -> bytes:
    """Encode connection.start-ok with PLAIN's response."""
    response = f"\0{user}\0{password}".encode()
    return method(0, START_OK, long(properties) + short(mechanism) + long(response) + short("en"))


def tune_ok(channel_max: int = 2047, frame_max: int = 131072, heartbeat: int = 0) -> bytes:
    """Encode connection.tune-ok."""
    return method(0, TUNE_OK, struct.pack(">HIH", channel_max, frame_max, heartbeat))


def handshake(frame_max: int = 131072, heartbeat: int = 0) -> bytes:
    """All that a client says until its connection is open, in one go."""
    open_ = method(0, OPEN, short("/") + b"\0\0")
    return PROTOCOL_HEADER + start_ok() + tune_ok(2047, frame_max, heartbeat) + open_


def close_arguments() -> bytes:
    """Arguments of connection.close and channel.close: 200, no text, no culprit."""
    return struct.pack(">HBHH", 200, 0, 0, 0)


def queue_declare(
    channel: int,
    queue: str,
    durable: bool = True,
    passive: bool = False,
    arguments: dict[str, str | int] | None = None,
) -> bytes:
    """Encode queue.declare; arguments are texts and numbers."""
    bits = bytes([passive | durable << 1])
    fields = table(arguments or {})
    return method(channel, QUEUE_DECLARE, b"\0\0" + short(queue) + bits + fields)


def queue_bind(channel: int, queue: str, exchange: str, key: str) -> bytes:
    """Encode queue.bind."""
    names = short(queue) + short(exchange) + short(key)
    return method(channel, QUEUE_BIND, b"\0\0" + names + b"\0" + long(b""))


def queue_purge(channel: int, queue: str) -> bytes:
    """Encode queue.purge."""
    return method(channel, QUEUE_PURGE, b"\0\0" + short(queue) + b"\0")


def queue_delete(channel: int, queue: str) -> bytes:
    """Encode queue.delete, whatever is in the queue."""
    return method(channel, QUEUE_DELETE, b"\0\0" + short(queue) + b"\0")


def exchange_declare(
    channel: int, exchange: str, kind: str, arguments: dict[str, str | int] | None = None
) -> bytes:
    """Encode exchange.declare of a durable exchange."""
    names = short(exchange) + short(kind)
    return method(channel, EXCHANGE_DECLARE, b"\0\0" + names + b"\x02" + table(arguments or {}))


def qos(channel: int, prefetch: int) -> bytes:
    """Encode basic.qos for the consumers to come."""
    return method(channel, QOS, struct.pack(">IHB", 0, prefetch, 0))


def consume(channel: int, queue: str, tag: str, no_ack: bool = False) -> bytes:
    """Encode basic.consume."""
    names = short(queue) + short(tag)
    return method(channel, CONSUME, b"\0\0" + names + bytes([no_ack << 1]) + long(b""))


def get(channel: int, queue: str, no_ack: bool = False) -> bytes:
    """Encode basic.get."""
    return method(channel, GET, b"\0\0" + short(queue) + bytes([no_ack]))


def ack(channel: int, delivery_tag: int, multiple: bool = False) -> bytes:
    """Encode basic.ack."""
    return method(channel, ACK, struct.pack(">QB", delivery_tag, multiple))


def nack(channel: int, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> bytes:
    """Encode basic.nack."""
    return method(channel, NACK, struct.pack(">QB", delivery_tag, multiple | requeue << 1))


def content_header(
    channel: int,
    body_bytes: int,
    delivery_mode: int = PERSISTENT,
    class_id: int = 60,
    priority: int | None = None,
    headers: Mapping[str, str | int] | None = None,
) -> bytes:
    """Encode a content header with the delivery mode, and the headers and the priority if any."""
    flags, octets = 1 << 12, bytes([delivery_mode])
    if headers is not None:
        flags, octets = flags | 1 << 13, table(headers) + octets
    if priority is not None:
        flags, octets = flags | 1 << 11, octets + bytes([priority])
    return frame(2, channel, struct.pack(">HHQH", class_id, 0, body_bytes, flags) + octets)


def publish_method(channel: int, exchange: str, key: str, mandatory: bool = False) -> bytes:
    """Encode basic.publish without its content."""
    return method(
        channel, PUBLISH, b"\0\0" + short(exchange) + short(key) + bytes([bool(mandatory)])
    )


def publish(
    channel: int,
    exchange: str,
    key: str,
    body: bytes,
    delivery_mode: int = PERSISTENT,
    mandatory: bool = False,
    frame_max: int = 131072,
    priority: int | None = None,
    headers: Mapping[str, str | int] | None = None,
) -> bytes:
    """Encode a whole publish; a body above the frame size goes in several frames."""
    chunk = frame_max - 8
    content = [frame(3, channel, body[at : at + chunk]) for at in range(0, len(body), chunk)]
    header = content_header(channel, len(body), delivery_mode, priority=priority, headers=headers)
    return b"".join((publish_method(channel, exchange, key, mandatory), header, *content))
