"""Measures a dedup window: rates with and without it, memory per remembered message, the start.

    python -m benchmarks.dedup_cost --rounds 5

One connection publishes durable, confirmed messages of 200 bytes with a producer and an id of 32
hexadecimal digits, up to 2,000 unconfirmed. In each round the same number goes to a queue without
a window, to one with a window of a million, and to that one once more: duplicates all. A fourth
turn has no headers, and no window. Which comes first changes from round to round; each turn's queue
is purged behind it. Before the rounds the window is filled, so that every message pushes one out.
The medians are shown, and of the ratios the range.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks import wire
from benchmarks.brokers import BrokerError, Leveret, wait_until_idle
from benchmarks.client import Client
from benchmarks.confirms import ACK_FRAME_BYTES, Confirms
from benchmarks.report import table
from benchmarks.side_by_side import ROOT, machine

WINDOW = 1_000_000
UNCONFIRMED_MAX = 2_000
BODY = wire.body_of(200)
PIECE = 100
PLAIN, WINDOWED = "plain", "windowed"
BARE, FIRST, AGAIN = "no headers, no window", "window", "window, duplicates"
WITHOUT = "headers, no window"
KINDS = (WITHOUT, FIRST, AGAIN, BARE)

Pieces = list[bytes]


class Figures(NamedTuple):
    """Of one turn: messages a second, and what the broker's process spent on one."""

    rate: float
    cpu_us: float


def longstr(octets: bytes) -> bytes:
    """Encode a long string, or the fields of a table."""
    return struct.pack(">I", len(octets)) + octets


def identified(queue: str, identity: bytes) -> bytes:
    """Encode a persistent publish with a producer and this id; with none if it is empty."""
    flags, headers = 0x1000, b""
    if identity:
        flags = 0x3000
        producer = wire.shortstr("x-dedup-producer") + b"S" + longstr(b"benchmark")
        headers = longstr(producer + wire.shortstr("x-dedup-id") + b"S" + longstr(identity))
    properties = struct.pack(">H", flags) + headers + bytes([wire.PERSISTENT])
    header = struct.pack(">HHQ", 60, 0, len(BODY)) + properties
    names = b"\x00\x00" + wire.shortstr("") + wire.shortstr(queue) + b"\x00"
    return wire.method(1, 60, 40, names) + wire.frame(2, 1, header) + wire.frame(3, 1, BODY)


def pieces_of(queue: str, identities: list[bytes]) -> Pieces:
    """Encode them all before the clock runs, a hundred to a write."""
    return [
        b"".join(identified(queue, each) for each in identities[at : at + PIECE])
        for at in range(0, len(identities), PIECE)
    ]


def new_identities(count: int) -> list[bytes]:
    """Make ids that were never there."""
    return [os.urandom(16).hex().encode() for _ in range(count)]


class Publisher:
    """A connection in confirm mode. It gets acks and nothing else, frames of one size."""

    def __init__(self, port: int) -> None:
        self._client = Client(port)
        self._client.open_channel(1, confirm=True)
        self._confirms = Confirms(1)
        self._tail = b""

    def rate(self, pieces: Pieces) -> float:
        """Publish all; how many were confirmed a second, the last one included."""
        sent = self._confirms.count
        end = sent + PIECE * len(pieces)
        begun = time.perf_counter()
        for piece in pieces:
            self._client.socket.sendall(piece)
            sent += PIECE
            while sent - self._confirms.count > UNCONFIRMED_MAX:
                self._receive()
        while self._confirms.count < end:
            self._receive()
        return PIECE * len(pieces) / (time.perf_counter() - begun)

    def _receive(self) -> None:
        received = self._client.socket.recv(1 << 18)
        if not received:
            raise BrokerError("the broker closed the socket")
        data = self._tail + received
        whole = len(data) - len(data) % ACK_FRAME_BYTES
        self._tail = data[whole:]
        self._confirms.feed(data[:whole])


