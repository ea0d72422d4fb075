"""Message ids in flight: any order of answers gives the parts of deliveries that they name."""

from __future__ import annotations

import random

from batches import numbered
from leveret.core.nsq.in_flight import InFlightIds
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.span import Span

QUEUE = object()


def delivery(first_id: int, count: int) -> Delivery:
    return Delivery(Span(numbered(count), range(count), first_id, 0, True), QUEUE, None)


def test_finished_in_order_each_run_is_a_part() -> None:
    ids = InFlightIds()
    first, second = delivery(10, 5), delivery(15, 5)
    ids.add(first)
    ids.add(second)
    assert ids.remove(10, 12) == ([(first, 0, 3)], -1)
    assert ids.remove(13, 17) == ([(first, 3, 5), (second, 0, 3)], -1)
    assert ids.count == 2


def test_an_id_that_is_not_held_is_named_and_those_before_it_are_removed() -> None:
    ids = InFlightIds()
    held = delivery(10, 5)
    ids.add(held)
    assert ids.remove(13, 16) == ([(held, 3, 5)], 15)
    assert ids.remove(9, 10) == ([], 9)
    assert ids.find(13) is None
    assert ids.find(12) == (held, 2, 3)
    assert ids.remove(-1, -1)[0] == []


def test_what_timed_out_is_held_no_longer_unless_it_was_answered() -> None:
    ids = InFlightIds()
    held = delivery(1, 6)
    ids.add(held)
    ids.remove(2, 3)
    assert ids.time_out([(held, 0, 5)]) == [(held, 0, 1), (held, 3, 5)]
    assert ids.count == 1
    # Delivered once more, to the same client: another delivery has the same ids.
    again = delivery(1, 1)
    ids.add(again)
    assert ids.time_out([(held, 0, 1)]) == []
    assert ids.find(1) == (again, 0, 1)


def test_any_order_gives_every_message_once(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        ids = InFlightIds()
        first = 1
        model: dict[int, tuple[Delivery, int]] = {}
        for _ in range(chance.randrange(1, 8)):
            count = chance.randrange(1, 9)
            made = delivery(first, count)
            ids.add(made)
            model |= {first + at: (made, at) for at in range(count)}
            first += count + chance.randrange(3)
        while model:
            low = chance.randrange(first)
            high = low + chance.randrange(4)
            parts, missing = ids.remove(low, high)
            got = [(each, at) for each, start, end in parts for at in range(start, end)]
            expected = []
            for id in range(low, high + 1):
                if id not in model:
                    assert missing == id
                    break
                expected.append(model.pop(id))
            else:
                assert missing == -1
            assert got == expected
            assert ids.count == len(model)
