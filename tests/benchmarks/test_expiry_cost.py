from __future__ import annotations

import json
import time
from pathlib import Path

import leveret
import pytest
from insides import context_of, wait_until
from leveret.core.queue.rules import MessageQueue
from timeouts import TIMEOUT_SECONDS

from benchmarks.expiry_cost import Million, expiring_queues, lateness, report
from benchmarks.watched_expiry import watch


def test_all_that_is_published_waits_until_it_is_due_and_then_expires(
    broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Put back at the end.
    monkeypatch.setattr(MessageQueue, "drop", MessageQueue.drop)
    late = watch()
    million = Million(broker.port, 10_000, 4.0, seed=1)
    assert million.count >= 10_000
    assert time.monotonic() < million.first_due
    table = context_of(broker).vhosts["/"].table
    assert all(table.find_queue(name) is not None for name in expiring_queues())
    assert not late
    wait_until(lambda: late.total() >= million.count)
    assert late.total() == million.count
    assert min(late) >= 0
    assert time.monotonic() < million.first_due + million.span_seconds + TIMEOUT_SECONDS


def test_lateness_is_told_in_percentiles_of_messages(tmp_path: Path) -> None:
    noted = tmp_path / "noted.json"
    noted.write_text(json.dumps([(0, 50), (2, 49), (70, 1)]))
    assert lateness(noted) == "100 messages expired: late by p50 0, p99 2, at most 70 ms"
    noted.write_text("[]")
    assert lateness(noted) == "no message expired"


@pytest.mark.parametrize(
    ("rate", "p99_ms", "kept"), [(95.0, 10.5, True), (89.0, 10.0, False), (100.0, 11.5, False)]
)
def test_confirms_may_be_slowed_by_a_tenth(rate: float, p99_ms: float, kept: bool) -> None:
    quiet = {"confirmed_rate": 100.0, "p50_ms": 1.0, "p99_ms": 10.0}
    assert report([(quiet, {"confirmed_rate": rate, "p50_ms": 1.0, "p99_ms": p99_ms})]) == kept
