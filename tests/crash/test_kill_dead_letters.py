"""Kill -9 while messages are dead-lettered: each that was confirmed is in one place at the least.

The moments come from a seed, which is printed; LEVERET_SEED repeats its choices.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from broker_process import BrokerProcess
from dead_letter_rounds import DeadLetterRounds


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.soak)])
def test_no_confirmed_message_is_in_neither_place(
    rounds: int, seed: int, start_broker: Callable[..., BrokerProcess]
) -> None:
    crashes = DeadLetterRounds(start_broker, seed)
    for number in range(1, rounds + 1):
        crashes.round(number)
    print(f"{rounds} rounds: lost=0, repeated={crashes.repeated}")
