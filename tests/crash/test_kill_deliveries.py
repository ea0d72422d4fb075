"""Kill -9 with many messages in flight: each comes back at once, as often delivered as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from broker_process import BrokerProcess
from delivery_rounds import DeliveryRounds
from kill_loop import KillLoop


@pytest.mark.parametrize(
    ("rounds", "message_count"), [(1, 300), pytest.param(20, 10_000, marks=pytest.mark.soak)]
)
def test_what_was_in_flight_comes_back_with_its_attempts(
    rounds: int, message_count: int, seed: int, start_broker: Callable[..., BrokerProcess]
) -> None:
    scenario = DeliveryRounds(KillLoop(start_broker, seed), message_count)
    for number in range(1, rounds + 1):
        scenario.round(number)
    print(f"{rounds} rounds: {scenario.finish()}")
