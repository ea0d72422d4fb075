"""Runs many seeds, and says how many in a second; or one, with its history.

    python tests/simulation --seeds 20000 [--first 1]
    python tests/simulation --seed 4711

`make simulate` calls it. A seed that fails is printed with its history, and ends the run with 1.
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

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "storage"), str(HERE.parent / "live")]

from simulation import run  # noqa: E402 - found only now


def outcome(seed: int) -> tuple[str, Counter[str]]:
    """Nothing if the seed keeps to all promises, else why not; and how often what happened."""
    try:
        return "", run(seed).seen
    except Exception:
        return traceback.format_exc(), Counter()


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulation")
    parser.add_argument("--seeds", type=int, default=0, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one, with its history")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    if asked.seed is not None:
        found, _ = outcome(asked.seed)
        print(found or "\n".join(run(asked.seed).history))
        print(f"seed {asked.seed}: {'a violation' if found else 'no violation'}")
        return 1 if found else 0
    if asked.seeds < 1:
        parser.error("at least 1 of --seeds is needed, or --seed")
    begun = time.perf_counter()
    failed = 0
    seen: Counter[str] = Counter()
    seeds = range(asked.first, asked.first + asked.seeds)
    with Pool(asked.processes) as pool:
        outcomes = pool.imap(outcome, seeds, chunksize=20)
        for seed, (found, events) in zip(seeds, outcomes, strict=True):
            seen += events
            if found:
                failed += 1
                if failed == 1:
                    print(f"{found}\nreplay: make simulate SEED={seed}")
    seconds = time.perf_counter() - begun
    print(
        f"{asked.seeds} seeds from {asked.first} on: {failed} with a violation; {seconds:.1f} s, "
        f"{asked.seeds / seconds:.0f} seeds a second with {asked.processes} processes"
    )
    print(", ".join(f"{count} {what}" for what, count in seen.most_common()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
