"""The few frames that the load generator sends, encoded by hand.

Nothing of Leveret is imported here: what measures the broker must not share its mistakes. All is
done before the clock runs; the load itself sends these bytes again and again.
"""

from __future__ import annotations

import struct

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_END = b"\xce"
FRAME_OVERHEAD_BYTES = 8
PERSISTENT = 2
TRANSIENT = 1

# Stands at the end of every body: the generator counts messages by counting it. The longer, the
# faster it is searched; the last of the frames that 8 KB are split into holds 16 bytes.
BODY_MARKER = b"LeveretBodyEnds."

ACK = (60, 80)
NACK = (60, 120)


def shortstr(text: str) -> bytes:
    """Encode a short string: one length byte, then UTF-8."""
    data = text.encode()
    return bytes([len(data)]) + data


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Wrap a payload as one frame: 1 method, 2 header, 3 body."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + FRAME_END


def method(channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    """Encode a method frame whose arguments are encoded already."""
    return frame(1, channel, struct.pack(">HH", class_id, method_id) + arguments)


def body_of(size_bytes: int) -> bytes:
    """Make a body of this size that ends in the marker."""
    return b"x" * (size_bytes - len(BODY_MARKER)) + BODY_MARKER


def publish(
    channel: int,
    exchange: str,
    routing_key: str,
    body: bytes,
    delivery_mode: int = PERSISTENT,
    mandatory: bool = False,
) -> bytes:
    """Encode one publish: method, header and a body in one frame."""
    names = b"\x00\x00" + shortstr(exchange) + shortstr(routing_key)
    header = struct.pack(">HHQHB", 60, 0, len(body), 0x1000, delivery_mode)
    return (
        method(channel, 60, 40, names + (b"\x01" if mandatory else b"\x00"))
        + frame(2, channel, header)
        + frame(3, channel, body)
    )


def ack(channel: int, delivery_tag: int, multiple: bool = False) -> bytes:
    """Encode a consumer's ack: 21 bytes, as every ack is."""
    return method(channel, *ACK, struct.pack(">QB", delivery_tag, multiple))


def answer_marker(channel: int, kind: tuple[int, int]) -> bytes:
    """Give the 11 bytes that begin every ack (or nack) frame on this channel."""
    return struct.pack(">BHIHH", 1, channel, 13, *kind)


def queue_declare(channel: int, queue: str, durable: bool, passive: bool = False) -> bytes:
    """Encode queue.declare, without arguments."""
    bits = bytes([passive | durable << 1])
    return method(channel, 50, 10, b"\x00\x00" + shortstr(queue) + bits + b"\x00\x00\x00\x00")


def queue_bind(channel: int, queue: str, exchange: str, routing_key: str) -> bytes:
    """Encode queue.bind, without arguments."""
    names = shortstr(queue) + shortstr(exchange) + shortstr(routing_key)
    return method(channel, 50, 20, b"\x00\x00" + names + b"\x00" + b"\x00\x00\x00\x00")


def queue_purge(channel: int, queue: str) -> bytes:
    """Encode queue.purge."""
    return method(channel, 50, 30, b"\x00\x00" + shortstr(queue) + b"\x00")


def queue_delete(channel: int, queue: str) -> bytes:
    """Encode queue.delete, whatever is in the queue."""
    return method(channel, 50, 40, b"\x00\x00" + shortstr(queue) + b"\x00")


def exchange_declare(channel: int, exchange: str, kind: str) -> bytes:
    """Encode exchange.declare of a durable exchange."""
    names = shortstr(exchange) + shortstr(kind)
    return method(channel, 40, 10, b"\x00\x00" + names + b"\x02" + b"\x00\x00\x00\x00")


def exchange_delete(channel: int, exchange: str) -> bytes:
    """Encode exchange.delete."""
    return method(channel, 40, 20, b"\x00\x00" + shortstr(exchange) + b"\x00")


def basic_qos(channel: int, prefetch_count: int) -> bytes:
    """Encode basic.qos for the consumers to come."""
    return method(channel, 60, 10, struct.pack(">IHB", 0, prefetch_count, 0))


def basic_consume(channel: int, queue: str, consumer_tag: str) -> bytes:
    """Encode basic.consume with acks."""
    names = shortstr(queue) + shortstr(consumer_tag)
    return method(channel, 60, 20, b"\x00\x00" + names + b"\x00" + b"\x00\x00\x00\x00")
