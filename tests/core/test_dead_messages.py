"""Messages that leave a queue other than by an ack: dead letters, if it has an exchange."""

from __future__ import annotations

import pytest
from batches import numbered
from counting_list import CountingList
from dashed import dashed
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.queue.construction import equip, make_queue
from leveret.core.queue.rules import Effects, MessageQueue
from leveret.core.queue.span import Span

WINDOW = 1 << 20


def queue_of(**arguments: object) -> MessageQueue:
    queue = MessageQueue("the queue", True, WINDOW)
    table = table_of(dashed(arguments))
    equip(queue, table, WINDOW)
    queue.publish(numbered(5), range(5), Effects())
    return queue


def discarded(queue: MessageQueue) -> Effects:
    """The second of three messages that a channel has got is rejected for good."""
    deliveries = [queue.get("a", False, Effects()) for _ in range(3)]
    effects = Effects()
    queue.discard("a", [(deliveries[1], 0, 1)], effects)
    # What the channel no longer holds is not discarded twice.
    queue.discard("a", [(deliveries[1], 0, 1)], effects)
    return effects


def test_a_rejected_message_of_a_plain_queue_is_settled() -> None:
    effects = discarded(queue_of())
    assert effects.settled_entries == [(2, 2)]
    # For the trace; without an exchange there is no dead letter of it.
    assert [reason for _span, reason in effects.dead] == ["rejected"]


def test_a_rejected_message_of_a_queue_with_an_exchange_for_it_is_not_settled() -> None:
    effects = discarded(queue_of(x_dead_letter_exchange=""))
    assert effects.settled_entries == []
    ((span, reason),) = effects.dead
    assert (list(span.indexes), span.first_entry_id, span.stored, reason) == (
        [1],
        2,
        True,
        "rejected",
    )


def come_back(queue: MessageQueue, how: str) -> Effects:
    """Three messages are delivered and come back."""
    delivery_parts = []
    for _ in range(3):
        delivery = queue.get("a", False, Effects())
        assert delivery is not None
        delivery_parts.append((delivery, 0, 1))
    effects = Effects()
    if how == "requeued":
        queue.requeue("a", delivery_parts, effects)
    else:
        queue.channel_down("a", effects)
    return effects


@pytest.mark.parametrize("how", ["requeued", "channel down"])
def test_over_its_delivery_limit_a_message_leaves(how: str) -> None:
    queue = queue_of(x_queue_type="quorum", x_delivery_limit=1, x_dead_letter_exchange="")
    assert come_back(queue, how).dead == []
    assert queue.ready.message_count == 5
    effects = come_back(queue, how)
    assert [(list(span.indexes), reason) for span, reason in effects.dead] == [
        ([index], "delivery_limit") for index in range(3)
    ]
    assert effects.settled_entries == []
    assert queue.ready.message_count == 2


def test_without_an_exchange_a_message_over_the_limit_is_settled() -> None:
    queue = queue_of(x_queue_type="quorum", x_delivery_limit=0)
    effects = come_back(queue, "requeued")
    assert [reason for _span, reason in effects.dead] == ["delivery_limit"] * 3
    assert effects.settled_entries == [(1, 1), (2, 2), (3, 3)]
    assert queue.ready.message_count == 2


def test_a_queue_without_a_limit_keeps_messages_that_come_back() -> None:
    queue = queue_of(x_dead_letter_exchange="")
    for _ in range(50):
        assert come_back(queue, "requeued").dead == []
    assert queue.ready.message_count == 5


def test_messages_from_the_journal_over_the_limit_leave_at_the_first_dispatch() -> None:
    arguments = table_of({"x-queue-type": "quorum", "x-delivery-limit": 1, "x-max-length": 5})
    queue = make_queue("the queue", True, arguments, WINDOW)
    queue.dead_letters = True
    batch = numbered(6)
    for index, attempts in enumerate((0, 2, 1, 7, 0, 2)):
        queue.restore(Span(batch, range(index, index + 1), index + 1, attempts, stored=True))
    effects = Effects()
    queue.dispatch(effects)
    left = [(list(span.indexes), reason) for span, reason in effects.dead]
    assert left == [([index], "delivery_limit") for index in (1, 3, 5)]
    assert [list(span.indexes) for span in queue.ready] == [[0], [2], [4]]
    assert queue.next_entry_id == 7
    queue.dispatch(effects)
    assert len(effects.dead) == 3


def test_however_many_come_back_over_the_limit_each_costs_the_same() -> None:
    queue = queue_of(x_queue_type="quorum", x_delivery_limit=0)
    queue.restore(Span(numbered(1), range(1), 6, 1, stored=True))
    assert queue.spent
    spent = queue.spent = CountingList(queue.spent * 10_000)
    effects = Effects()
    queue.dispatch(effects)
    # Each would move all that are behind it if it were taken out by itself.
    assert spent.moved <= 10_000
    assert effects.settled_entries == [(6, 6)] * 10_000
