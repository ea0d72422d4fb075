"""Streams of octets for the scanner of NSQ, and what it makes of them, to compare."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain
from types import ModuleType
from typing import NamedTuple

from forms import columns, compiled, form
from leveret.amqp_frames.messages.batch import Batch
from leveret.nsq_frames.commands import Event, Fault, Finishes, Scanner
from leveret.nsq_frames.deliveries import encode_messages
from leveret.nsq_frames.publishes import BODY_FRAME_BYTES_MAX, PublishLimits, PublishRun


class Stream(NamedTuple):
    """Octets of one connection as they are read, and its limits."""

    reads: list[bytes]
    limits: PublishLimits


# --- What a scanner makes of them


def described(event: Event) -> object:
    """All of an event, to compare."""
    if isinstance(event, PublishRun):
        others = [
            each if each is None else (each.typecode, list(each))
            for each in (event.counts, event.delays_ms)
        ]
        return event.command, columns(event.batch), others
    if isinstance(event, Fault):
        return event.command, event.error and (event.error.text, event.error.is_fatal)
    return event


def events_of(stream: Stream, codec: ModuleType | None) -> list[list[Event]]:
    """What a scanner in this form finds, read by read."""
    with form(codec):
        scanner = Scanner(stream.limits)
        return [scanner.feed(read) for read in stream.reads]


def outcome(stream: Stream, codec: ModuleType | None) -> list[object]:
    """All that a scanner in this form makes of the stream, read by read."""
    return _described(events_of(stream, codec))


def _described(found: list[list[Event]]) -> list[object]:
    return [[described(event) for event in events] for events in found]


def commands_of(found: list[list[Event]]) -> list[object]:
    """Command by command, so that it does not depend on where the reads end."""
    commands: list[object] = []
    for event in chain.from_iterable(found):
        if isinstance(event, PublishRun):
            commands += _publishes(event)
        elif isinstance(event, Finishes):
            for first, last in event.ranges:
                commands += range(first, last + 1)
        else:
            commands.append(described(event))
    return commands


def _publishes(run: PublishRun) -> Iterator[object]:
    batch = run.batch
    index = 0
    for count in run.counts or [1] * len(batch):
        for each in range(index, index + count):
            wire = batch.wire[batch.starts[each] : batch.ends[each]]
            yield run.command, count, wire, run.delays_ms and run.delays_ms[each]
        index += count


def batches_of(found: list[list[Event]]) -> list[Batch]:
    """The batches among these events."""
    return [each.batch for each in chain.from_iterable(found) if isinstance(each, PublishRun)]


def ends_in_fault(found: list[list[Event]]) -> bool:
    """Is a command among them that breaks the protocol?"""
    return any(isinstance(each, Fault) for each in chain.from_iterable(found))


def sent(batch: Batch, rng: random.Random) -> bytes:
    """Some of the messages, as they go to a consumer."""
    count = len(batch)
    low = rng.randrange(count)
    indexes = [range(low, count), range(low, count, 3), [low], batch.keys[:0]][rng.randrange(4)]
    first, attempts = rng.choice([0, 9, 1 << 60]), rng.choice([1, 300, 65_535, 70_000])
    when = rng.choice([0, 1_700_000_000_000_000_000])
    headers, ends = batch.headers, batch.ends
    return encode_messages(batch.wire, headers, ends, indexes, first, attempts, when)


def compared(stream: Stream, seed: int) -> list[list[Event]]:
    """Holds both forms to the same results, and returns the Python form's."""
    found = events_of(stream, None)
    assert outcome(stream, compiled) == _described(found), stream
    for batch in batches_of(found):
        wires = []
        for each in (None, compiled):
            with form(each):
                wires.append(sent(batch, random.Random(seed)))
        assert wires[0] == wires[1], stream
    return found


# --- Streams at random

