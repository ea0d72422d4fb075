"""Measures how late in-flight time-outs return on a live broker with many messages in flight.

    python -m benchmarks.in_flight_lateness --count 100000 --seconds 60

A durable queue has a hundred thousand messages and two hundred consumers on twenty channels,
without a prefetch. Each consumer has a time-out of its own, drawn between the bounds, and none
answers: what returns is delivered again at once, so that all messages stay in flight. The broker
notes for each of them how long after its deadline the queue had it back. Ends with exit code 1 if
one was early, or if the latest was later than the bound.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import shlex
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import wire
from benchmarks.brokers import BrokerError, Leveret
from benchmarks.client import Client
from benchmarks.load import Load, LoadedConnection, Publisher
from benchmarks.side_by_side import ROOT, machine
from benchmarks.watched_timeouts import LATENESS_FILE

QUEUE = "in flight"
LATE_MS_MAX = 100
CHANNELS = 20
CONSUMERS = 200
BLOCK = 500
RECEIVED_BYTES = 1 << 20
LOOK_SECONDS = 0.1


def consume(channel: int, tag: str, timeout_ms: int) -> bytes:
    """Encode basic.consume with an in-flight time-out."""
    names = b"\x00\x00" + wire.shortstr(QUEUE) + wire.shortstr(tag) + b"\x00"
    argument = wire.shortstr("x-in-flight-timeout") + b"I" + struct.pack(">i", timeout_ms)
    return wire.method(channel, 60, 20, names + struct.pack(">I", len(argument)) + argument)


def fill(port: int, count: int) -> None:
    """Publish so many durable messages, with confirms."""
    client = Client(port)
    client.open_channel(1, confirm=True)
    client.delete_queue(1, QUEUE)
    client.declare_queue(1, QUEUE)
    block = b"".join(wire.publish(1, "", QUEUE, b"x") for _ in range(BLOCK))
    publisher = Publisher([block], BLOCK, [1], 10 * BLOCK)
    load = Load([LoadedConnection(client.socket, publisher, None)])
    while publisher.sent < count - 10 * BLOCK:
        load.run(0.02)
    load.drain()
    while publisher.sent < count:
        publisher.window = BLOCK
        load.run(0)
        load.drain()
    client.abandon()


def hold(port: int, timeouts_ms: list[int], is_over: Callable[[], bool]) -> int:
    """Consume without an answer, and read all deliveries, until it is over; give their bytes."""
    client = Client(port)
    for channel in range(1, CHANNELS + 1):
        client.open_channel(channel)
    pieces = [
        consume(1 + number % CHANNELS, f"c{number}", timeout_ms)
        for number, timeout_ms in enumerate(timeouts_ms)
    ]
    client.socket.sendall(b"".join(pieces))
    received = 0
    while not is_over():
        if select.select([client.socket], [], [], LOOK_SECONDS)[0]:
            received += len(client.socket.recv(RECEIVED_BYTES))
    client.abandon()
    return received


def report(path: Path, count: int) -> bool:
    """Print what the broker noted; say whether it is within the bound."""
    noted = json.loads(path.read_text())
    late = [(int(each), int(messages)) for each, messages in noted["late"]]
    total = sum(messages for _, messages in late)
    if not total:
        print("no message timed out")
        return False
    found = []
    for share in (0.50, 0.99, 0.999):
        left = share * total
        for each, messages in late:
            left -= messages
            if left <= 0:
                found.append(each)
                break
    most = late[-1][0]
    is_kept = late[0][0] >= 0 and most <= LATE_MS_MAX and noted["in_flight_max"] >= count
    print(
        f"{total:,} time-outs with up to {noted['in_flight_max']:,} in flight: late by p50 "
        f"{found[0]}, p99 {found[1]}, p99.9 {found[2]}, at most {most} ms, at least "
        f"{late[0][0]} ms; required 0 to {LATE_MS_MAX}: {'pass' if is_kept else 'FAIL'}"
    )
    return is_kept


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.in_flight_lateness",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=100_000, help="messages in flight")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long they are held")
    parser.add_argument("--timeout-ms-min", type=int, default=5_000)
    parser.add_argument("--timeout-ms-max", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=1, help="of the time-outs")
    parser.add_argument("--scratch", type=Path, default=ROOT / "build", help="where data goes")
    return parser.parse_args()


def main() -> int:
    """Start the broker, run, print; 1 when it was too late, 2 when it cannot run."""
    arguments = parsed()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="in-flight-", dir=arguments.scratch)).resolve()
    noted = scratch / "lateness.json"
    setting = f"{LATENESS_FILE}={shlex.quote(str(noted))}"
    command = f"env {setting} {shlex.quote(sys.executable)} -m benchmarks.watched_timeouts serve"
    broker = Leveret(scratch, command)
    chosen = random.Random(arguments.seed)
    bounds = arguments.timeout_ms_min, arguments.timeout_ms_max
    timeouts_ms = [chosen.randint(*bounds) for _ in range(CONSUMERS)]
    try:
        # The broker finds the module there.
        os.chdir(ROOT)
        broker.start()
        print(machine(arguments.scratch))
        fill(broker.port, arguments.count)
        end = time.monotonic() + arguments.seconds
        hold(broker.port, timeouts_ms, lambda: time.monotonic() >= end)
        broker.stop()
        is_kept = report(noted, arguments.count)
    except BrokerError as failure:
        print(failure, file=sys.stderr)
        return 2
    finally:
        broker.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
