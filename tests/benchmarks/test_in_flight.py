from __future__ import annotations

import json
import threading
from pathlib import Path

import leveret
import pytest
from insides import context_of, wait_until
from leveret.core.queue.rules import MessageQueue

from benchmarks.in_flight_cost import DUE, Loaded, paired
from benchmarks.in_flight_lateness import QUEUE, fill, hold, report
from benchmarks.watched_timeouts import watch

COUNT = 2_000


def test_what_is_due_returns_and_what_is_not_stays_in_flight() -> None:
    few, many = Loaded(10), Loaded(10 * DUE)
    assert len(paired(few, many, 3)) == 3
    assert few.queue.counts() == (0, 1, 10)
    assert many.queue.counts() == (0, 1, 10 * DUE)


def test_a_live_broker_returns_messages_and_notes_how_late(
    broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Put back at the end.
    monkeypatch.setattr(MessageQueue, "expire", MessageQueue.expire)
    watched = watch()
    fill(broker.port, COUNT)
    queue = context_of(broker).vhosts["/"].table.find_queue(QUEUE)
    assert queue is not None
    is_over = threading.Event()
    holding = threading.Thread(target=hold, args=(broker.port, [50, 120, 200], is_over.is_set))
    holding.start()
    try:
        wait_until(lambda: watched.late.total() >= COUNT)
    finally:
        is_over.set()
        holding.join()
    assert min(watched.late) >= 0
    assert watched.in_flight_max > 0
    watched.save(tmp_path / "noted.json")
    noted = json.loads((tmp_path / "noted.json").read_text())
    assert sum(count for _, count in noted["late"]) == watched.late.total()


@pytest.mark.parametrize(
    ("late", "in_flight", "kept"),
    [
        ([(0, 99), (100, 1)], 10, True),
        ([(0, 99), (101, 1)], 10, False),
        ([(-1, 1), (0, 99)], 10, False),
        ([(0, 100)], 9, False),
        ([], 10, False),
    ],
)
def test_no_message_may_be_early_nor_later_than_the_bound(
    late: list[tuple[int, int]], in_flight: int, kept: bool, tmp_path: Path
) -> None:
    noted = tmp_path / "noted.json"
    noted.write_text(json.dumps({"in_flight_max": in_flight, "late": late}))
    assert report(noted, 10) == kept
