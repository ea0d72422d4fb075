"""A broker to be attacked, and a client beside it that must not notice."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
# Frames by hand, a client on a bare socket and a broker as a process are the crash tests', too.
sys.path.insert(0, str(Path(__file__).parents[1] / "crash"))

from broker_process import BrokerProcess
from bystander import Bystander, logged_in
from timeouts import TIMEOUT_SECONDS


@pytest.fixture(scope="module")
def handshake_timeout_ms() -> int:
    """As long as any other time that a test waits; a test module may be impatient."""
    return round(1000 * TIMEOUT_SECONDS)


@pytest.fixture(scope="module")
def attacked(
    tmp_path_factory: pytest.TempPathFactory, handshake_timeout_ms: int
) -> Iterator[BrokerProcess]:
    """One broker for a module's tests; none of them may make it fail in any part."""
    broker = BrokerProcess(
        tmp_path_factory.mktemp("attacked"),
        handshake_timeout_ms=handshake_timeout_ms,
        password_hash_cost=10,
        drain_timeout_ms=1000,
        publish_window_bytes_max=4 << 20,
        routes_kept_bytes_max=4 << 20,
        nsq_port=0,
        # Its library would be imported while a test looks at the memory.
        http_listener="off",
    ).listening()
    # From here on the password is known, and a login needs no thread to have its turn in time.
    logged_in(broker.port).close()
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
