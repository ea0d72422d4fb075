"""Messages that the journal had no room for leave their queue as if they had never come."""

from __future__ import annotations

from batches import delivered_to, numbered
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.construction import make_queue
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.rules import Effects, MessageQueue

WINDOW = 1 << 20


def consume(queue: MessageQueue, prefetch: int) -> Consumer:
    consumer = Consumer("a", b"\1t", prefetch, ChannelCredit(), False, False)
    queue.consumers.add(consumer)
    queue.dispatch(Effects())
    return consumer


def publish(queue: MessageQueue, count: int) -> Effects:
    effects = Effects()
    queue.publish(numbered(count), range(count), effects)
    return effects


def test_withdrawn_messages_go_from_wherever_they_are_and_no_others_go() -> None:
    queue = MessageQueue("the queue", True, WINDOW)
    consumer = consume(queue, 3)
    appended = publish(queue, 6).appended
    assert appended is not None
    publish(queue, 2)
    # In the hands of the consumer, given back, and ready: three entries of each batch are.
    queue.withdraw(appended[1][1:5])
    assert [list(span.indexes) for span in queue.ready] == [[5], [0, 1]]
    [(held, low, high)] = list(queue.in_flight.parts())
    effects = Effects()
    queue.requeue("a", [(held, low, high)], effects)
    # Of what it held, the first alone has come back.
    assert [list(each.span.indexes) for each in delivered_to(effects, consumer)] == [[0], [5], [0]]
    assert not queue.withdrawn


def test_withdrawn_messages_are_not_settled_and_do_not_outlive_their_consumer() -> None:
    queue = MessageQueue("the queue", True, WINDOW)
    consume(queue, 4)
    appended = publish(queue, 4).appended
    assert appended is not None
    queue.withdraw(appended[1][:2])
    [(held, _low, _high)] = list(queue.in_flight.parts())
    effects = Effects()
    queue.settle("a", [(held, 0, 1), (held, 3, 4)], effects)
    assert effects.settled_entries == [(4, 4)]
    queue.channel_down("a", Effects())
    assert [list(span.indexes) for span in queue.ready] == [[2]]
    assert not queue.withdrawn


def test_withdrawn_messages_make_room_by_count_and_by_bytes() -> None:
    for limits in ({"x-max-length": 2}, {"x-max-length-bytes": 2}):
        table = table_of({"x-overflow": "reject-publish"} | limits)
        queue = make_queue("q", True, table, WINDOW)
        accepted, refused, again = Effects(), Effects(), Effects()
        queue.publish(numbered(2), range(2), accepted)
        queue.publish(numbered(1), range(1), refused)
        assert list(refused.rejected or ()) == [0]
        assert accepted.appended is not None
        queue.withdraw(accepted.appended[1])
        queue.publish(numbered(2), range(2), again)
        assert again.rejected is None
        assert queue.ready.message_count == 2
