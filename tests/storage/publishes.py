"""Batches as a channel would hand them to the journal, from given bodies."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from random import Random
from struct import pack

from leveret.amqp_frames.messages.arrivals import joined_arrivals, runs_of
from leveret.amqp_frames.messages.batch import Batch, Indexes
from leveret.amqp_frames.messages.publishes import decode_publishes


def frame(kind: int, payload: bytes, channel_number: int = 1) -> bytes:
    return pack(">BHI", kind, channel_number, len(payload)) + payload + b"\xce"


def publish(body: bytes, routing_key: bytes = b"a queue") -> bytes:
    """One persistent publish to the default exchange, as on the wire."""
    method = pack(">HHHB", 60, 40, 0, 0) + bytes([len(routing_key)]) + routing_key + b"\0"
    header = pack(">HHQHB", 60, 0, len(body), 0x1000, 2)
    return frame(1, method) + frame(2, header) + (frame(3, body) if body else b"")


def batch_of(bodies: Sequence[bytes], number: int, durable: Indexes | None = None) -> Batch:
    batch = decode_publishes(b"".join(map(publish, bodies)))
    batch.number = number
    batch.durable = durable
    batch.received_ns = 1000 * number + 1
    return batch


def message(batch: Batch, index: int) -> bytes:
    """The wire bytes of one message."""
    return bytes(batch.wire[batch.starts[index] : batch.ends[index]])


def kept(batch: Batch, index: int) -> bytes:
    """What the journal is to keep of one message: its wire bytes, and when it arrived."""
    [(_, _, arrived_ns)] = runs_of(batch.arrived, [index])
    return message(batch, index) + b" of %d" % (arrived_ns or batch.received_ns)


def with_arrivals(batch: Batch, random: Random) -> Batch:
    """As it came from a reader, at some time, or was read back with others, or neither."""
    kind = random.random()
    if kind < 0.2:
        batch.received_ns = 0
    elif kind < 0.4:
        batch.received_ns = 0
        batch.arrived = joined_arrivals((random.choice((0, 5, 6)), 1) for _ in batch.starts)
    return batch


def some_of(random: Random, indexes: Indexes) -> Indexes:
    """A part of the indexes, in the form that a channel would give it."""
    if random.random() < 0.5:
        first = random.randrange(len(indexes))
        return indexes[first : random.randint(first + 1, len(indexes))]
    count = random.randint(1, len(indexes))
    return array("I", sorted(random.sample(list(indexes), count)))
