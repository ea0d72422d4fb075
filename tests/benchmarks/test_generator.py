from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from leveret.broker import Broker

from benchmarks.client import Client
from benchmarks.generator import run
from benchmarks.scenarios import SCENARIOS, Scenario


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with Broker(data_dir=tmp_path_factory.mktemp("data"), port=0, log_level="error") as broker:
        yield broker.port


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_publish_of_every_scenario_is_confirmed(port: int, scenario: Scenario) -> None:
    figures = run(partial(Client, port), scenario, seconds=0.3, warmup_seconds=0.1)
    assert figures["confirmed_rate"] > 0
    assert figures["p50_ms"] <= figures["p99_ms"]
    if scenario.consuming != "none" or scenario.mandatory:
        assert figures["back_rate"] > 0
