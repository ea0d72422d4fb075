"""Measures the broker's memory beside consumers that stall, and what other connections notice.

    python -m benchmarks.stalled_consumer
    python -m benchmarks.stalled_consumer --seconds 20

One connection publishes persistent messages that differ to a durable queue, at full speed, while

- `unacked`: the queue's consumer reads what it gets and acks nothing, without a prefetch;
- `unread`: the queue's consumer never reads its socket.

A third connection publishes to a queue of its own, one message at a time, and its latency is
measured, before the load begins and beside it. Ends with exit code 1 if the broker's resident
memory rises above that of the empty broker by more than the bound.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import wire
from benchmarks.backlog import MB, Filler, MemorySamples, connected, received, settled_bytes
from benchmarks.brokers import running
from benchmarks.client import Client
from benchmarks.measuring import Figures, one_at_a_time
from benchmarks.messages import pool
from benchmarks.poll import plain_socket
from benchmarks.report import table
from benchmarks.side_by_side import ROOT

# What a million messages in flight may take, and the queues' budget is part of.
BYTES_MAX = 150 * MB
QUEUE, OTHER = "stalled", "other"
BLOCK = 50
CHUNK = 400 * BLOCK
# A disk that is nearly full would stop the publisher, and others' work with it.
FREE_BYTES_MIN = 8_000 * MB
STALLS = ("unacked", "unread")


class Beside(NamedTuple):
    """One turn: how many were published in how long, the memory, the other's latencies."""

    messages: int
    seconds: float
    above_bytes: int
    alone: Figures
    beside: Figures


def publishing(client: Client, end: float, directory: Path) -> int:
    """Publish until then; gives how many were confirmed."""
    messages = pool([QUEUE])
    blocks = [b"".join(messages[at : at + BLOCK]) for at in range(0, len(messages), BLOCK)]
    filler = Filler(client, blocks, BLOCK)
    while time.monotonic() < end and shutil.disk_usage(directory).free > FREE_BYTES_MIN:
        filler.fill(CHUNK)
    return filler.confirmed


def reading(client: Client, ended: threading.Event) -> None:
    """Read all that the consumer gets, and ack nothing."""
    plain_socket(client).settimeout(1.0)
    while not ended.is_set():
        try:
            received(client)
        except TimeoutError:
            continue


def measured(stall: str, seconds: float, directory: Path, command: str | None = None) -> Beside:
    """One turn on a new broker."""
    with running(["leveret"], directory, command) as [broker]:
        publisher, other = connected(broker, QUEUE), connected(broker, OTHER)
        consumer = connected(broker, QUEUE)
        block = wire.publish(1, "", OTHER, wire.body_of(200))
        alone = one_at_a_time(other, block, min(seconds, 3.0), 0.5)
        other.abandon()
        empty_bytes = settled_bytes(broker)
        consumer.consume(1, QUEUE, 0)
        ended = threading.Event()
        helpers = []
        if stall == "unacked":
            helpers.append(threading.Thread(target=reading, args=(consumer, ended)))
        samples = MemorySamples(broker.process())
        helpers.append(samples)
        beside: Figures = {}

        def measure() -> None:
            client = connected(broker, OTHER)
            beside.update(one_at_a_time(client, block, max(seconds - 1.5, 0.5), 0.5))
            client.abandon()

        helpers.append(threading.Thread(target=measure))
        for helper in helpers:
            helper.start()
        begun = time.monotonic()
        count = publishing(publisher, begun + seconds, directory)
        took = time.monotonic() - begun
        ended.set()
        most = samples.stop()
        for helper in helpers:
            helper.join()
        for each in (publisher, consumer):
            each.abandon()
        return Beside(count, took, most - empty_bytes, alone, beside)


def line(stall: str, turn: Beside) -> list[str]:
    """A row of the table."""
    return [
        stall,
        f"{turn.seconds:.0f}",
        f"{turn.messages:,}",
        f"{turn.messages / turn.seconds:,.0f}",
        f"{turn.above_bytes / MB:.0f}",
        f"<= {BYTES_MAX // MB} {'pass' if turn.above_bytes <= BYTES_MAX else 'FAIL'}",
        " / ".join(f"{each.get('p99_ms', math.nan):.2f}" for each in (turn.alone, turn.beside)),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if the memory is above its bound."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.stalled_consumer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", choices=STALLS, default=STALLS)
    parser.add_argument("--seconds", type=float, default=300.0, help="for each")
    parser.add_argument("--command", help="starts the broker; default: this checkout's")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "bench")
    asked = parser.parse_args(arguments)
    lines, is_above = [], False
    for stall in asked.only:
        turn = measured(stall, asked.seconds, asked.directory, asked.command)
        is_above = is_above or turn.above_bytes > BYTES_MAX
        lines.append(line(stall, turn))
    heads = ["consumer", "s", "published", "/s", "MB above empty", "bound MB"]
    print(table([*heads, "other's p99 ms, alone / beside"], lines))
    return 1 if is_above else 0


if __name__ == "__main__":
    sys.exit(main())
