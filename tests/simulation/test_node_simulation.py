"""A whole node in one thread keeps its promises, whatever its clients do and its disk loses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from checker import ViolationError
from examples import examples
from fingerprints import fingerprint
from node_simulation import shortest, simulate

SEEDS = 200
# What must have happened in these, or they prove nothing.
HAPPENED = {
    "acks",
    "commits",
    "compactions",
    "confirms",
    "deletes",
    "failed writes and syncs",
    "first deliveries",
    "indexes read at a start",
    "kills",
    "late answers",
    "nacks",
    "pages read from the journal",
    "pages read from the spill",
    "pages written to the spill",
    "power cuts",
    "purges",
    "redeliveries",
    "rejected",
    "requeued",
    "returns",
    "settles lost in a crash",
    "stops",
}
HERE = Path(__file__).parent


@pytest.mark.parametrize("count", [SEEDS, pytest.param(20_000, marks=pytest.mark.soak)])
def test_no_seed_breaks_a_promise(count: int) -> None:
    happened: set[str] = set()
    for seed in range(1, examples(count) + 1):
        try:
            happened.update(simulate(seed).checker.seen)
        except ViolationError as violation:
            raise shortest(seed, violation)[1] from None
    assert happened >= HAPPENED or count > examples(count)


def test_a_seed_repeats_every_byte_in_another_process() -> None:
    seeds = range(7, 10)
    command = [sys.executable, str(HERE / "fingerprints.py"), *map(str, seeds)]
    others = []
    for hash_seed in ("1", "2"):
        hashing = os.environ | {"PYTHONHASHSEED": hash_seed}
        run = subprocess.run(command, capture_output=True, text=True, check=True, env=hashing)
        others.append(run.stdout.splitlines())
    own = [fingerprint(seed) for seed in seeds]
    assert others == [own, own]
