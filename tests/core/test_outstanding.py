"""A channel's deliveries: numbered, held until they are acked, returned with their credit."""

from __future__ import annotations

import pytest
from batches import numbered
from leveret.amqp_frames.decoder import Acks
from leveret.amqp_frames.errors import SoftError
from leveret.core.channel.outstanding import NOTED_MIN, Outstanding
from leveret.core.channel.transaction import (
    PART_BYTES,
    HeldAcks,
    Outcome,
    Transaction,
    TransactionMemory,
)
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
    settled = held.settle(5, True, Outcome.ACKED)
    returned = settled.returned
    assert returned.by_queue == {"q": [(one, 0, 2), (got, 0, 1)], "r": [(other, 0, 2)]}
    # What basic.get has brought takes up none.
    assert (credit.in_use, list(returned.offered), credit.room("s")) == (0, ["s"], 4)
    assert len(held) == 0


def test_acks_before_a_wrong_one_are_valid() -> None:
    held, credit = outstanding()
    one = delivery("q", 3, credit)
    held.hold(one)
    parts, returned, error = held.acknowledge(acks(1, 2, 9))
    assert parts == [(one, 0, 2)]
    assert returned.by_queue == {"q": parts}
    assert error is not None
    assert (error.reply_code, error.reply_text) == (
        406,
        "PRECONDITION_FAILED - unknown delivery tag 9",
    )
    assert (error.class_id, error.method_id) == (60, 80)
    assert len(held) == 1


def test_a_rollback_holds_acked_messages_again() -> None:
    held, credit = outstanding()
    one = delivery("q", 2, credit)
    held.hold(one)
    held.transaction = Transaction(TransactionMemory(1000))
    parts = held.settle(2, False, Outcome.ACKED).parts
    held.hold_again(parts)
    assert held.settle(0, True, Outcome.ACKED).parts == [(one, 0, 1), (one, 1, 2)]


def test_in_tx_mode_acks_wait_and_those_of_a_recover_do_not() -> None:
    held, credit = outstanding()
    one, other = delivery("q", 2, credit), delivery("r", 2, credit)
    for each in (one, other):
        held.hold(each)
    transaction = held.transaction = Transaction(TransactionMemory(2 * PART_BYTES))
    settled = held.settle(3, False, Outcome.REJECTED)
    assert (settled.parts, settled.returned.by_queue, settled.error) == ([(other, 0, 1)], {}, None)
    assert held.acknowledge(acks(1)).returned.by_queue == {}
    assert transaction.acks == [
        HeldAcks(Outcome.REJECTED, [(other, 0, 1)]),
        HeldAcks(Outcome.ACKED, [(one, 0, 1)]),
    ]
    assert credit.in_use == 4
    assert held.return_all().returned.by_queue == {"q": [(one, 1, 2)], "r": [(other, 1, 2)]}
    assert (credit.in_use, len(held)) == (2, 0)


def test_an_ack_that_the_transaction_has_no_room_for_is_the_method_s_error() -> None:
    held, credit = outstanding()
    held.hold(delivery("q", 2, credit))
    held.transaction = Transaction(TransactionMemory(PART_BYTES))
    assert held.acknowledge(acks(1)).error is None
    error = held.acknowledge(acks(2)).error
    assert error is not None
    assert (error.reply_code, error.class_id, error.method_id) == (406, 60, 80)


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
    held.settle(1, False, Outcome.ACKED)
    with pytest.raises(SoftError, match=r"acknowledgement on channel 1 timed out") as why:
        held.timeouts.check(now=105.0)
    assert why.value.reply_code == 406


def test_a_delivery_that_was_acked_in_time_does_not() -> None:
    held, credit = outstanding()
    tag = held.hold(delivery("q", 1, credit))
    held.timeouts.note(tag, tag, 5000, now=100.0)
    held.settle(tag, False, Outcome.ACKED)
    held.timeouts.check(now=200.0)
    assert held.timeouts.wake_at() is None


def test_a_rollback_brings_a_deadline_back_and_a_commit_does_not() -> None:
    for is_rolled_back in (True, False):
        held, credit = outstanding()
        held.timeouts.is_transactional = True
        tag = held.hold(delivery("q", 1, credit))
        held.timeouts.note(tag, tag, 5000, now=100.0)
        parts = held.settle(tag, False, Outcome.ACKED).parts
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
        held.settle(tag, False, Outcome.ACKED)
    last = held.hold(delivery("q", 1, credit))
    held.timeouts.note(last, last, 9000, now=0.0)
    # All but the last are passed over.
    held.timeouts.check(now=6.0)
    assert held.timeouts.wake_at() == 9.0
