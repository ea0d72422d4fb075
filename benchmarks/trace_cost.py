"""Measures durable confirmed publishing with the trace off, sampled, full, and stalled.

    python -m benchmarks.trace_cost --rounds 9
    python -m benchmarks.trace_cost --before ../leveret-f627d91 --rounds 9

Every turn with the trace is paired with one without it, beside it in time and on the same broker,
which is switched while it runs; which of the two comes first changes from round to round. Of the
rates' ratios the median is shown, and the smallest and the largest. A full trace whose disk takes
64 KiB and then stalls (benchmarks/stalled_trace.py) is paired with a trace that reaches the disk.
`--before` names a checkout of another commit, whose rate is compared with this one's with the trace
off. In both, each turn has a new broker. "CPU a message" is the ratio of what the broker computes
for one. Ends with exit code 1 if a ratio is missed.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from leveret.commands.control_client import ask_broker

from benchmarks.brokers import BrokerError, Leveret, wait_until_idle
from benchmarks.report import table
from benchmarks.scenarios import SCENARIOS, Scenario, scenario_named
from benchmarks.side_by_side import ROOT, generated, machine

STALLED_BUFFER_BYTES_MAX = 65_536
HEADER = (
    "trace",
    "beside",
    "pairs",
    "that /s",
    "this /s",
    "ratio",
    "range",
    "CPU a message",
    "dropped",
    "required",
)


@dataclass(frozen=True)
class Mode:
    """One row: the rate of its trace (0: off), beside what, and the ratio that it must keep."""

    title: str
    beside: str
    rate: float
    ratio_min: float


SAMPLED = Mode("1 % of the messages", "off", 0.01, 0.93)
FULL = Mode("every message", "off", 1.0, 0.4)
# A disk that stalls must cost no more than one that writes; what little it may be slower is noise.
STALLED = Mode("every message, disk stalled", "every message", 1.0, 0.97)
OFF = Mode("off", "the commit before", 0.0, 0.97)


@dataclass(frozen=True)
class Side:
    """One of a pair: how much it traces, and a broker that runs, or what serves for each turn."""

    trace_rate: float
    broker: Leveret | None = None
    command: str = ""


@dataclass(frozen=True)
class Turn:
    """The figures of one turn: messages a second, the broker's CPU a message, events dropped."""

    rate: float
    cpu_us: float
    dropped: int


@dataclass(frozen=True)
class Pair:
    """Two turns that followed each other, in either order."""

    that: Turn
    this: Turn

    @property
    def ratio(self) -> float:
        """Say how much of the rate is left."""
        return self.this.rate / self.that.rate

    @property
    def cpu_ratio(self) -> float:
        """Say how much more the broker computes for a message; a busy machine moves it less."""
        return self.this.cpu_us / self.that.cpu_us


