"""A queue's parts: added as docs/ARCHITECTURE.md shows, and changed while messages are in it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import ClassVar

import pytest
from batches import numbered, sized
from leveret.amqp_frames.messages.batch import Batch, Indexes
from leveret.amqp_frames.values.field_table import Table, table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue import construction
from leveret.core.queue.columns import body_sizes
from leveret.core.queue.construction import equip, make_queue
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.parts import Gate
from leveret.core.queue.rules import Effects, MessageQueue

WINDOW = 1 << 20
QUEUE = Path(construction.__file__).parent


class BodyLimit(Gate):
    """Rejects messages with more than `bytes_max` bytes of body."""

    __slots__ = ("_bytes_max",)
    name: ClassVar[str] = "body limit"

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max

    def admit(
        self, batch: Batch, indexes: Indexes, position: int, count: int, message_count: int
    ) -> int:
        row = indexes[position : position + count]
        for admitted, size in enumerate(body_sizes(batch, row)):
            if size > self._bytes_max:
                return admitted or -1
        return count


def body_limit_part(arguments: Table) -> BodyLimit:
    limit = arguments["x-max-message-bytes"].value
    assert isinstance(limit, int)
    return BodyLimit(limit)


def publish(queue: MessageQueue, *sizes: int) -> Effects:
    effects = Effects()
    queue.publish(sized((size, True) for size in sizes), range(len(sizes)), effects)
    return effects


def entries(queue: MessageQueue) -> list[int]:
    return [
        entry
        for span in queue.ready
        for entry in range(span.first_entry_id, span.first_entry_id + len(span))
    ]


def change(queue: MessageQueue, **arguments: object) -> Effects:
    """Give the queue these arguments instead of those that it has."""
    table = table_of({f"x-{name.replace('_', '-')}": value for name, value in arguments.items()})
    equip(queue, table, WINDOW)
    effects = Effects()
    queue.dispatch(effects)
    return effects


def test_a_new_part_needs_its_module_and_one_line_of_construction() -> None:
    part = frozenset({"x-max-message-bytes"}), body_limit_part
    makers = (*construction.PART_MAKERS, part)
    arguments = {"x-max-message-bytes": 5, "x-max-length": 3, "x-overflow": "reject-publish"}
    queue = make_queue("q", True, table_of(arguments), WINDOW, part_makers=makers)
    effects = publish(queue, 5, 6, 1, 9, 2, 3)
    # Two are too large, and the last finds the queue full.
    assert list(effects.rejected or ()) == [1, 3, 5]
    assert effects.appended is not None
    assert [*effects.appended[0]] == [0, 2, 4]
    queue = make_queue("q", True, {}, WINDOW, part_makers=makers)
    assert publish(queue, 6).rejected is None


def test_a_limit_that_is_set_changed_and_removed_holds_for_messages_in_the_queue() -> None:
    queue = make_queue("q", True, {}, WINDOW)
    publish(queue, 1, 2, 3, 4, 5)
    assert change(queue, max_length=4).settled_entries == [(1, 1)]
    # 5 + 4 bytes stay.
    assert change(queue, max_length_bytes=9).settled_entries == [(2, 3)]
    assert publish(queue, 9).settled_entries == [(4, 5)]
    assert change(queue, max_length_bytes=9, overflow="reject-publish").settled_entries == []
    assert list(publish(queue, 1).rejected or ()) == [0]
    change(queue)
    assert publish(queue, 1, 1).rejected is None
    assert entries(queue) == [6, 7, 8]


def test_messages_keep_the_deadlines_of_a_time_to_live_that_is_taken_away() -> None:
    queue = make_queue("q", True, table_of({"x-message-ttl": 50}), WINDOW)
    queue.now_ms = 1000
    publish(queue, 1)
    change(queue)
    publish(queue, 1)
    assert queue.needs_clock
    queue.now_ms = 1050
    effects = Effects()
    queue.expire(effects)
    assert effects.settled_entries == [(1, 1)]
    change(queue)
    assert (queue.parts, queue.needs_clock) == ((), False)


def test_a_new_order_is_that_of_messages_in_flight_too() -> None:
    queue = make_queue("q", True, {}, WINDOW)
    first = queue_get(queue, numbered(3))
    change(queue, max_priority=3)
    queue.requeue("a", [(first, 0, 1)], Effects())
    assert entries(queue) == [1, 2, 3]
    change(queue)
    assert entries(queue) == [1, 2, 3]


def queue_get(queue: MessageQueue, batch: Batch) -> Delivery:
    queue.publish(batch, range(len(batch)), Effects())
    delivery = queue.get("a", False, Effects())
    assert delivery is not None
    return delivery


def test_a_lowered_delivery_limit_sends_away_messages_that_came_back_too_often() -> None:
    queue = make_queue("q", True, {}, WINDOW)
    first = queue_get(queue, numbered(2))
    queue.requeue("a", [(first, 0, 1)], Effects())
    effects = change(queue, queue_type="quorum", delivery_limit=0)
    assert [(span.first_entry_id, reason) for span, reason in effects.dead] == [
        (1, "delivery_limit")
    ]
    assert entries(queue) == [2]


def test_consumers_stay_when_one_alone_becomes_active_and_when_all_are_again() -> None:
    queue = make_queue("q", True, {}, WINDOW)
    consumers = [Consumer(name, b"\1t", 2, ChannelCredit(), False, False) for name in "ab"]
    for each in consumers:
        queue.consumers.add(each)
    change(queue, single_active_consumer=True)
    assert queue.consumers.all() == consumers
    publish(queue, 1, 1, 1, 1)
    assert [each.in_flight for each in consumers] == [2, 0]
    change(queue)
    assert [each.in_flight for each in consumers] == [2, 2]


@pytest.mark.parametrize("part", ["attempts", "dedup", "expiry", "length", "ready_by_priority"])
def test_a_part_reads_messages_through_columns_alone(part: str) -> None:
    tree = ast.parse((QUEUE / f"{part}.py").read_text())
    imported = {each.module for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)}
    messages = {each for each in imported if each and "amqp_frames.messages" in each}
    assert messages <= {"amqp_frames.messages.batch"}
    read = {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    assert not read & {"wire", "starts", "headers", "ends", "body_bytes", "ttls_ms"}
    # Nor does it know the rules, or another part.
    others = {"rules", "construction", "attempts", "dedup", "expiry", "length"} - {part}
    assert not imported & others
