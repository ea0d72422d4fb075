"""Two commits of Leveret beside each other: the same rows, in strict alternation.

    python -m benchmarks.compare ../before . --rows different durable --rounds 5

Each directory is a checkout with a .venv of its own (`make .venv/installed` there). In every round
each row is run on a new broker of the one and then on a new broker of the other; which of them is
first changes from round to round, and no other broker runs meanwhile. The load comes from this
checkout for both. A ratio is B's figure over A's of the same round, and the median of the rounds is
shown, with the smallest and the largest: a machine that is busy for a while moves both sides of a
pair. Ends with exit code 1 if the rate of a row is less than --at-least times that of A.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.brokers import BrokerError, Leveret, allow_many_connections
from benchmarks.measuring import Figures, without_nan
from benchmarks.report import table
from benchmarks.scenarios import DIFFERENT, IDENTICAL, SCENARIOS, Scenario
from benchmarks.side_by_side import ROOT, generated, machine

GROUPS = {"different": DIFFERENT, "identical": IDENTICAL, "all": SCENARIOS}
HEADER = (
    "row",
    "A /s",
    "B /s",
    "B/A",
    "range",
    "CPU us/message A / B",
    "B/A",
    "p50 ms A / B",
    "p99 ms A / B",
    "generator CPU A / B",
)


class Pair(NamedTuple):
    """One row on both in one round."""

    a: Figures
    b: Figures

    def ratio(self, figure: str) -> float:
        """Give B's figure over A's; NaN if it was not measured."""
        return self.b[figure] / self.a[figure] if self.a[figure] else math.nan


@contextmanager
def served(checkout: Path, scratch: Path) -> Iterator[Leveret]:
    """Serve with a new broker of a checkout, whose data goes when it ends."""
    command = checkout / ".venv" / "bin" / "leveret"
    if not command.exists():
        raise BrokerError(f"{command} is missing: make -C {checkout} .venv/installed")
    directory = Path(tempfile.mkdtemp(prefix="compare-", dir=scratch))
    broker = Leveret(directory, f"{shlex.quote(str(command))} serve")
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(directory, ignore_errors=True)


def paired(
    checkouts: tuple[Path, Path], row: Scenario, number: int, how: argparse.Namespace
) -> Pair:
    """Run one row on both, each on a broker of its own; A is first in the even rounds."""
    figures: dict[Path, Figures] = {}
    order = checkouts if number % 2 == 0 else checkouts[::-1]
    for checkout in order:
        with served(checkout, how.scratch) as broker:
            figures[checkout] = generated(broker, row, how.seconds, how.warmup_seconds)
    return Pair(*(figures[checkout] for checkout in checkouts))


def compared(
    checkouts: tuple[Path, Path], rows: Sequence[Scenario], how: argparse.Namespace
) -> dict[str, list[Pair]]:
    """Run all rounds; give the pairs of every row."""
    results: dict[str, list[Pair]] = {row.name: [] for row in rows}
    for number in range(how.rounds):
        for row in rows:
            pair = paired(checkouts, row, number, how)
            results[row.name].append(pair)
            print(
                f"round {number + 1}: {row.name}: A {pair.a['rate']:,.0f}/s, "
                f"B {pair.b['rate']:,.0f}/s, ratio {pair.ratio('rate'):.2f}",
                file=sys.stderr,
                flush=True,
            )
    return results


def line(name: str, pairs: Sequence[Pair]) -> list[str]:
    """Give one line of the table."""

    def median(figure: str, form: str) -> list[str]:
        sides = ([pair.a[figure] for pair in pairs], [pair.b[figure] for pair in pairs])
        return [format(statistics.median(side), form) for side in sides]

    ratios = [pair.ratio("rate") for pair in pairs]
    return [
        name,
        *median("rate", ",.0f"),
        f"{statistics.median(ratios):.2f}",
        f"{min(ratios):.2f} - {max(ratios):.2f}",
        " / ".join(median("broker_cpu_us", ".1f")),
        f"{statistics.median(pair.ratio('broker_cpu_us') for pair in pairs):.2f}",
        " / ".join(median("p50_ms", ".2f")),
        " / ".join(median("p99_ms", ".2f")),
        " / ".join(median("generator_cpu_share", ".0%")),
    ]


def slower(results: dict[str, list[Pair]], at_least: float) -> list[str]:
    """Name the rows whose median ratio is below `at_least`."""
    return [
        name
        for name, pairs in results.items()
        if statistics.median(pair.ratio("rate") for pair in pairs) < at_least
    ]


def rows_named(names: Sequence[str]) -> list[Scenario]:
    """Give the rows of these names and groups, in the order of the tables."""
    wanted = {row.name for name in names for row in GROUPS.get(name, ())} | set(names)
    return [row for row in SCENARIOS if row.name in wanted]


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [*GROUPS, *(row.name for row in SCENARIOS)]
    parser.add_argument("checkouts", nargs=2, type=Path, metavar="DIR", help="A, then B")
    parser.add_argument(
        "--rows",
        nargs="+",
        choices=names,
        default=["all"],
        metavar="ROW",
        help=f"rows or groups of them: {', '.join(names)}",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="measured time of one run")
    parser.add_argument("--warmup-seconds", type=float, default=0.5)
    parser.add_argument("--at-least", type=float, default=0.95, metavar="RATIO")
    parser.add_argument("--scratch", type=Path, default=ROOT / "build", help="where data goes")
    parser.add_argument("--json", type=Path, help="write every run's figures to this file")
    return parser.parse_args()


def main() -> int:
    """Run all, print; 1 when a row is too slow, 2 when a broker cannot run."""
    arguments = parsed()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    allow_many_connections()
    a, b = (checkout.resolve() for checkout in arguments.checkouts)
    try:
        print(f"A {a}\nB {b}\n{machine(arguments.scratch)}", flush=True)
        results = compared((a, b), rows_named(arguments.rows), arguments)
    except BrokerError as failure:
        print(failure, file=sys.stderr)
        return 2
    print(table(HEADER, [line(name, pairs) for name, pairs in results.items()]))
    if arguments.json:
        written = {
            name: [{"a": without_nan(pair.a), "b": without_nan(pair.b)} for pair in pairs]
            for name, pairs in results.items()
        }
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(written, indent=1) + "\n")
    too_slow = slower(results, arguments.at_least)
    for name in too_slow:
        print(f"{name}: less than {arguments.at_least:g} times as fast")
    return 1 if too_slow else 0


if __name__ == "__main__":
    sys.exit(main())
