"""Measures how a million expiring messages delay another client that publishes meanwhile.

    python -m benchmarks.expiry_cost --rounds 3

A million durable messages with mixed times to live, half of them their queue's (x-message-ttl) and
half their own (`expiration`), wait in fourteen queues. When the first is due, the load begins: one
connection that publishes durable messages, is confirmed and consumes them, for as long as the
million takes to expire. Beside each such turn stands one without the million, on the same broker;
which comes first changes from round to round. Of the ratios the medians are shown, and how late
the messages expired. Last, a million expires with no load beside it: what of a core that takes is
the least that it can slow others down by, whatever else the machine does. Ends with exit code 1 if
confirms were slowed by more than the bound.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import shutil
import statistics
import struct
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import wire
from benchmarks.brokers import BrokerError, Leveret, wait_until_idle
from benchmarks.client import Client
from benchmarks.load import Load, LoadedConnection, Publisher
from benchmarks.measuring import Figures
from benchmarks.report import table
from benchmarks.scenarios import SCENARIOS, Scenario, scenario_named
from benchmarks.side_by_side import ROOT, generated, machine
from benchmarks.watched_expiry import LATENESS_FILE

# By which share confirms may become fewer, or later.
SLOWER_MAX = 0.10
QUEUE_PREFIX = "expiring"
TTL_STEPS = 7
BLOCK = 5_000
WINDOW = 50_000
BODY = b"x"


def expiring_publish(routing_key: str, ttl_ms: int | None) -> bytes:
    """Encode a persistent publish, with an `expiration` or without."""
    names = b"\x00\x00" + wire.shortstr("") + wire.shortstr(routing_key) + b"\x00"
    flags, own = (0x1000, b"") if ttl_ms is None else (0x1100, wire.shortstr(str(ttl_ms)))
    header = struct.pack(">HHQHB", 60, 0, len(BODY), flags, wire.PERSISTENT) + own
    return wire.method(1, 60, 40, names) + wire.frame(2, 1, header) + wire.frame(3, 1, BODY)


def declare_expiring(client: Client, queue: str, ttl_ms: int | None) -> None:
    """Declare a durable queue, with `x-message-ttl` or without."""
    arguments = b""
    if ttl_ms is not None:
        arguments = wire.shortstr("x-message-ttl") + b"I" + struct.pack(">i", ttl_ms)
    table_octets = struct.pack(">I", len(arguments)) + arguments
    names = b"\x00\x00" + wire.shortstr(queue) + b"\x02"
    client.request(wire.method(1, 50, 10, names + table_octets), (50, 11))


def expiring_queues() -> list[str]:
    """Give the names: seven whose own time counts, seven whose messages' does."""
    return [f"{QUEUE_PREFIX}-{owner}-{i}" for owner in ("queue", "own") for i in range(TTL_STEPS)]


class Million:
    """Messages that wait to expire, from `first_due` on (time.monotonic), for `span_seconds`."""

    def __init__(self, port: int, count: int, load_seconds: float, seed: int) -> None:
        """Publish them. `load_seconds` is how long that may take: nothing is due before."""
        chosen = random.Random(seed)
        # The last queue's messages are due one load later than the first's.
        self.ttls_ms = [round(1000 * load_seconds * (1 + i / TTL_STEPS)) for i in range(TTL_STEPS)]
        client = Client(port)
        client.open_channel(1, confirm=True)
        for queue in expiring_queues():
            client.delete_queue(1, queue)
            own = "own" in queue
            declare_expiring(client, queue, None if own else self._ttl_of(queue))
        kinds = [
            expiring_publish(queue, self._ttl_of(queue) if "own" in queue else None)
            for queue in expiring_queues()
        ]
        block = b"".join(chosen.choices(kinds, k=BLOCK))
        publisher = Publisher([block], BLOCK, [1], WINDOW)
        load = Load([LoadedConnection(client.socket, publisher, None)])
        begun = time.monotonic()
        while publisher.sent < count - WINDOW:
            load.run(0.02)
        load.drain()
        while publisher.sent < count:
            publisher.window = BLOCK
            load.run(0)
            load.drain()
        self.count = publisher.confirmed
        self.loading_seconds = time.monotonic() - begun
        self.first_due = begun + self.ttls_ms[0] / 1000
        self.span_seconds = self.loading_seconds + (self.ttls_ms[-1] - self.ttls_ms[0]) / 1000
        client.abandon()
        if time.monotonic() > self.first_due:
            raise BrokerError(
                f"publishing them took {self.loading_seconds:.1f} s: give --load-seconds more"
            )

    def _ttl_of(self, queue: str) -> int:
        return self.ttls_ms[int(queue.rsplit("-", 1)[1])]


def turn(broker: Leveret, scenario: Scenario, million: Million | None, seconds: float) -> Figures:
    """Run the load once: while the million expires, or for as long without it."""
    warmup_seconds = 0.5
    if million is not None:
        time.sleep(max(0.0, million.first_due - time.monotonic() - warmup_seconds))
        seconds = million.span_seconds
    figures = generated(broker, scenario, seconds, warmup_seconds)
    wait_until_idle(broker)
    return figures


