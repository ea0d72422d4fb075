from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import brokers
from benchmarks.brokers import BrokerError, running


def test_a_missing_rabbitmq_is_said_with_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "RABBITMQ_SERVER", tmp_path / "none")
    with (
        pytest.raises(BrokerError, match="apt-get install -y rabbitmq-server"),
        running(["rabbitmq"], tmp_path),
    ):
        pass


def test_a_broker_that_ends_at_its_start_is_said_with_its_output(tmp_path: Path) -> None:
    command = f"{sys.executable} -c \"raise SystemExit('no way')\""
    with pytest.raises(BrokerError, match="no way"), running(["leveret"], tmp_path, command):
        pass
    assert list(tmp_path.iterdir()) == []


def test_leveret_is_started_on_a_free_port_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with running(["leveret"], tmp_path) as [broker]:
        assert broker.port > 0
        assert broker.process().is_running()
    assert list(tmp_path.iterdir()) == []
