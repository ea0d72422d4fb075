"""Runs many seeds of the whole node, and says how many in a second; or one, with its history.

    python tests/simulation --seeds 20000 [--first 1] [--processes 2]
    python tests/simulation --seed 4711

`make simulate` calls it. The first seed that fails is printed with the shortest history that
was found for it, and the run ends with 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "storage"), str(HERE.parent / "live")]

from checker import ViolationError  # noqa: E402 - found only now
from node_simulation import shortest, simulate  # noqa: E402

# A long run says how far it is.
SHOWN_EVERY = 1_000
# What goes wrong on purpose, as the checker counts it.
FAULTS = (
    "kills",
    "power cuts",
    "stops",
    "failed writes and syncs",
    "full disks",
    "flipped bits",
    "flipped bits of indexes",
)


class Outcome(NamedTuple):
    """Of a seed: None if it keeps to all promises; how often what was drawn, and what happened."""

    violation: ViolationError | None
    drawn: Counter[str]
    seen: Counter[str]


def outcome(seed: int) -> Outcome:
    """Run it."""
    try:
        simulation = simulate(seed)
    except ViolationError as violation:
        return Outcome(violation, Counter(), Counter())
    return Outcome(None, simulation.drawn, simulation.checker.seen)


def counts(what: str, counted: Counter[str]) -> str:
    """A line of all counts and their sum."""
    each = ", ".join(f"{count:,} {name}" for name, count in counted.most_common())
    return f"{what}: {counted.total():,}: {each}"


def report(seed: int, violation: ViolationError) -> str:
    """The shortest history that breaks the same promise."""
    kept, found = shortest(seed, violation)
    text = "".join(traceback.format_exception(found))
    return f"{text}\n{len(kept)} operations are left; replay: make simulate SEED={seed}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulation")
    parser.add_argument("--seeds", type=int, default=0, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one, with its history")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    if asked.seed is not None:
        found = outcome(asked.seed).violation
        print(report(asked.seed, found) if found else "\n".join(simulate(asked.seed).history))
        print(f"seed {asked.seed}: {'a violation' if found else 'no violation'}")
        return 1 if found else 0
    if asked.seeds < 1:
        parser.error("at least 1 of --seeds is needed, or --seed")
    begun = time.perf_counter()
    failed = 0
    drawn: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    seeds = range(asked.first, asked.first + asked.seeds)
    with Pool(asked.processes) as pool:
        outcomes = pool.imap(outcome, seeds, chunksize=5)
        for seed, (found, operations, events) in zip(seeds, outcomes, strict=True):
            drawn += operations
            seen += events
            if found is not None:
                failed += 1
                if failed == 1:
                    print(report(seed, found), flush=True)
                else:
                    print(f"seed {seed}: {found}", flush=True)
            done = seed + 1 - asked.first
            if done % SHOWN_EVERY == 0:
                passed = time.perf_counter() - begun
                print(f"{done} seeds, {failed} with a violation, {passed:.0f} s", file=sys.stderr)
    seconds = time.perf_counter() - begun
    print(
        f"{asked.seeds} seeds from {asked.first} on: {failed} with a violation; {seconds:.1f} s, "
        f"{asked.seeds / seconds:.1f} seeds a second with {asked.processes} processes, "
        f"{asked.seeds / seconds / asked.processes:.1f} for each"
    )
    faults = Counter({each: seen.pop(each, 0) for each in FAULTS})
    print(counts("operations", drawn))
    print(counts("crashes and faults", faults))
    print(counts("what happened", seen))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
