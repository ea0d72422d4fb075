"""The queues and the exchange of one scenario: declared afresh before a run, deleted behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.client import Client
from benchmarks.scenarios import Scenario

QUEUE_PREFIX = "leveret-bench"
EXCHANGE = "leveret-bench-fanout"
NO_QUEUE = "leveret-bench-no-queue"
# Opens a connection, with a frame_max if there is one.
Connect = Callable[..., Client]


def queues_of(scenario: Scenario) -> list[str]:
    """Give the names of the queues that the scenario needs."""
    return [f"{QUEUE_PREFIX}-{i}" for i in range(max(scenario.queues, 0) * scenario.connections)]


@contextmanager
def declared(connect: Connect, scenario: Scenario) -> Iterator[list[str]]:
    """Declare the queues (and the exchange) afresh, and delete them at the end."""
    client = connect()
    client.open_channel(1)
    queues = queues_of(scenario)

    def delete() -> None:
        for queue in queues:
            client.delete_queue(1, queue)
        client.delete_exchange(1, EXCHANGE)

    delete()
    for queue in queues:
        client.declare_queue(1, queue, scenario.durable_queues)
    if scenario.fanout:
        client.declare_fanout(1, EXCHANGE, queues)
    try:
        yield queues
    finally:
        delete()
        client.close()
