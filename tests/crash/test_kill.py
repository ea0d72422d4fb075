"""Kill -9 at random moments: every confirmed message is there after it, in order, unaltered.

The moments and all else that is random come from a seed, which is printed; LEVERET_SEED repeats
its choices (what the machine's scheduler adds to them it cannot).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from crash_rounds import CrashRounds


@pytest.mark.parametrize("rounds", [5, pytest.param(50, marks=pytest.mark.soak)])
def test_what_was_confirmed_is_there_after_every_kill(
    rounds: int, seed: int, tmp_path: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    crashes = CrashRounds(tmp_path, start_broker, seed)
    for number in range(1, rounds + 1):
        crashes.round(number)
    print(f"{rounds} rounds: lost=0, repeated={crashes.repeated}")
