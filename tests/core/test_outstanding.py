"""A channel's deliveries: numbered, held until they are acked, returned with their credit."""

from __future__ import annotations

import pytest
from batches import numbered
from leveret.amqp_frames.errors import SoftError
from leveret.amqp_frames.messages.batch import Acks
from leveret.core.channel.ack_timeouts import NOTED_MIN
from leveret.core.channel.outstanding import Outstanding
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.span import Span


def outstanding() -> tuple[Outstanding, ChannelCredit]:
    credit = ChannelCredit()
    credit.set_limit(4)
    return Outstanding(1, credit), credit


def delivery(queue: str, count: int, credit: ChannelCredit | None = None) -> Delivery:
    """From a consumer if it takes up credit, else from basic.get."""
    consumer = None
    if credit is not None:
        consumer = Consumer("a", b"\1t", 0, credit, False, False)
        credit.reserve(queue, count)
    return Delivery(Span(numbered(count), range(count), 1, 0, False), queue, consumer)


def acks(*tags: int) -> Acks:
    run = Acks()
    run.tags.extend(tags)
    run.multiples.extend(bytes(len(tags)))
    return run


def test_tags_ascend_over_all_that_is_delivered() -> None:
    held, credit = outstanding()
    assert held.hold(delivery("q", 2, credit)) == 1
    assert held.number(3) == 3
    assert held.hold(delivery("r", 1)) == 6
    assert len(held) == 3


def test_parts_return_to_each_queue_in_one_go_and_free_their_credit() -> None:
    held, credit = outstanding()
    one, other, got = delivery("q", 2, credit), delivery("r", 2, credit), delivery("q", 1)
    for each in (one, other, got):
        held.hold(each)
    credit.wait("s")
    returned = held.return_parts(held.remove(5, multiple=True))
    assert returned.by_queue == {"q": [(one, 0, 2), (got, 0, 1)], "r": [(other, 0, 2)]}
    # What basic.get has brought takes up none.
    assert (credit.in_use, list(returned.offered), credit.room("s")) == (0, ["s"], 4)
    assert len(held) == 0


def test_acks_before_a_wrong_one_are_valid() -> None:
    held, credit = outstanding()
    one = delivery("q", 3, credit)
    held.hold(one)
    parts, error = held.remove_acked(acks(1, 2, 9))
    assert parts == [(one, 0, 2)]
    assert error is not None
    assert (error.reply_code, error.reply_text) == (
        406,
        "PRECONDITION_FAILED - unknown delivery tag 9",
    )
    assert (error.class_id, error.method_id) == (60, 80)
    assert len(held) == 1


def test_a_rollback_holds_again_what_was_acked() -> None:
    held, credit = outstanding()
    one = delivery("q", 2, credit)
    held.hold(one)
    parts = held.remove(2, multiple=False)
    held.hold_again(parts)
    assert held.remove(0, multiple=True) == [(one, 0, 1), (one, 1, 2)]


# --- Deadlines


def test_a_delivery_that_is_held_for_too_long_ends_the_channel() -> None:
    held, credit = outstanding()
    tag = held.hold(delivery("q", 2, credit))
    held.timeouts.note(tag, tag + 1, 5000, now=100.0)
    assert held.timeouts.wake_at() == 105.0
    # Said once.
    assert held.timeouts.wake_at() is None
    held.timeouts.check(now=104.0)
    assert held.timeouts.wake_at() == 105.0
    held.remove(1, multiple=False)
    with pytest.raises(SoftError, match=r"acknowledgement on channel 1 timed out") as why:
        held.timeouts.check(now=105.0)
    assert why.value.reply_code == 406


def test_a_delivery_that_was_acked_in_time_does_not() -> None:
    held, credit = outstanding()
    tag = held.hold(delivery("q", 1, credit))
    held.timeouts.note(tag, tag, 5000, now=100.0)
    held.remove(tag, multiple=False)
    held.timeouts.check(now=200.0)
    assert held.timeouts.wake_at() is None


def test_a_rollback_brings_a_deadline_back_and_a_commit_does_not() -> None:
    for is_rolled_back in (True, False):
        held, credit = outstanding()
        held.timeouts.is_transactional = True
        tag = held.hold(delivery("q", 1, credit))
        held.timeouts.note(tag, tag, 5000, now=100.0)
        parts = held.remove(tag, multiple=False)
        held.timeouts.check(now=106.0)
        if is_rolled_back:
            held.hold_again(parts)
        held.timeouts.transaction_ended(is_rolled_back)
        assert held.timeouts.wake_at() == (105.0 if is_rolled_back else None)


def test_notes_of_acked_deliveries_are_forgotten() -> None:
    held, credit = outstanding()
    credit.set_limit(0)
    for _ in range(4 * NOTED_MIN):
        tag = held.hold(delivery("q", 1, credit))
        held.timeouts.note(tag, tag, 5000, now=0.0)
        held.remove(tag, multiple=False)
    last = held.hold(delivery("q", 1, credit))
    held.timeouts.note(last, last, 9000, now=0.0)
    # All but the last are passed over.
    held.timeouts.check(now=6.0)
    assert held.timeouts.wake_at() == 9.0
