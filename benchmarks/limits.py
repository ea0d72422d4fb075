"""Measures declaring, idle connections, restarting and opening channels.

    python -m benchmarks.limits --rounds 3 --seconds 2

The same brokers as in side_by_side, again in alternation. Ends with exit code 1 if Leveret misses
one of its bounds.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.brokers import (
    BROKERS,
    Broker,
    BrokerError,
    Leveret,
    RabbitMQ,
    running,
    wait_until_idle,
)
from benchmarks.client import Client
from benchmarks.report import table
from benchmarks.side_by_side import ROOT, machine

DECLARE_RATIO_MIN = 5.0
IDLE_CONNECTIONS = 1000
IDLE_MEMORY_MB_MAX = 60.0
QUEUES = 10_000
RELOAD_SECONDS_MAX = 5.0
CHANNELS_PER_SECOND_MIN = 1000.0

Results = dict[str, dict[str, float]]


def declares_per_second(broker: Broker, seconds: float) -> float:
    """Declare durable queues one after the other on one channel; delete them outside the clock."""
    client = Client(broker.port)
    client.open_channel(1)
    declared = 0
    begun = time.perf_counter()
    while time.perf_counter() < begun + seconds:
        client.declare_queue(1, f"limit-{declared}")
        declared += 1
    elapsed = time.perf_counter() - begun
    for number in range(declared):
        client.delete_queue(1, f"limit-{number}")
    client.close()
    return declared / elapsed


def idle_memory_mb(broker: Broker) -> float:
    """Give what idle connections with a channel each add to the broker's resident memory."""
    wait_until_idle(broker)
    process = broker.process()
    before = process.memory_info().rss
    clients = []
    for _ in range(IDLE_CONNECTIONS):
        client = Client(broker.port)
        client.open_channel(1)
        clients.append(client)
    wait_until_idle(broker)
    added: float = (process.memory_info().rss - before) / 2**20
    for client in clients:
        client.close()
    return added


def reload_seconds(broker: Broker) -> float:
    """Declare 10,000 durable queues, stop, and time the start until it serves them again."""
    client = Client(broker.port)
    client.open_channel(1)
    for number in range(QUEUES):
        client.declare_queue(1, f"reloaded-{number}")
    client.close()
    broker.stop()
    begun = time.perf_counter()
    broker.start()
    client = Client(broker.port)
    client.open_channel(1)
    client.find_queue(1, f"reloaded-{QUEUES - 1}")
    elapsed = time.perf_counter() - begun
    for number in range(QUEUES):
        client.find_queue(1, f"reloaded-{number}")
    client.close()
    return elapsed


def channels_per_second(broker: Broker, seconds: float) -> float:
    """Open and close a channel again and again on one connection."""
    client = Client(broker.port)
    opened = 0
    begun = time.perf_counter()
    while time.perf_counter() < begun + seconds:
        client.open_channel(1)
        client.close_channel(1)
        opened += 1
    elapsed = time.perf_counter() - begun
    client.close()
    return opened / elapsed


def alternating(
    brokers: list[Broker], rounds: int, figure: Callable[[Broker], float]
) -> dict[str, float]:
    """Measure a figure on each broker in turn; give the medians."""
    samples: dict[str, list[float]] = {broker.name: [] for broker in brokers}
    for _ in range(rounds):
        for broker in brokers:
            samples[broker.name].append(figure(broker))
            wait_until_idle(broker)
    return {name: statistics.median(values) for name, values in samples.items()}


def measured(brokers: list[Broker], rounds: int, seconds: float) -> Results:
    """Measure all figures; the last two are taken with 10,000 queues there."""
    results: Results = {}
    results["idle_memory_mb"] = alternating(brokers, 1, idle_memory_mb)
    results["declares_per_second"] = alternating(
        brokers, rounds, lambda broker: declares_per_second(broker, seconds)
    )
    results["reload_seconds"] = alternating(brokers, 1, reload_seconds)
    results["channels_per_second"] = alternating(
        brokers, rounds, lambda broker: channels_per_second(broker, seconds)
    )
    return results


def report(results: Results) -> bool:
    """Print the table; say whether every bound is kept."""
    declares = results["declares_per_second"]
    ours = {figure: values.get(Leveret.name, float("nan")) for figure, values in results.items()}
    theirs = {figure: values.get(RabbitMQ.name, float("nan")) for figure, values in results.items()}
    ratio = ours["declares_per_second"] / theirs["declares_per_second"]
    checks = [
        (
            "durable queues declared per second, one client",
            "declares_per_second",
            f"{DECLARE_RATIO_MIN:g} times RabbitMQ's (is {ratio:.1f})",
            ratio >= DECLARE_RATIO_MIN,
        ),
        (
            f"MB for {IDLE_CONNECTIONS:,} idle connections with a channel each",
            "idle_memory_mb",
            f"<= {IDLE_MEMORY_MB_MAX:g}",
            ours["idle_memory_mb"] <= IDLE_MEMORY_MB_MAX,
        ),
        (
            f"seconds to start with {QUEUES:,} durable queues",
            "reload_seconds",
            f"< {RELOAD_SECONDS_MAX:g}",
            ours["reload_seconds"] < RELOAD_SECONDS_MAX,
        ),
        (
            f"channels opened and closed per second, {QUEUES:,} queues there",
            "channels_per_second",
            f">= {CHANNELS_PER_SECOND_MIN:,.0f}",
            ours["channels_per_second"] >= CHANNELS_PER_SECOND_MIN,
        ),
    ]
    compared = Leveret.name in declares
    rows = [
        [
            title,
            f"{theirs[figure]:,.1f}",
            f"{ours[figure]:,.1f}",
            f"{bound} {'pass' if met else 'FAIL'}" if compared else bound,
        ]
        for title, figure, bound, met in checks
    ]
    print(table(("limit", "RabbitMQ", "Leveret", "required"), rows))
    return not compared or all(met for _, _, _, met in checks)


def raise_descriptor_limit(needed: int = 8192) -> None:
    """Allow this process, and the brokers it starts, a thousand connections each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), hard))


def main() -> int:
    """Start the brokers, measure, print; 1 when a bound is missed, 2 when it cannot run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.limits",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--brokers", nargs="+", choices=BROKERS, default=list(BROKERS))
    parser.add_argument("--leveret-command", help="instead of `python -m leveret serve`")
    parser.add_argument("--scratch", type=Path, default=ROOT / "build", help="where data goes")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    raise_descriptor_limit()
    try:
        with running(arguments.brokers, arguments.scratch, arguments.leveret_command) as brokers:
            print(machine(arguments.scratch))
            results = measured(brokers, arguments.rounds, arguments.seconds)
    except BrokerError as failure:
        print(failure, file=sys.stderr)
        return 2
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0 if report(results) else 1


if __name__ == "__main__":
    sys.exit(main())
