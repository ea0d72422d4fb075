"""The backlogs whose memory is measured are what their rows say."""

from __future__ import annotations

import leveret
import pytest
from holding import part
from insides import context_of, inside, queue_actor, wait_until
from leveret.core.queue.rules import MessageQueue

from benchmarks.memory_held import BLOCK, KEYS, MB, QUEUE, ROWS, Held, Row, line

COUNT = 4 * BLOCK
Counts = tuple[int, int, int]


def counts(broker: leveret.Broker) -> dict[str, Counts]:
    """Each queue's ready, unacked and deferred messages."""
    found = {}
    for definition in context_of(broker).vhosts["/"].table.queues():
        queue = part(inside(queue_actor(broker, definition.name)), MessageQueue)
        ready, _, unacked = queue.counts()
        found[definition.name] = (ready, unacked, queue.deferred_count)
    return found


ONE_QUEUE = {
    "bulk": (COUNT, 0, 0),
    "single": (COUNT, 0, 0),
    "deferred": (0, 0, COUNT),
    "in-flight": (0, COUNT, 0),
    "transient-in-flight": (0, COUNT, 0),
    "priorities": (COUNT, 0, 0),
    "ten-million": (COUNT, 0, 0),
}
EXPECTED: dict[str, dict[str, Counts]] = {
    **{name: {QUEUE: each} for name, each in ONE_QUEUE.items()},
    "keys": {f"{QUEUE}-{number}": (COUNT // KEYS, 0, 0) for number in range(KEYS)},
    "queues": {f"{QUEUE}-{number}": (0, 1, 0) for number in range(COUNT)},
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_fills_the_broker_with_what_it_says(broker: leveret.Broker, row: Row) -> None:
    clients = row.fill(broker, COUNT)  # type: ignore[arg-type]
    wait_until(lambda: counts(broker) == EXPECTED[row.name])
    for client in clients:
        client.abandon()


def test_a_row_fails_above_its_bound_and_only_at_full_scale() -> None:
    row = ROWS[0]
    below = Held(50 * MB, 170 * MB, 180 * MB)
    above = Held(50 * MB, 171 * MB, 180 * MB)
    assert line(row, row.messages, below) == [
        "bulk", "1,000,000", "50", "120", "130", "120", "<= 120 pass",
    ]  # fmt: skip
    assert line(row, row.messages, above)[-1] == "<= 120 FAIL"
    assert line(row, 1000, above)[-1] == "<= 120 "