def installed(checkout: Path, into: Path) -> str:
    """Install another commit's checkout into a folder; give the command that serves with it."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    # What it builds stays out of the checkout.
    copy = into.with_name(into.name + "-source")
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git", ".venv", "build"))
    finished = subprocess.run(
        [*pip, "--target", str(into), str(copy)], capture_output=True, text=True, check=False
    )
    if finished.returncode:
        raise BrokerError(f"{checkout} cannot be installed: {finished.stderr.strip()[-2000:]}")
    python = shlex.quote(sys.executable)
    return f"env PYTHONPATH={shlex.quote(str(into))} {python} -m leveret serve"


@contextmanager
def served(scratch: Path, command: str | None = None) -> Iterator[Leveret]:
    """Serve with a broker whose data is in a new directory below `scratch`."""
    broker = Leveret(Path(tempfile.mkdtemp(dir=scratch)), command)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@contextmanager
def brokers(scratch: Path, before: Path | None) -> Iterator[dict[Mode, tuple[Side, Side]]]:
    """Start the variant under test; give the two sides of every mode."""
    serve = f"{shlex.quote(sys.executable)} -m leveret serve"
    stalled = serve.replace("-m leveret", "-m benchmarks.stalled_trace")
    # A small buffer is full within the warm-up: from then on events are dropped.
    setting = f"LEVERET_TRACE_BUFFER_BYTES_MAX={STALLED_BUFFER_BYTES_MAX}"
    with served(scratch) as broker:
        off = Side(0, broker)
        sides = {
            SAMPLED: (off, Side(SAMPLED.rate, broker)),
            FULL: (off, Side(FULL.rate, broker)),
            # Of two brokers none is older than the other: each is new in each turn.
            STALLED: (Side(1, command=serve), Side(1, command=f"env {setting} {stalled}")),
        }
        if before is not None:
            command = installed(before, scratch / "installed")
            sides[OFF] = (Side(0, command=command), Side(0, command=serve))
        yield sides


def cpu_seconds(broker: Leveret) -> float:
    """Say what the broker has used since its start."""
    times = broker.process().cpu_times()
    return times.user + times.system


def dropped_by(broker: Leveret) -> int:
    """Say how many events the broker has dropped since its start."""
    dropped: int = ask_broker(broker.data_dir, "trace status", {})["dropped"]
    return dropped


def turn(side: Side, scenario: Scenario, arguments: argparse.Namespace) -> Turn:
    """Run the load once against one side, its trace on for that long."""
    if side.broker is None:
        with served(arguments.scratch, side.command) as broker:
            return turn(Side(side.trace_rate, broker), scenario, arguments)
    broker = side.broker
    dropped = 0
    if side.trace_rate:
        dropped = dropped_by(broker)
        ask_broker(broker.data_dir, "trace on", {"rate": side.trace_rate})
    cpu = cpu_seconds(broker)
    figures = generated(broker, scenario, arguments.seconds, arguments.warmup_seconds)
    if side.trace_rate:
        ask_broker(broker.data_dir, "trace off", {})
    # What the trace writes behind the load is its cost, too.
    wait_until_idle(broker)
    messages = figures["rate"] * (arguments.seconds + arguments.warmup_seconds)
    cpu_us = (cpu_seconds(broker) - cpu) / messages * 1e6
    dropped = dropped_by(broker) - dropped if side.trace_rate else 0
    return Turn(figures["rate"], cpu_us, dropped)


def paired(
    that: Side, this: Side, arguments: argparse.Namespace, scenario: Scenario, that_first: bool
) -> Pair:
    """Run two turns, one behind the other."""
    sides = (that, this) if that_first else (this, that)
    turns = {side: turn(side, scenario, arguments) for side in sides}
    return Pair(turns[that], turns[this])


def row(mode: Mode, pairs: Sequence[Pair]) -> list[str]:
    """Give one line of the table."""
    ratios = [pair.ratio for pair in pairs]
    return [
        mode.title,
        mode.beside,
        str(len(pairs)),
        f"{statistics.median(pair.that.rate for pair in pairs):,.0f}",
        f"{statistics.median(pair.this.rate for pair in pairs):,.0f}",
        f"{statistics.median(ratios):.2f}",
        f"{min(ratios):.2f} - {max(ratios):.2f}",
        f"{statistics.median(pair.cpu_ratio for pair in pairs):.2f}",
        f"{sum(pair.this.dropped for pair in pairs):,}",
        f">= {mode.ratio_min:g} {'pass' if is_kept(mode, pairs) else 'FAIL'}",
    ]


def is_kept(mode: Mode, pairs: Sequence[Pair]) -> bool:
    """Say whether the median ratio is what it must be."""
    return statistics.median(pair.ratio for pair in pairs) >= mode.ratio_min


def compared(
    sides: dict[Mode, tuple[Side, Side]], arguments: argparse.Namespace
) -> dict[Mode, list[Pair]]:
    """Run all rounds: in each, one pair of every mode."""
    scenario = scenario_named(arguments.scenario)
    results: dict[Mode, list[Pair]] = {mode: [] for mode in sides}
    for number in range(arguments.rounds):
        for mode, (that, this) in sides.items():
            pair = paired(that, this, arguments, scenario, that_first=number % 2 == 0)
            results[mode].append(pair)
            print(
                f"round {number + 1}: {mode.title}: {pair.this.rate:,.0f}/s beside "
                f"{pair.that.rate:,.0f}/s, ratio {pair.ratio:.2f}",
                file=sys.stderr,
                flush=True,
            )
    return results


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trace_cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="measured time of one turn")
    parser.add_argument("--warmup-seconds", type=float, default=0.5)
    parser.add_argument("--scenario", choices=names, default="durable", metavar="NAME")
    parser.add_argument("--before", type=Path, metavar="DIR", help="a checkout of another commit")
    parser.add_argument("--scratch", type=Path, default=ROOT / "build", help="where data goes")
    return parser.parse_args()


def main() -> int:
    """Start the brokers, run all, print; 1 when a ratio is missed, 2 when it cannot run."""
    arguments = parsed()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="trace-", dir=arguments.scratch)).resolve()
    arguments.scratch = scratch
    try:
        with brokers(scratch, arguments.before) as sides:
            print(machine(arguments.scratch))
            results = compared(sides, arguments)
    except BrokerError as failure:
        print(failure, file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(table(HEADER, [row(mode, pairs) for mode, pairs in results.items()]))
    return 0 if all(is_kept(mode, pairs) for mode, pairs in results.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
