"""Kill -9 under publishers that publish again what was not confirmed: each id is there once.

The moments come from a seed, which is printed; LEVERET_SEED repeats its choices.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from broker_process import BrokerProcess
from dedup_rounds import DedupRounds


@pytest.mark.parametrize("rounds", [3, pytest.param(20, marks=pytest.mark.soak)])
def test_each_id_is_in_each_queue_once_after_every_kill(
    rounds: int, seed: int, start_broker: Callable[..., BrokerProcess]
) -> None:
    crashes = DedupRounds(start_broker, seed)
    for number in range(1, rounds + 1):
        crashes.round(number)
    messages = crashes.finish()
    print(f"{rounds} rounds, {messages} ids, {crashes.repeated} published again: each once")
    assert crashes.repeated
