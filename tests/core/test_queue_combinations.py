"""Every combination of queue arguments against a naive queue (`combined_queue.py`).

A failure names its seed; `SEED=... pytest` with the name of the test replays it.
"""

from __future__ import annotations

import os
from itertools import combinations
from random import Random, SystemRandom

import pytest
from combined_queue import GROUPS, Arguments, History

SETS_MAX = 10_000


def seed_of_run() -> int:
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(2**32))
    print(f"SEED={seed}")
    return seed


def run(seed: str, choices: list[Arguments], steps: int) -> None:
    try:
        History(seed, choices).run(steps)
    except BaseException:
        print(f"history {seed!r} with {choices}")
        raise


@pytest.mark.parametrize(("one", "other"), list(combinations(GROUPS, 2)))
def test_any_two_arguments_together_are_kept_to(one: str, other: str) -> None:
    """Begun with both, and changed in mid-history to either, none, and both again."""
    seed = seed_of_run()
    for first in GROUPS[one]:
        for second in GROUPS[other]:
            both = first | second
            run(f"{seed} {first} {second}", [both, both, both, first, second, {}], 60)


def any_set(chosen: Random) -> Arguments:
    arguments: Arguments = {}
    for group in GROUPS.values():
        if chosen.random() < 0.5:
            arguments |= chosen.choice(group)
    return arguments


@pytest.mark.parametrize("count", [100, pytest.param(SETS_MAX, marks=pytest.mark.soak)])
def test_any_set_of_arguments_is_kept_to_whatever_it_changes_to(count: int) -> None:
    seed = seed_of_run()
    for number in range(count):
        chosen = Random(f"{seed} {number}")
        run(f"{seed} {number} history", [any_set(chosen) for _ in range(4)], 60)