_TOPICS = [b"t", b"orders", b"a.b-c_D9", b"x" * 64, b"new#ephemeral", b"x" * 54 + b"#ephemeral"]
_BAD_TOPICS = [
    b"",
    b"x" * 65,
    b"#ephemeral",
    b"a!",
    b"\xff",
    b"a#",
    b"@",
    b"[",
    b"`",
    b"a#ephemeralx",
]
_DIGITS = [b"0", b"5", b"", b"1500", b"3600000", b"000000000000000007"]
_BAD_DIGITS = [b"-1", b"3600001", b"x", b"+5", b"1_0", b"9" * 20, b"0000000000000000007"]
_IDS = [0, 1, 9, 10, 255, (1 << 64) - 2, (1 << 64) - 1]
_OTHERS = [b"NOP\n", b"RDY 5\n", b"CLS\n", b"FIN\n", b"REQ 0 0\n", b"TOUCH x\n", b"PUBx t\n", b"\n"]
LIMITS = (
    PublishLimits(1_048_576, 5_242_880, 3_600_000),
    PublishLimits(30, 64, 1000),
    PublishLimits(5, 3, 0),
)


def _sized(octets: bytes, error: int = 0) -> bytes:
    return ((len(octets) + error) & 0xFFFFFFFF).to_bytes(4, "big") + octets


def _line(rng: random.Random, *words: bytes) -> bytes:
    if rng.random() < 0.05:
        words = (*words, rng.choice([b"", b"more"]))
    return b" ".join(words) + rng.choice([b"\n"] * 12 + [b"\r\n", b"\r\r\n"])


def _body(rng: random.Random) -> bytes:
    if rng.random() < 0.003:
        return b"z" * (BODY_FRAME_BYTES_MAX * rng.randrange(1, 3) + rng.randrange(-1, 2))
    return rng.choice([b"body", b"\nPUB t\n", rng.randbytes(rng.randrange(1, 40))])


def _publish(rng: random.Random) -> bytes:
    is_odd = rng.random() < 0.01
    topic = rng.choice(_BAD_TOPICS) if is_odd else rng.choice(_TOPICS)
    error = rng.choice([1, -1, -100, 1 << 31]) if rng.random() < 0.01 else 0
    kind = rng.randrange(3)
    if kind == 0:
        return _line(rng, b"PUB", topic) + _sized(_body(rng), error)
    if kind == 1:
        digits = rng.choice(_BAD_DIGITS) if rng.random() < 0.02 else rng.choice(_DIGITS)
        return _line(rng, b"DPUB", topic, digits) + _sized(_body(rng), error)
    bodies = [_sized(_body(rng)) for _ in range(rng.randrange(1, 6))]
    count = len(bodies) + (rng.choice([1, -1, 1 << 31]) if rng.random() < 0.01 else 0)
    content = (count & 0xFFFFFFFF).to_bytes(4, "big") + b"".join(bodies)
    return _line(rng, b"MPUB", topic) + _sized(content, error)


def _finishes(rng: random.Random) -> bytes:
    first = rng.choice(_IDS)
    ids = [first + each for each in range(rng.randrange(1, 5))]
    if rng.random() < 0.3:
        rng.shuffle(ids)
    wire = b"".join(b"FIN %016x\n" % (each % (1 << 64)) for each in ids)
    return wire.upper() if rng.random() < 0.05 else wire


def random_wire(rng: random.Random) -> bytes:
    """Commands, and with some luck an unsound one among them."""
    pieces = []
    for _ in range(rng.randrange(1, 9)):
        way = rng.random()
        if way < 0.55:
            same = random.Random(rng.random())
            pieces += [_publish(same) for _ in range(rng.randrange(1, 5))]
        elif way < 0.9:
            pieces.append(_finishes(rng))
        else:
            pieces.append(rng.choice(_OTHERS))
    wire = b"".join(pieces)
    if rng.random() < 0.3:
        changed = bytearray(wire)
        at = rng.randrange(len(changed))
        changed[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        wire = bytes(changed)
    return wire


def random_stream(rng: random.Random) -> Stream:
    """Such octets in reads of any size."""
    wire = random_wire(rng)
    reads = []
    while wire:
        size = rng.choice([len(wire), rng.randrange(1, 300), rng.randrange(1, 20)])
        reads.append(wire[:size])
        wire = wire[size:]
    return Stream(reads, rng.choice((*LIMITS[:1] * 4, *LIMITS[1:])))
