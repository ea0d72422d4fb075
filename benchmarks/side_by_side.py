"""Leveret beside RabbitMQ: the same load, in strict alternation, as a table of ratios.

    python -m benchmarks.side_by_side --rounds 5 --seconds 2 --scenario durable transient

Both brokers run on this machine for the whole time; in every round each scenario is run on the one
and then, once that is idle again, on the other. A machine that is shared or slow moves both, so
read the ratios. Ends with exit code 1 if a required ratio is missed.

With --tls the load goes over TLS, to brokers that have the same certificate; nothing is required
then, and of the scenarios a few are run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil

from .brokers import BROKERS, Broker, BrokerError, running, wait_until_idle
from .client import Client
from .generator import Figures
from .report import HEADER, medians, requirements, row, table
from .scenarios import SCENARIOS, Scenario
from .tls import TlsSocket, context_of

# What is run over TLS unless asked for otherwise.
OVER_TLS = ("durable", "transient", "consume", "large", "window-1")

ROOT = Path(__file__).resolve().parent.parent
Runs = dict[str, list[Figures]]


def generated(broker: Broker, scenario: Scenario, seconds: float, warmup: float) -> Figures:
    """Run the generator once against a broker; add the broker's own use of CPU cores."""
    process = broker.process()
    before, begun = process.cpu_times(), time.monotonic()
    command = [sys.executable, "-m", "benchmarks.generator"]
    if broker.tls is None:
        command += ["--port", str(broker.port)]
    else:
        authority = str(broker.tls.authority)
        command += ["--port", str(broker.tls_port), "--tls-authority", authority]
    command += ["--scenario", scenario.name]
    command += ["--seconds", str(seconds), "--warmup-seconds", str(warmup)]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise BrokerError(f"{scenario.name} on {broker.name}: {finished.stderr.strip()[-2000:]}")
    after, elapsed = process.cpu_times(), time.monotonic() - begun
    used = after.user + after.system - before.user - before.system
    figures: Figures = json.loads(finished.stdout)
    return {**figures, "broker_cpu_cores": used / elapsed}


def fdatasync_ms(directory: Path, times: int = 200) -> float:
    """Give the median time of appending 4 KB and fdatasync on the disk that is written to."""
    samples = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(times):
            file.write(b"x" * 4096)
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            samples.append(time.perf_counter() - begun)
    return statistics.median(samples) * 1e3


def synced_mb_per_second(directory: Path, seconds: float = 1.0) -> float:
    """Give what the disk takes, appended and synced a megabyte at a time: the ceiling of 8 KB."""
    megabyte = os.urandom(1 << 20)
    written = 0
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        begun = time.perf_counter()
        while (elapsed := time.perf_counter() - begun) < seconds:
            file.write(megabyte)
            os.fdatasync(file.fileno())
            written += len(megabyte)
    return written / elapsed / 1e6


def machine(directory: Path) -> str:
    """Say in one line what the figures were measured on."""
    memory_gb = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} cores, {memory_gb:.0f} GB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, "
        f"median fdatasync {fdatasync_ms(directory):.2f} ms, "
        f"synced appends {synced_mb_per_second(directory):,.0f} MB/s"
    )


def compared(
    brokers: list[Broker], scenarios: list[Scenario], arguments: argparse.Namespace
) -> dict[str, Runs]:
    """Run all rounds; give the figures of every run by scenario and broker."""
    results: dict[str, Runs] = {s.name: {b.name: [] for b in brokers} for s in scenarios}
    for number in range(arguments.rounds):
        for scenario in scenarios:
            for broker in brokers:
                figures = generated(broker, scenario, arguments.seconds, arguments.warmup_seconds)
                results[scenario.name][broker.name].append(figures)
                print(
                    f"round {number + 1}: {scenario.name} on {broker.name}: "
                    f"{figures['rate']:,.0f}/s, p50 {figures['p50_ms']:.2f} ms, "
                    f"p99 {figures['p99_ms']:.2f} ms",
                    file=sys.stderr,
                    flush=True,
                )
                wait_until_idle(broker)
    return results


def report(scenarios: list[Scenario], results: dict[str, Runs]) -> bool:
    """Print the table; say whether every promise that was measured is kept."""
    rows = []
    missed = []
    for scenario in scenarios:
        by_broker = {name: medians(runs) for name, runs in results[scenario.name].items() if runs}
        ours, theirs = by_broker.get("leveret"), by_broker.get("rabbitmq")
        rows.append(row(scenario, ours, theirs))
        if ours and theirs:
            checks = requirements(scenario, ours, theirs)
            missed += [f"{scenario.name}: {check}" for check in checks if not check.met]
    print(table(HEADER, rows))
    for line in missed:
        print(line)
    return not missed


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.side_by_side",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="measured time of one run")
    parser.add_argument("--warmup-seconds", type=float, default=0.5)
    parser.add_argument("--scenario", nargs="+", choices=names, metavar="NAME")
    parser.add_argument("--tls", action="store_true", help="over TLS")
    parser.add_argument("--brokers", nargs="+", choices=BROKERS, default=list(BROKERS))
    parser.add_argument("--leveret-command", help="instead of `python -m leveret serve`")
    parser.add_argument("--scratch", type=Path, default=ROOT / "build", help="where data goes")
    parser.add_argument("--json", type=Path, help="write every run's figures to this file")
    return parser.parse_args()


def chosen(arguments: argparse.Namespace) -> list[Scenario]:
    """Give the scenarios to be run."""
    names = arguments.scenario or (OVER_TLS if arguments.tls else [each.name for each in SCENARIOS])
    scenarios = [scenario for scenario in SCENARIOS if scenario.name in names]
    if not arguments.tls:
        return scenarios
    return [
        replace(
            each,
            title=f"{each.title}, over TLS",
            rate_ratio_min=None,
            p50_ratio_max=None,
            p99_ratio_max=None,
        )
        for each in scenarios
    ]


def cipher(broker: Broker) -> str:
    """Name what the broker and the load agree on."""
    assert broker.tls is not None
    client = Client(broker.tls_port, context=context_of(broker.tls.authority))
    assert isinstance(client.socket, TlsSocket)
    agreed = client.socket.cipher
    client.close()
    return agreed


def main() -> int:
    """Start the brokers, run all, print; 1 when a promise is missed, 2 when it cannot run."""
    arguments = parsed()
    scenarios = chosen(arguments)
    try:
        with running(
            arguments.brokers, arguments.scratch, arguments.leveret_command, arguments.tls
        ) as brokers:
            print(machine(arguments.scratch))
            if arguments.tls:
                print("; ".join(f"{broker.name} over {cipher(broker)}" for broker in brokers))
            results = compared(brokers, scenarios, arguments)
    except BrokerError as failure:
        print(failure, file=sys.stderr)
        return 2
    kept = report(scenarios, results)
    if arguments.json:
        arguments.json.write_text(json.dumps(_without_nan(results), indent=1) + "\n")
    return 0 if kept else 1


def _without_nan(results: dict[str, Runs]) -> dict[str, dict[str, list[dict[str, float | None]]]]:
    return {
        scenario: {
            broker: [{k: None if math.isnan(v) else v for k, v in run.items()} for run in runs]
            for broker, runs in by_broker.items()
        }
        for scenario, by_broker in results.items()
    }


if __name__ == "__main__":
    sys.exit(main())
