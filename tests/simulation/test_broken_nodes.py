"""A node with a fault is found out by one of a few seeds."""

from __future__ import annotations

import pytest
from broken_nodes import FAULTS
from checker import ViolationError
from node_simulation import simulate

# Each was found by the first of them.
SEEDS_MAX = 12


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    fault = FAULTS[name]
    with fault.there():
        for seed in range(fault.seed, fault.seed + SEEDS_MAX):
            try:
                simulate(seed)
            except ViolationError as violation:
                print(f"{name}: seed {seed}: {violation}")
                return
    raise AssertionError(f"{SEEDS_MAX} seeds from {fault.seed} on do not find: {name}")
