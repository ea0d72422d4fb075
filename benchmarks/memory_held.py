"""Measures how much memory the broker takes for a backlog, above an empty one.

    python -m benchmarks.memory_held
    python -m benchmarks.memory_held --only bulk single --scale 0.1
    python -m benchmarks.memory_held --command '../before/.venv/bin/python -m leveret serve'

For each row a broker of its own, with default settings, is filled with persistent messages with
bodies of 200 bytes, as many as the row says; then its resident memory is looked at when it has come
to rest, and so is the peak since it was empty:

- `bulk`: one connection, 50 messages a write, one queue;
- `single`: 200 connections to one queue, one unconfirmed each, so that a read is one message;
- `keys`: as `bulk`, over ten queues, whose routing keys take turns;
- `ten-million`: as `bulk`;
- `deferred`: as `bulk`, through a delayed exchange, for an hour;
- `in-flight`: as `bulk`, then delivered to a consumer without a prefetch that acks nothing;
- `transient-in-flight`: the same of transient messages;
- `priorities`: as `bulk`, in a queue of ten priorities, with priorities in turn;
- `queues`: 10,000 queues, one message each, published 50 a write and delivered to a consumer each.

Ends with exit code 1 if a row, at full scale, is above its bound.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import wire
from benchmarks.backlog import MB, Filler, connected, drain, peak_bytes, reset_peak, settled_bytes
from benchmarks.brokers import Broker, allow_many_connections, running
from benchmarks.client import Client
from benchmarks.confirms import ACK_FRAME_BYTES
from benchmarks.report import table
from benchmarks.side_by_side import ROOT

BODY = wire.body_of(200)
BLOCK = 50
QUEUE = "backlog"
CONNECTIONS = 200
KEYS = 10
PRIORITIES = 10
DELAY_MS = 3_600_000
EXCHANGE = "later"
HEADERS, PRIORITY = 0x2000, 0x0800


class Row(NamedTuple):
    """A backlog: how it is made, of how many messages, and how much memory it may take."""

    name: str
    fill: Callable[[Broker, int], list[Client]]
    messages: int
    bytes_max: int


def publish(
    routing_key: str,
    flags: int = 0,
    properties: bytes = b"",
    exchange: str = "",
    delivery_mode: int = wire.PERSISTENT,
) -> bytes:
    """Encode a publish, with HEADERS or a PRIORITY if `flags` say so."""
    names = b"\0\0" + wire.shortstr(exchange) + wire.shortstr(routing_key) + b"\0"
    mode = bytes([delivery_mode])
    # Properties stand in the order of their flags.
    ordered = mode + properties if flags == PRIORITY else properties + mode
    header = struct.pack(">HHQH", 60, 0, len(BODY), 0x1000 | flags) + ordered
    return wire.method(1, 60, 40, names) + wire.frame(2, 1, header) + wire.frame(3, 1, BODY)


def integer_table(name: str, value: int) -> bytes:
    """Encode a table of one 32-bit integer."""
    entry = wire.shortstr(name) + b"I" + struct.pack(">i", value)
    return struct.pack(">I", len(entry)) + entry


def fill_bulk(broker: Broker, count: int, delivery_mode: int = wire.PERSISTENT) -> list[Client]:
    """One connection, blocks of 50."""
    client = connected(broker)
    client.declare_queue(1, QUEUE)
    message = publish(QUEUE, delivery_mode=delivery_mode)
    Filler(client, [message * BLOCK], BLOCK).fill(count)
    return [client]


def fill_single(broker: Broker, count: int) -> list[Client]:
    """Connections that publish one message each and wait for its confirm."""
    clients = [connected(broker) for _ in range(min(CONNECTIONS, count))]
    clients[0].declare_queue(1, QUEUE)
    message = publish(QUEUE)
    for _ in range(count // len(clients)):
        for client in clients:
            client.socket.sendall(message)
        for client in clients:
            answer = b""
            while len(answer) < ACK_FRAME_BYTES:
                answer += client.socket.recv(ACK_FRAME_BYTES - len(answer))
    return clients


def fill_keys(broker: Broker, count: int) -> list[Client]:
    """Ten queues whose keys take turns."""
    client = connected(broker)
    names = [f"{QUEUE}-{number}" for number in range(KEYS)]
    for name in names:
        client.declare_queue(1, name)
    block = b"".join(publish(names[number % KEYS]) for number in range(BLOCK))
    Filler(client, [block], BLOCK).fill(count)
    return [client]


def fill_deferred(broker: Broker, count: int) -> list[Client]:
    """Through an exchange that delays them for an hour."""
    client = connected(broker)
    client.declare_queue(1, QUEUE)
    kind = wire.shortstr("x-delayed-type") + b"S" + struct.pack(">I", 6) + b"direct"
    declared = b"\0\0" + wire.shortstr(EXCHANGE) + wire.shortstr("x-delayed-message") + b"\x02"
    client.request(wire.method(1, 40, 10, declared + struct.pack(">I", len(kind)) + kind), (40, 11))
    client.request(wire.queue_bind(1, QUEUE, EXCHANGE, QUEUE), (50, 21))
    message = publish(QUEUE, HEADERS, integer_table("x-delay", DELAY_MS), EXCHANGE)
    Filler(client, [message * BLOCK], BLOCK).fill(count)
    return [client]


def fill_in_flight(
    broker: Broker, count: int, delivery_mode: int = wire.PERSISTENT
) -> list[Client]:
    """Delivered to a consumer that acks nothing."""
    clients = fill_bulk(broker, count, delivery_mode)
    consumer = connected(broker)
    consumer.consume(1, QUEUE, 0)
    drain(consumer, count)
    return [*clients, consumer]


def fill_transient_in_flight(broker: Broker, count: int) -> list[Client]:
    """The same of transient messages."""
    return fill_in_flight(broker, count, wire.TRANSIENT)


def fill_priorities(broker: Broker, count: int) -> list[Client]:
    """Ten priorities in turn."""
    client = connected(broker)
    arguments = integer_table("x-max-priority", PRIORITIES)
    names = b"\0\0" + wire.shortstr(QUEUE) + b"\x02"
    client.request(wire.method(1, 50, 10, names + arguments), (50, 11))
    block = b"".join(
        publish(QUEUE, PRIORITY, bytes([number % PRIORITIES])) for number in range(BLOCK)
    )
    Filler(client, [block], BLOCK).fill(count)
    return [client]


def fill_queues(broker: Broker, count: int) -> list[Client]:
    """As many queues as messages, each with a consumer that acks nothing."""
    client, consumer = connected(broker), connected(broker)
    names = [f"{QUEUE}-{number}" for number in range(count)]
    for name in names:
        client.declare_queue(1, name)
    blocks = [
        b"".join(publish(name) for name in names[at : at + BLOCK]) for at in range(0, count, BLOCK)
    ]
    Filler(client, blocks, BLOCK).fill(count)
    # Without waiting for each answer: the deliveries of those before come in between.
    tags = b"".join(wire.basic_consume(1, name, name) for name in names)
    consumer.socket.sendall(tags)
    drain(consumer, count)
    return [client, consumer]


ROWS = [
    Row("bulk", fill_bulk, 1_000_000, 120 * MB),
    Row("single", fill_single, 1_000_000, 120 * MB),
    Row("keys", fill_keys, 1_000_000, 120 * MB),
    Row("deferred", fill_deferred, 1_000_000, 150 * MB),
    Row("in-flight", fill_in_flight, 1_000_000, 150 * MB),
    Row("transient-in-flight", fill_transient_in_flight, 1_000_000, 150 * MB),
    Row("priorities", fill_priorities, 1_000_000, 150 * MB),
    Row("queues", fill_queues, 10_000, 200 * MB),
    Row("ten-million", fill_bulk, 10_000_000, 200 * MB),
]


class Held(NamedTuple):
    """Resident bytes of the broker: empty, at rest with the backlog, and the most in between."""

    empty_bytes: int
    held_bytes: int
    peak_bytes: int

    @property
    def above_bytes(self) -> int:
        """What the backlog takes."""
        return self.held_bytes - self.empty_bytes


def measured(row: Row, count: int, directory: Path, command: str | None) -> Held:
    """Fill a new broker with so many messages."""
    with running(["leveret"], directory, command) as [broker]:
        # What the first connection and the first confirm need is no part of the backlog.
        client = connected(broker)
        client.declare_queue(1, "first")
        Filler(client, [publish("first")], 1).fill(1)
        client.delete_queue(1, "first")
        empty_bytes = settled_bytes(broker)
        reset_peak(broker.process())
        clients = row.fill(broker, count)
        held_bytes = settled_bytes(broker)
        held = Held(empty_bytes, held_bytes, peak_bytes(broker.process()))
        for each in [client, *clients]:
            each.abandon()
        return held


def line(row: Row, count: int, held: Held) -> list[str]:
    """A row of the table."""
    verdict = ""
    if count >= row.messages:
        verdict = "pass" if held.above_bytes <= row.bytes_max else "FAIL"
    return [
        row.name,
        f"{count:,}",
        f"{held.empty_bytes / MB:.0f}",
        f"{held.above_bytes / MB:.0f}",
        f"{(held.peak_bytes - held.empty_bytes) / MB:.0f}",
        f"{held.above_bytes / count:.0f}",
        f"<= {row.bytes_max // MB} {verdict}",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if a row is above its bound."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memory_held",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [row.name for row in ROWS]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--scale", type=float, default=1.0, help="of each row's messages")
    parser.add_argument("--command", help="starts the broker; default: this checkout's")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "bench")
    asked = parser.parse_args(arguments)
    allow_many_connections()
    lines, failed = [], False
    for row in ROWS:
        if row.name not in asked.only:
            continue
        count = max(BLOCK, int(row.messages * asked.scale) // BLOCK * BLOCK)
        held = measured(row, count, asked.directory, asked.command)
        lines.append(line(row, count, held))
        print(*lines[-1], flush=True)
        failed = failed or (asked.scale >= 1 and held.above_bytes > row.bytes_max)
    heads = ["backlog", "messages", "empty MB", "above MB", "peak MB", "bytes each", "bound MB"]
    print(table(heads, lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
