"""Leveret beside RabbitMQ: the same load, in strict alternation, as a table of ratios.

    python -m benchmarks.side_by_side --rounds 5 --seconds 2 --only real real-200x1
    python -m benchmarks.side_by_side --brokers leveret

Both brokers run on this machine for the whole time; in every round each scenario is run on the one
and then, once that is idle again, on the other. A machine that is shared or slow moves both, so
read the ratios. Ends with exit code 1 if a required ratio is missed.

--only runs some of the rows, --brokers leveret runs without RabbitMQ. Two commits are compared by
`python -m benchmarks.compare`.

With --tls the load goes over TLS, to brokers that have the same certificate; nothing is required
then, and of the scenarios a few are run.
"""

from __future__ import annotations

import argparse
import json
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

from benchmarks.brokers import (
    BROKERS,
    Broker,
    BrokerError,
    allow_many_connections,
    running,
    wait_until_idle,
)
from benchmarks.client import Client
from benchmarks.measuring import Figures, without_nan
from benchmarks.report import HEADER, medians, requirements, row, table
from benchmarks.scenarios import DIFFERENT, IDENTICAL, SCENARIOS, Scenario
from benchmarks.tls import TlsSocket, context_of

# The rows that run over TLS by default.
OVER_TLS = ("real", "durable", "transient", "consume", "large", "window-1")

ROOT = Path(__file__).resolve().parent.parent
Runs = dict[str, list[Figures]]


def generated(broker: Broker, scenario: Scenario, seconds: float, warmup: float) -> Figures:
    """Run the generator once against a broker, whose CPU time it measures, too."""
    command = [sys.executable, "-m", "benchmarks.generator"]
    if broker.tls is None:
        command += ["--port", str(broker.port)]
    else:
        authority = str(broker.tls.authority)
        command += ["--port", str(broker.tls_port), "--tls-authority", authority]
    command += ["--scenario", scenario.name, "--broker-pid", str(broker.process().pid)]
    command += ["--seconds", str(seconds), "--warmup-seconds", str(warmup)]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise BrokerError(f"{scenario.name} on {broker.name}: {finished.stderr.strip()[-2000:]}")
    figures: Figures = json.loads(finished.stdout)
    return figures


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
                    f"p99 {figures['p99_ms']:.2f} ms, "
                    f"{figures['broker_cpu_us']:.1f} us of CPU a message",
                    file=sys.stderr,
                    flush=True,
                )
                wait_until_idle(broker)
    return results


def report(scenarios: list[Scenario], results: dict[str, Runs]) -> bool:
    """Print the tables; say whether every promise that was measured is kept."""
    missed: list[str] = []
    groups = ((DIFFERENT, "Messages that differ, as real ones do"), (IDENTICAL, "Identical"))
    for group, heading in groups:
        names = {scenario.name for scenario in group}
        rows = []
        for scenario in scenarios:
            if scenario.name not in names:
                continue
            runs = results[scenario.name]
            by_broker = {name: medians(each) for name, each in runs.items() if each}
            ours, theirs = by_broker.get("leveret"), by_broker.get("rabbitmq")
            rows.append(row(scenario, ours, theirs))
            if ours and theirs:
                checks = requirements(scenario, ours, theirs)
                missed += [f"{scenario.name}: {check}" for check in checks if not check.met]
        if rows:
            print(f"\n{heading}:\n\n{table(HEADER, rows)}")
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
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="ROW", help=f"of {', '.join(names)}"
    )
    parser.add_argument("--tls", action="store_true", help="over TLS")
    parser.add_argument("--brokers", nargs="+", choices=BROKERS, default=list(BROKERS))
    parser.add_argument("--leveret-command", help="instead of `python -m leveret serve`")
    parser.add_argument("--scratch", type=Path, default=ROOT / "build", help="where data goes")
    parser.add_argument("--json", type=Path, help="write every run's figures to this file")
    return parser.parse_args()


def chosen(arguments: argparse.Namespace) -> list[Scenario]:
    """Give the scenarios to be run."""
    names = arguments.only or (OVER_TLS if arguments.tls else [each.name for each in SCENARIOS])
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
    allow_many_connections()
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
        written = {
            scenario: {broker: list(map(without_nan, runs)) for broker, runs in by_broker.items()}
            for scenario, by_broker in results.items()
        }
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(written, indent=1) + "\n")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
