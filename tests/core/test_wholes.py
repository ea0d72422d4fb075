"""Messages that are one whole, as those of an MPUB, within the limits of a queue."""

from __future__ import annotations

import pytest
from batches import numbered, sized
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.queue.construction import make_queue
from leveret.core.queue.rules import Effects, MessageQueue
from leveret.core.queue.wholes import next_row


def queue_with(**limits: object) -> MessageQueue:
    arguments = {"x-" + name.replace("_", "-"): value for name, value in limits.items()}
    return make_queue("q", True, table_of({"x-overflow": "reject-publish"} | arguments), 1 << 20)


def rows(wholes, indexes) -> list[tuple[int, bool]]:
    found, position = [], 0
    while position < len(indexes):
        found.append(next_row(wholes, indexes, position))
        position += found[-1][0]
    return found


@pytest.mark.parametrize(
    ("wholes", "indexes", "expected"),
    [
        (None, range(5), [(5, False)]),
        ([(0, 5)], range(5), [(5, True)]),
        ([(1, 3)], range(5), [(1, False), (2, True), (2, False)]),
        ([(0, 2), (2, 4)], range(4), [(2, True), (2, True)]),
        # A queue has some of the batch only, as those of one topic.
        ([(0, 2), (2, 6), (7, 9)], [1, 3, 5, 6, 8], [(1, True), (2, True), (1, False), (1, True)]),
        ([(4, 6)], [0, 7], [(1, False), (1, False)]),
    ],
)  # fmt: skip
def test_a_queue_asks_for_each_whole_by_itself(wholes, indexes, expected) -> None:
    assert rows(wholes, indexes) == expected


def test_a_whole_enters_if_there_is_room_for_all_of_it() -> None:
    queue = queue_with(max_length=5)
    batch = numbered(9)
    batch.wholes = [(1, 4), (4, 7)]
    effects = Effects()
    queue.publish(batch, range(9), effects)
    # One, three as a whole, then no room for the second whole, but for one more.
    assert effects.appended is not None
    assert list(effects.appended[0]) == [0, 1, 2, 3, 7]
    assert list(effects.appended[1]) == [1, 2, 3, 4, 5]
    assert list(effects.rejected or ()) == [4, 5, 6, 8]


def test_a_whole_that_is_too_large_in_bytes_is_refused_with_its_small_messages() -> None:
    queue = queue_with(max_length_bytes=10)
    batch = sized([(4, True), (4, True), (4, True), (2, True)])
    batch.wholes = [(0, 3)]
    effects = Effects()
    queue.publish(batch, range(4), effects)
    assert effects.appended is not None
    assert list(effects.appended[0]) == [3]
    assert list(effects.rejected or ()) == [0, 1, 2]


def test_a_refused_whole_goes_to_the_dead_letter_exchange_as_a_whole() -> None:
    queue = queue_with(max_length=2, overflow="reject-publish-dlx", dead_letter_exchange="x")
    batch = numbered(3)
    batch.wholes = [(0, 3)]
    effects = Effects()
    queue.publish(batch, range(3), effects)
    assert effects.appended is None
    assert [(list(span.indexes), reason) for span, reason in effects.dead] == [
        ([0, 1, 2], "maxlen")
    ]


def test_a_queue_that_drops_its_head_takes_every_whole() -> None:
    queue = queue_with(max_length=2, overflow="drop-head")
    batch = numbered(3)
    batch.wholes = [(0, 3)]
    effects = Effects()
    queue.publish(batch, range(3), effects)
    assert effects.appended is not None
    assert list(effects.appended[0]) == [0, 1, 2]
    assert effects.rejected is None
