"""Queues that are counted by their bindings."""

from __future__ import annotations

from leveret.core.definitions import QueueDefinition
from leveret.core.exchanges.exchange import Destinations


def test_a_queue_is_there_once_until_its_last_binding_goes():
    first, second = (QueueDefinition(name, 1, durable=False) for name in "ab")
    destinations = Destinations()
    assert not destinations
    for queue in (first, second, first):
        destinations.add(queue)
    assert destinations.in_order() == (first, second)
    destinations.remove(first)
    assert destinations.in_order() == (first, second)
    destinations.remove(first)
    assert destinations.in_order() == (second,)
    destinations.remove(second)
    assert destinations.in_order() == ()
    assert not destinations