class Bench:
    """The broker, its two queues, and the connection that publishes."""

    def __init__(self, broker: Leveret) -> None:
        self.broker = broker
        self.commands = Client(broker.port)
        self.commands.open_channel(1)
        self.commands.declare_queue(1, PLAIN)
        window = wire.shortstr("x-dedup-window") + b"I" + struct.pack(">i", WINDOW)
        names = b"\x00\x00" + wire.shortstr(WINDOWED) + b"\x02"
        self.commands.request(wire.method(1, 50, 10, names + longstr(window)), (50, 11))
        self.publisher = Publisher(broker.port)

    def turn(self, queue: str, identities: list[bytes]) -> Figures:
        """Publish these, and purge the queue."""
        pieces = pieces_of(queue, identities)
        process = self.broker.process()
        before = sum(process.cpu_times()[:2])
        rate = self.publisher.rate(pieces)
        spent = sum(process.cpu_times()[:2]) - before
        found = Figures(rate, 1e6 * spent / len(identities))
        names = b"\x00\x00" + wire.shortstr(queue) + b"\x00"
        self.commands.request(wire.method(1, 50, 30, names), (50, 31))
        wait_until_idle(self.broker)
        return found

    def fill(self, count: int) -> float:
        """Fill the window, so many in a turn; its memory, in bytes a message."""
        before = self.broker.process().memory_info().rss
        for _ in range(WINDOW // count):
            self.turn(WINDOWED, new_identities(count))
        return (self.broker.process().memory_info().rss - before) / WINDOW

    def round(self, number: int, count: int) -> dict[str, Figures]:
        """One turn of each kind; duplicates come behind what they repeat."""
        identities = new_identities(count)
        turns = {
            WITHOUT: (PLAIN, identities),
            FIRST: (WINDOWED, identities),
            AGAIN: (WINDOWED, identities),
            BARE: (PLAIN, [b""] * count),
        }
        order = [WITHOUT, FIRST, AGAIN, BARE] if number % 2 else [BARE, FIRST, AGAIN, WITHOUT]
        return {kind: self.turn(*turns[kind]) for kind in order}


def restart_seconds(broker: Leveret) -> float:
    """Stop the broker, and time the start that takes the window back."""
    broker.stop()
    begun = time.perf_counter()
    broker.start()
    return time.perf_counter() - begun


def report(rounds: list[dict[str, Figures]]) -> str:
    """Make the table."""
    rows = []
    for kind in KINDS:
        ratios = [each[kind].rate / each[WITHOUT].rate for each in rounds]
        rate = statistics.median(each[kind].rate for each in rounds) / 1000
        spent = statistics.median(each[kind].cpu_us for each in rounds)
        ratio = statistics.median(ratios)
        span = f"{min(ratios):.2f} - {max(ratios):.2f}"
        rows.append([kind, f"{rate:,.1f}", f"{ratio:.2f}", span, f"{spent:.1f}"])
    header = ("messages", "thousands a second", "ratio", "range", "broker's CPU us a message")
    return table(header, rows)


def main() -> int:
    """Start the broker, run all, print; 2 when it cannot run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.dedup_cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=50_000, help="messages in a turn")
    parser.add_argument("--scratch", type=Path, default=ROOT / "build", help="where data goes")
    arguments = parser.parse_args()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="dedup-", dir=arguments.scratch)).resolve()
    broker = Leveret(scratch)
    try:
        broker.start()
        print(machine(arguments.scratch))
        bench = Bench(broker)
        # What the memory of messages and reads comes to, before the window's is looked at.
        bench.turn(PLAIN, new_identities(arguments.count))
        per_message = bench.fill(arguments.count)
        rounds = [bench.round(each, arguments.count) for each in range(arguments.rounds)]
        print(report(rounds))
        print(f"{WINDOW:,} remembered: {per_message:.0f} bytes of memory each")
        print(f"started again with them in {restart_seconds(broker):.1f} s")
    except BrokerError as failure:
        print(failure, file=sys.stderr)
        return 2
    finally:
        broker.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
