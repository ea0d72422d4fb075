"""A broker to be attacked, and a client beside it that must not notice."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
# Frames by hand, a client on a bare socket and a broker as a process are the crash tests', too.
sys.path.insert(0, str(Path(__file__).parents[1] / "crash"))

from broker_process import BrokerProcess
from bystander import Bystander


@pytest.fixture
def seed() -> int:
    """A new one for each run, or the one of a run to be repeated: LEVERET_SEED=..."""
    chosen = int(os.environ.get("LEVERET_SEED") or random.SystemRandom().randrange(2**32))
    print(f"\nLEVERET_SEED={chosen}")
    return chosen


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for a module's tests, impatient; none of them may make it fail in any part."""
    broker = BrokerProcess(
        tmp_path_factory.mktemp("attacked"),
        handshake_timeout_ms=1000,
        # Or the first login could take longer than that, on a machine that is busy.
        password_hash_cost=10,
        close_timeout_ms=1000,
        publish_window_bytes_max=4 << 20,
    ).listening()
    yield broker
    faults = broker.faults()
    broker.kill()
    assert faults == []


@pytest.fixture
def bystander(attacked: BrokerProcess) -> Iterator[Bystander]:
    """Works beside the test, and is served throughout."""
    client = Bystander(attacked.port)
    client.start()
    yield client
    client.end()
    assert attacked.faults() == []
