"""The simulation keeps to its promises, repeats itself, and finds parts that are broken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from broken_parts import BROKEN
from examples import examples
from judge import ViolationError
from simulation import run

# Each variant was found within 10; so many without a violation would be no accident.
SEEDS_MAX = 200
# What must have happened in a run of some seeds, or these prove nothing.
HAPPENED = {
    "first deliveries",
    "redeliveries",
    "time-outs",
    "touches",
    "deferrals",
    "delayed publishes",
    "deferred over a start",
    "late answers",
    "starts",
    "delivery_limit",
    "expired",
    "maxlen",
    "rejected",
}


@pytest.mark.parametrize("count", [100, pytest.param(5_000, marks=pytest.mark.soak)])
def test_no_seed_breaks_a_promise(count: int, seed: int) -> None:
    happened: set[str] = set()
    for number in range(examples(count)):
        happened.update(run(seed + number).seen)
    assert happened >= HAPPENED or count > examples(count)


def test_a_seed_repeats_its_history_to_the_word(seed: int) -> None:
    for number in range(seed, seed + 5):
        assert run(number).history == run(number).history


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_part_is_found(fault: str, seed: int) -> None:
    for number in range(SEEDS_MAX):
        try:
            run(seed + number, BROKEN[fault])
        except ViolationError as violation:
            print(f"{fault}: seed {number + 1} of them: {violation}")
            return
    raise AssertionError(f"{SEEDS_MAX} seeds do not find: {fault}")


def test_a_run_of_no_seeds_is_no_success() -> None:
    command = [sys.executable, str(Path(__file__).parent), "--seeds", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.endswith("at least 1 of --seeds is needed, or --seed\n")
