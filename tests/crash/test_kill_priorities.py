"""Kill -9 of a broker whose queue has priorities: they are as before, and so is the order.

The moments come from a seed, which is printed; LEVERET_SEED repeats its choices.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from broker_process import BrokerProcess
from priority_rounds import PriorityRounds


@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=pytest.mark.soak)])
def test_messages_are_there_by_priority_and_in_order_after_every_kill(
    rounds: int, seed: int, start_broker: Callable[..., BrokerProcess]
) -> None:
    crashes = PriorityRounds(start_broker, seed)
    for number in range(1, rounds + 1):
        crashes.round(number)
