"""Compares the broker's rates with a backlog many times its memory budget with those without.

    python -m benchmarks.backlog_rates
    python -m benchmarks.backlog_rates --budgets 2 --budget-bytes 8388608

One connection publishes persistent messages that differ to one queue, up to 2,000 unconfirmed,
until ten times the budget waits there. The rate at the end, over the last budget's worth, is
compared with that at the start, over the first. Then a consumer with acks drains the queue, and the
rate is compared with that of a backlog of half a budget, which is in memory: such a one is filled
and drained before and after. Beside them stands how fast the disk returns the journal's files, past
the system's cache, as messages a second. Ends with exit code 1 if a ratio is below its bound.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.backlog import MB, Filler, connected, drain, peak_bytes
from benchmarks.brokers import Broker, Leveret, running
from benchmarks.messages import pool
from benchmarks.report import table
from benchmarks.side_by_side import ROOT

PUBLISHING_MIN = 0.7
DRAINING_MIN = 0.5
LARGE, SMALL = "large", "small"
BLOCK = 50
PREFETCH = 2_000
ACK_EVERY = 500
READ_BYTES = 1 << 20
# The default of memory_budget_bytes on a machine with much memory.
BUDGET_BYTES = 64 * 1024 * 1024


class Rates(NamedTuple):
    """Messages a second."""

    at_start: float
    at_end: float
    drained: float
    drained_in_memory: float
    # How fast the disk alone reads so many messages.
    disk: float
    messages: int
    peak_bytes: int


def blocks_of(queue: str) -> tuple[list[bytes], float]:
    """Encode the blocks, and give the bytes of a message on the wire."""
    messages = pool([queue])
    wire_bytes = sum(map(len, messages)) / len(messages)
    return [
        b"".join(messages[at : at + BLOCK]) for at in range(0, len(messages), BLOCK)
    ], wire_bytes


def drained_rate(broker: Broker, queue: str, count: int) -> float:
    """Consume and ack so many; gives the rate."""
    consumer = connected(broker)
    consumer.consume(1, queue, PREFETCH)
    seconds = drain(consumer, count, ACK_EVERY)
    consumer.close()
    return count / seconds


def in_memory_rate(broker: Broker, count: int) -> float:
    """Fill and drain a queue that fits into the budget; gives the rate of draining."""
    client = connected(broker, SMALL)
    blocks, _ = blocks_of(SMALL)
    Filler(client, blocks, BLOCK).fill(count)
    rate = drained_rate(broker, SMALL, count)
    client.delete_queue(1, SMALL)
    client.close()
    return rate


def disk_bytes_per_second(directory: Path, bytes_max: int) -> float:
    """Read the largest files below the directory, past the system's cache, up to so many bytes."""
    files = sorted(
        (file for file in directory.rglob("*") if file.is_file()),
        key=lambda file: file.stat().st_size,
        reverse=True,
    )
    read_bytes, seconds = 0, 0.0
    for file in files:
        handle = os.open(file, os.O_RDONLY)
        try:
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            begun = time.perf_counter()
            while (count := len(os.read(handle, READ_BYTES))) and read_bytes < bytes_max:
                read_bytes += count
            seconds += time.perf_counter() - begun
        finally:
            os.close(handle)
        if read_bytes >= bytes_max:
            break
    return read_bytes / seconds if seconds else 0.0


def measured(
    directory: Path, budgets: float, budget_bytes: int, command: str | None = None
) -> Rates:
    """Run it all on a new broker."""
    with running(["leveret"], directory, command) as [broker]:
        assert isinstance(broker, Leveret)
        blocks, wire_bytes = blocks_of(LARGE)
        chunk = max(BLOCK, int(budget_bytes / wire_bytes) // BLOCK * BLOCK)
        small = max(BLOCK, chunk // 2 // BLOCK * BLOCK)
        before = in_memory_rate(broker, small)
        client = connected(broker, LARGE)
        filler = Filler(client, blocks, BLOCK)
        # The first messages of a broker are slower than all others.
        filler.fill(min(chunk, 20 * BLOCK))
        rates = []
        while filler.confirmed < budgets * chunk:
            rates.append(chunk / filler.fill(chunk))
        client.close()
        disk = disk_bytes_per_second(broker.data_dir, 4 * budget_bytes) / wire_bytes
        drained = drained_rate(broker, LARGE, filler.confirmed)
        after = in_memory_rate(broker, small)
        return Rates(
            rates[0],
            rates[-1],
            drained,
            (before + after) / 2,
            disk,
            filler.confirmed,
            peak_bytes(broker.process()),
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if a ratio is below its bound."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.backlog_rates",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--budgets", type=float, default=10.0, help="the backlog, in budgets")
    parser.add_argument("--budget-bytes", type=int, default=BUDGET_BYTES)
    parser.add_argument("--rounds", type=int, default=1)
    program = f"{shlex.quote(sys.executable)} -m leveret serve"
    parser.add_argument("--command", default=program, help="starts the broker")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "bench")
    asked = parser.parse_args(arguments)
    lines, is_slow = [], False
    for _ in range(asked.rounds):
        rates = measured(asked.directory, asked.budgets, asked.budget_bytes, asked.command)
        publishing = rates.at_end / rates.at_start
        draining = rates.drained / rates.drained_in_memory
        is_slow = is_slow or publishing < PUBLISHING_MIN or draining < DRAINING_MIN
        figures = (rates.at_start, rates.at_end, rates.drained, rates.drained_in_memory, rates.disk)
        lines.append(
            [
                f"{rates.messages:,}",
                *(f"{figure:,.0f}" for figure in figures),
                f"{publishing:.2f} (>= {PUBLISHING_MIN})",
                f"{draining:.2f} (>= {DRAINING_MIN})",
                f"{rates.peak_bytes / MB:.0f}",
            ]
        )
    heads = ["messages", "publish/s first", "last", "drain/s", "in memory", "disk alone"]
    print(table([*heads, "last/first", "drain/in memory", "peak MB"], lines))
    return 1 if is_slow else 0


if __name__ == "__main__":
    sys.exit(main())
