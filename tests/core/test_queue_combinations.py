"""Every combination of queue arguments against a naive queue (`queue_model.py`).

A failure names its seed; `SEED=... pytest` with the name of the test replays it.
"""

from __future__ import annotations

import os
from itertools import combinations
from random import Random, SystemRandom
from typing import Final

import pytest
from examples import examples
from queue_history import NARROW, WIDE, History
from queue_model import Arguments

SETS_MAX = 10_000

# Arguments by what they ask for. Ages are so small that the window does not round them.
GROUPS: Final[dict[str, tuple[Arguments, ...]]] = {
    "deduplication": ({"x-dedup-window": 3}, {"x-dedup-window": 5, "x-dedup-age-ms": 20}),
    "length": ({"x-max-length": 3}, {"x-max-length": 0}),
    "bytes": ({"x-max-length-bytes": 20},),
    "overflow": (
        {"x-overflow": "drop-head"},
        {"x-overflow": "reject-publish"},
        {"x-overflow": "reject-publish-dlx"},
    ),
    "time to live": ({"x-message-ttl": 0}, {"x-message-ttl": 5}, {"x-message-ttl": 30}),
    "priority": ({"x-max-priority": 2}, {"x-max-priority": 5}),
    "single active": ({"x-single-active-consumer": True},),
    "consumers": ({"x-max-consumers": 1}, {"x-max-consumers": 2}),
    "attempts": (
        {"x-queue-type": "quorum", "x-delivery-limit": 0},
        {"x-delivery-limit": 2},
    ),
    "in-flight time-out": ({"x-in-flight-timeout": 3}, {"x-in-flight-timeout": 12}),
    "deferral": (
        {"x-requeue-delay": 4},
        {"x-requeue-delay": 3, "x-requeue-delay-max": 10},
    ),
    "dead letters": ({"x-dead-letter-exchange": "dlx"},),
}


def seed_of_run() -> int:
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(2**32))
    print(f"SEED={seed}")
    return seed


def run(seed: str, choices: list[Arguments], steps: int) -> None:
    try:
        random = Random(seed)
        History(random, choices, random.choice((WIDE, NARROW))).run(steps)
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


@pytest.mark.parametrize(
    "count", [examples(100), pytest.param(SETS_MAX, marks=pytest.mark.soak)], ids=["some", "many"]
)
def test_any_set_of_arguments_is_kept_to_whatever_it_changes_to(count: int) -> None:
    seed = seed_of_run()
    for number in range(count):
        chosen = Random(f"{seed} {number}")
        run(f"{seed} {number} history", [any_set(chosen) for _ in range(4)], 60)
