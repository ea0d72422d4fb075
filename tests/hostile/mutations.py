"""A valid session, and random mutations of it."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import frames_by_hand as wire


def _table(**fields: bytes) -> bytes:
    return wire.long(b"".join(wire.short(name) + value for name, value in fields.items()))


def _full_properties() -> bytes:
    """Every property of basic but expiration and user_id, behind their flags."""
    headers = _table(
        text=b"S" + wire.long(b"text"),
        table=b"F" + _table(inner=b"I\0\0\0\1"),
        array=b"A" + wire.long(b"t\1d" + bytes(8)),
        decimal=b"D\2" + bytes(4),
    )
    text = wire.short("x")
    return b"".join(
        (
            struct.pack(">H", 0xFFFC & ~0x0100 & ~0x0010),
            wire.short("text/plain") + text + headers + b"\1\0",
            text * 3 + bytes(8) + text * 3,
        )
    )


def _with_properties(channel: int, flags: int, values: bytes) -> bytes:
    """A publish to the channel's own queue, with these properties and a body of one octet."""
    header = struct.pack(">HHQH", 60, 0, 1, flags) + values
    return (
        wire.publish_method(channel, "", f"queue{channel}")
        + wire.frame(2, channel, header)
        + wire.frame(3, channel, b"x")
    )


def _transaction(channel: int) -> bytes:
    """Copies, gets, acks and requests for direct replies, committed and rolled back."""
    queue = f"queue{channel}"
    keys = b"A" + wire.long(b"S" + wire.long(queue.encode()) + b"S" + wire.long(b"elsewhere"))
    copies = _with_properties(channel, 0x2000, _table(CC=keys, BCC=keys, x=b"t\1"))
    request = _with_properties(channel, 0x0200, wire.short("amq.rabbitmq.reply-to"))
    commit = wire.method(channel, (90, 20))
    work = copies * 2 + commit + wire.get(channel, queue) + request + wire.ack(channel, 1)
    return b"".join(
        (
            wire.method(channel, wire.CHANNEL_OPEN, b"\0"),
            wire.method(
                channel,
                wire.QUEUE_DECLARE,
                b"\0\0" + wire.short(queue) + b"\x04" + wire.long(b""),
            ),
            wire.method(channel, (90, 10)),
            wire.consume(channel, "amq.rabbitmq.reply-to", "replies", no_ack=True),
            work + commit,
            wire.publish(channel, "", "amq.rabbitmq.reply-to.guessed", b"x", wire.TRANSIENT),
            wire.nack(channel, 0, multiple=True) + wire.method(channel, (90, 30)),
            copies + wire.method(channel, wire.CANCEL, wire.short("replies") + b"\0"),
            commit,
        )
    )


def _session() -> bytes:
    """A client's session that uses a bit of everything; its queue goes with its connection."""
    capabilities = _table(capabilities=b"F" + _table(consumer_cancel_notify=b"t\1"))
    exclusive = b"\0\0" + wire.short("queue") + b"\x04" + wire.long(b"")
    unbind = b"\0\0" + wire.short("queue") + wire.short("amq.direct") + wire.short("key")
    plain = wire.publish(1, "", "queue", b"body" * 20, wire.TRANSIENT)
    full = (
        wire.publish_method(2, "amq.direct", "key", mandatory=True)
        + wire.frame(2, 2, struct.pack(">HHQ", 60, 0, 10) + _full_properties())
        + wire.frame(3, 2, b"hello")
        + wire.frame(3, 2, b"")
        + wire.frame(3, 2, b"world")
    )
    frames = (
        wire.PROTOCOL_HEADER,
        wire.start_ok(properties=capabilities[4:]),
        wire.tune_ok(),
        wire.method(0, wire.OPEN, wire.short("/") + b"\0\0"),
        wire.method(1, wire.CHANNEL_OPEN, b"\0"),
        wire.method(2, wire.CHANNEL_OPEN, b"\0"),
        wire.method(1, wire.CONFIRM_SELECT, b"\0"),
        wire.method(1, wire.QUEUE_DECLARE, exclusive),
        wire.queue_bind(1, "queue", "amq.direct", "key"),
        wire.publish(1, "amq.direct", "key", b"routed" * 30, wire.TRANSIENT),
        plain * 3,
        wire.publish(1, "", "nowhere", b"returned", wire.TRANSIENT, mandatory=True),
        full,
        wire.frame(8, 0, b""),
        _transaction(3),
        wire.qos(1, 3),
        wire.consume(1, "queue", "tag"),
        wire.method(1, (60, 110), b"\1"),
        wire.get(1, "queue"),
        plain,
        wire.method(1, wire.CANCEL, wire.short("tag") + b"\0"),
        wire.ack(1, 1) + wire.ack(1, 2),
        wire.nack(1, 3, requeue=True),
        wire.method(1, (50, 50), unbind + wire.long(b"")),
        wire.queue_purge(1, "queue"),
        wire.method(2, wire.CHANNEL_CLOSE, wire.close_arguments()),
        wire.qos(1, 7),
    )
    return b"".join(frames)


SESSION = _session()

Mutation = Callable[[bytearray, random.Random, int], None]


def _flip(data: bytearray, chance: random.Random, at: int) -> None:
    data[at] ^= 1 << chance.randrange(8)


def _replace(data: bytearray, chance: random.Random, at: int) -> None:
    data[at] = chance.randrange(256)


def _extreme(data: bytearray, chance: random.Random, at: int) -> None:
    """A size or a number at its least or most."""
    size = chance.choice((1, 2, 4, 8))
    data[at : at + size] = chance.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * size


def _remove(data: bytearray, chance: random.Random, at: int) -> None:
    del data[at : at + chance.randint(1, 30)]


def _insert(data: bytearray, chance: random.Random, at: int) -> None:
    data[at:at] = chance.randbytes(chance.randint(1, 30))


def _repeat(data: bytearray, chance: random.Random, at: int) -> None:
    data[at:at] = data[at : at + chance.randint(1, 200)]


def _move(data: bytearray, chance: random.Random, at: int) -> None:
    piece = data[at : at + chance.randint(1, 100)]
    del data[at : at + len(piece)]
    to = chance.randrange(len(data) + 1)
    data[to:to] = piece


def _cut(data: bytearray, chance: random.Random, at: int) -> None:
    del data[at:]


MUTATIONS: tuple[Mutation, ...] = (
    *(_flip, _flip, _flip, _replace, _replace, _extreme, _extreme),
    *(_remove, _insert, _repeat, _move, _cut),
)


def mutated(chance: random.Random, count: int, number: int = 0) -> bytes:
    """The session with so many mutations at random places.

    Sessions of different numbers, up to 9999, have exclusive queues of different names, and bind
    them by different keys: a queue that a mutation lets stay gets little of what others publish.
    """
    session = SESSION.replace(b"queue", b"q%04d" % number).replace(
        b"key", b"%03d" % (number % 1000)
    )
    data = bytearray(session)
    for _ in range(count):
        if data:
            chance.choice(MUTATIONS)(data, chance, chance.randrange(len(data)))
    return bytes(data)
