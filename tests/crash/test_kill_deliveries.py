"""Kill -9 with many messages in flight and as many deferred: none lost, early or miscounted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from broker_process import BrokerProcess
from delivery_rounds import DeliveryRounds
from kill_loop import KillLoop

# In `make soak`, of all rounds, behind the due time or the start.
LATE_SECONDS_MAX = 1.0


def run_rounds(scenario: DeliveryRounds, rounds: int) -> None:
    for number in range(1, rounds + 1):
        scenario.round(number)
    print(f"{rounds} rounds: {scenario.finish()}")


def test_what_was_in_flight_or_deferred_is_there_with_its_attempts(
    seed: int, start_broker: Callable[..., BrokerProcess]
) -> None:
    run_rounds(DeliveryRounds(KillLoop(start_broker, seed), 300, (0.5, 2.0)), 1)


@pytest.mark.soak
def test_many_that_were_in_flight_or_deferred_are_there_in_time(
    seed: int, start_broker: Callable[..., BrokerProcess]
) -> None:
    scenario = DeliveryRounds(KillLoop(start_broker, seed), 10_000, (1.0, 12.0))
    run_rounds(scenario, 20)
    assert scenario.late_seconds <= LATE_SECONDS_MAX
