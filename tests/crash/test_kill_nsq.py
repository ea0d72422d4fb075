"""Kill -9 with many messages in flight, deferred and published over the NSQ protocol."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from broker_process import BrokerProcess
from kill_loop import KillLoop
from nsq_rounds import NsqRounds


def run_rounds(scenario: NsqRounds, rounds: int) -> None:
    for number in range(1, rounds + 1):
        scenario.round(number)
    print(f"{rounds} rounds: {scenario.finish()}")


def nsq_loop(start_broker: Callable[..., BrokerProcess], seed: int) -> KillLoop:
    return KillLoop(partial(start_broker, nsq_port=0), seed)


def test_what_nsq_clients_knew_is_there_with_its_attempts(
    seed: int, start_broker: Callable[..., BrokerProcess]
) -> None:
    run_rounds(NsqRounds(nsq_loop(start_broker, seed), 300, (0.5, 2.0)), 2)


@pytest.mark.soak
def test_many_that_nsq_clients_knew_are_there_and_none_early(
    seed: int, start_broker: Callable[..., BrokerProcess]
) -> None:
    run_rounds(NsqRounds(nsq_loop(start_broker, seed), 10_000, (1.0, 12.0)), 20)
