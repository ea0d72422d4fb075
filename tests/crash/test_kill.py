"""Kill -9 at random moments: what clients were promised is there after it.

The moments and all else that is random come from a seed, which is printed; LEVERET_SEED repeats
its choices (what the machine's scheduler adds to them it cannot).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import pytest
from broker_process import BrokerProcess
from crash_rounds import CrashRounds
from dead_letter_rounds import DeadLetterRounds
from dedup_rounds import DedupRounds
from kill_loop import KillLoop
from priority_rounds import PriorityRounds
from transaction_rounds import TransactionRounds


class Scenario(Protocol):
    def round(self, number: int) -> None:
        """Load, kill, start, and check what is there."""

    def finish(self) -> str:
        """Check what is known only at the end; return the figures of all rounds."""


# The queues hold more than the memory budget, and old messages stay in segments whose others are
# long gone: these are worth a compaction.
PAGED_ROUNDS = partial(CrashRounds, left_max=500, elders=20)

# The claim, who checks it, and how many rounds: in `make test` and in `make soak`.
CLAIMS: dict[str, tuple[Callable[[KillLoop], Scenario], int, int]] = {
    "what was confirmed is there, in order and unaltered": (PAGED_ROUNDS, 2, 200),
    "no confirmed message is in neither place when it is dead-lettered": (DeadLetterRounds, 1, 20),
    "each id is in each queue once": (DedupRounds, 3, 20),
    "messages are there by priority and in order": (PriorityRounds, 2, 20),
    "what is moved in a transaction is never in neither queue": (TransactionRounds, 2, 20),
}


@pytest.mark.parametrize(
    ("claim", "rounds"),
    [(claim, few) for claim, (_, few, _) in CLAIMS.items()]
    + [pytest.param(claim, many, marks=pytest.mark.soak) for claim, (_, _, many) in CLAIMS.items()],
)
def test_after_every_kill(
    claim: str, rounds: int, seed: int, start_broker: Callable[..., BrokerProcess]
) -> None:
    made, _, _ = CLAIMS[claim]
    scenario = made(KillLoop(start_broker, seed))
    for number in range(1, rounds + 1):
        scenario.round(number)
    print(f"{claim}, {rounds} rounds: {scenario.finish()}")