def paired(
    broker: Leveret, scenario: Scenario, arguments: argparse.Namespace, number: int
) -> tuple[Figures, Figures]:
    """Give a turn without the million and one with it, in this or the other order."""
    seconds = arguments.load_seconds * 1.5
    quiet = None
    if number % 2 == 0:
        quiet = turn(broker, scenario, None, seconds)
    seed = random.SystemRandom().randrange(2**32)
    million = Million(broker.port, arguments.count, arguments.load_seconds, seed)
    expiring = turn(broker, scenario, million, seconds)
    if quiet is None:
        quiet = turn(broker, scenario, None, million.span_seconds)
    print(
        f"round {number + 1}: seed {seed}, {million.count:,} published in "
        f"{million.loading_seconds:.1f} s, expiring for {million.span_seconds:.1f} s: "
        f"{expiring['confirmed_rate']:,.0f}/s beside {quiet['confirmed_rate']:,.0f}/s, "
        f"p99 {expiring['p99_ms']:.2f} beside {quiet['p99_ms']:.2f} ms",
        file=sys.stderr,
        flush=True,
    )
    return quiet, expiring


def share_of_a_core(broker: Leveret, arguments: argparse.Namespace) -> float:
    """Let a million expire with nothing else to do; give what of a core the broker needs for it."""
    million = Million(broker.port, arguments.count, arguments.load_seconds, seed=0)
    wait_until_idle(broker)
    time.sleep(max(0.0, million.first_due - time.monotonic()))
    process = broker.process()
    before = process.cpu_times()
    time.sleep(million.span_seconds)
    after = process.cpu_times()
    used = after.user + after.system - before.user - before.system
    return used / million.span_seconds


def report(pairs: list[tuple[Figures, Figures]]) -> bool:
    """Print the table; say whether confirms were slowed by no more than the bound."""
    rows, kept = [], True
    for figure, title, bound in (
        ("confirmed_rate", "confirms a second", 1 - SLOWER_MAX),
        ("p50_ms", "p50 ms", None),
        ("p99_ms", "p99 ms", 1 + SLOWER_MAX),
    ):
        ratios = [expiring[figure] / quiet[figure] for quiet, expiring in pairs]
        ratio = statistics.median(ratios)
        required = ""
        if bound is not None:
            is_kept = ratio >= bound if bound < 1 else ratio <= bound
            kept = kept and is_kept
            required = f"{'>=' if bound < 1 else '<='} {bound:g} {'pass' if is_kept else 'FAIL'}"
        medians = [statistics.median(pair[side][figure] for pair in pairs) for side in (0, 1)]
        cells = [f"{each:,.2f}" for each in (*medians, ratio)]
        rows.append([title, *cells, f"{min(ratios):.2f} - {max(ratios):.2f}", required])
    header = ("a publisher's", "without", "while a million expires", "ratio", "range", "required")
    print(table(header, rows))
    return kept


def lateness(path: Path) -> str:
    """Say how late the messages went, from what the broker noted."""
    noted = [(int(late), int(count)) for late, count in json.loads(path.read_text())]
    total = sum(count for _, count in noted)
    if not total:
        return "no message expired"

    def percentile(share: float) -> int:
        left = share * total
        for late, count in noted:
            left -= count
            if left <= 0:
                return late
        return noted[-1][0]

    p50, p99 = percentile(0.50), percentile(0.99)
    early = "" if noted[0][0] >= 0 else f", {-noted[0][0]} ms EARLY"
    return (
        f"{total:,} messages expired: late by p50 {p50}, p99 {p99}, "
        f"at most {noted[-1][0]} ms{early}"
    )


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.expiry_cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=1_000_000, help="messages that expire")
    parser.add_argument("--load-seconds", type=float, default=20.0, help="until the first is due")
    parser.add_argument("--scenario", choices=names, default="consume", metavar="NAME")
    parser.add_argument("--scratch", type=Path, default=ROOT / "build", help="where data goes")
    return parser.parse_args()


def main() -> int:
    """Start the broker, run all, print; 1 when confirms were slowed, 2 when it cannot run."""
    arguments = parsed()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="expiry-", dir=arguments.scratch)).resolve()
    noted = scratch / "lateness.json"
    setting = f"{LATENESS_FILE}={shlex.quote(str(noted))}"
    command = f"env {setting} {shlex.quote(sys.executable)} -m benchmarks.watched_expiry serve"
    broker = Leveret(scratch, command)
    try:
        # The broker finds the module there.
        os.chdir(ROOT)
        broker.start()
        print(machine(arguments.scratch))
        scenario = scenario_named(arguments.scenario)
        pairs = [paired(broker, scenario, arguments, each) for each in range(arguments.rounds)]
        share = share_of_a_core(broker, arguments)
        broker.stop()
        print(lateness(noted))
        print(f"with no load beside it a million takes {100 * share:.1f} % of a core")
    except BrokerError as failure:
        print(failure, file=sys.stderr)
        return 2
    finally:
        broker.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    return 0 if report(pairs) else 1


if __name__ == "__main__":
    sys.exit(main())
