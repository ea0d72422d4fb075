"""Sizes of published messages, of which one of each batch is looked at."""

from __future__ import annotations

import pytest
from batches import batch_of
from leveret.core.statistics.message_sizes import MESSAGE_BYTES_BOUNDS, MessageSizes
from wire import publish

LARGEST = len(MESSAGE_BYTES_BOUNDS)


@pytest.mark.parametrize(
    ("size_bytes", "place"),
    [(0, 0), (1, 0), (100, 0), (101, 1), (1_000, 1), (1_001, 2), (10_000, 2), (1_000_001, 5)],
)
def test_a_message_counts_for_the_first_bound_that_it_does_not_exceed(
    size_bytes: int, place: int
) -> None:
    measured = MessageSizes()
    measured.published(batch_of(publish("q", b"x" * size_bytes)))
    assert measured.sizes.total == size_bytes
    assert measured.sizes.counts == [int(each == place) for each in range(LARGEST + 1)]


def test_messages_that_are_alike_all_count() -> None:
    measured = MessageSizes()
    measured.published(batch_of(*[publish("q", b"x" * 200)] * 7))
    assert (measured.sizes.total, measured.sizes.counts[1]) == (1400, 7)


@pytest.mark.parametrize("pattern", [(10, 500), (10, 10, 10, 5000), (500, 10, 2000)])
def test_each_message_of_a_pattern_has_its_turn(pattern: tuple[int, ...]) -> None:
    measured = MessageSizes()
    rounds = 2 * len(pattern)
    for _ in range(rounds):
        measured.published(batch_of(*(publish("q", b"x" * size_bytes) for size_bytes in pattern)))
    assert measured.sizes.total == rounds * sum(pattern)
    small = sum(size_bytes <= MESSAGE_BYTES_BOUNDS[0] for size_bytes in pattern)
    assert measured.sizes.counts[0] == rounds * small
    assert sum(measured.sizes.counts) == rounds * len(pattern)
