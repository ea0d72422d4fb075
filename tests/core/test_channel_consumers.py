"""The consumers of one channel: their tags, their prefetch, and the queues that it has used."""

from __future__ import annotations

import pytest
from leveret.amqp_frames.errors import HardError, SoftError
from leveret.amqp_frames.methods import BasicConsume, BasicQos
from leveret.amqp_frames.values.field_table import Field
from leveret.core.channel.consumers import QUEUES_USED_MIN, ChannelConsumers
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.definitions import QueueDefinition


def queue(number: int) -> QueueDefinition:
    return QueueDefinition(f"q{number}", number, durable=True)


@pytest.fixture
def credit() -> ChannelCredit:
    return ChannelCredit()


@pytest.fixture
def consumers(credit: ChannelCredit) -> ChannelConsumers:
    return ChannelConsumers("channel", credit, 2)


def test_a_prefetch_is_for_consumers_to_come(consumers: ChannelConsumers) -> None:
    before = consumers.add("a", queue(1), BasicConsume())
    assert consumers.set_prefetch(BasicQos(0, 5, False)) == ()
    after = consumers.add("b", queue(1), BasicConsume(no_ack=True, exclusive=True))
    assert (before.prefetch, after.prefetch) == (0, 5)
    assert (before.no_ack, after.no_ack, before.exclusive, after.exclusive) == (
        False,
        True,
        False,
        True,
    )
    assert (after.channel, after.consumer_tag) == ("channel", b"\1b")


def test_a_global_prefetch_is_the_channel_s_and_offers_its_credit(
    consumers: ChannelConsumers, credit: ChannelCredit
) -> None:
    credit.set_limit(1)
    credit.reserve("q", 1)
    credit.wait("q")
    assert list(consumers.set_prefetch(BasicQos(0, 3, True))) == ["q"]
    assert (credit.limit, consumers.prefetch) == (3, 0)


def test_a_limit_in_bytes_is_not_implemented(consumers: ChannelConsumers) -> None:
    with pytest.raises(HardError, match=r"prefetch_size!=0 \(7\)") as why:
        consumers.set_prefetch(BasicQos(7, 1, False))
    assert why.value.reply_code == 540


def test_a_tag_is_there_once_and_so_many_consumers(consumers: ChannelConsumers) -> None:
    consumers.check_new("a", None)
    consumers.add("a", queue(1), BasicConsume())
    for tag, reply_tag in (("a", None), ("r", "r")):
        with pytest.raises(HardError, match=f"attempt to reuse consumer tag '{tag}'"):
            consumers.check_new(tag, reply_tag)
    consumers.add("b", queue(1), BasicConsume())
    with pytest.raises(HardError, match=r"reached maximum \(2\) of consumers per channel"):
        consumers.check_new("c", None)
    consumers.forget("a")
    consumers.check_new("a", None)


def test_a_consumer_with_wrong_arguments_is_none(consumers: ChannelConsumers) -> None:
    wrong = BasicConsume(arguments={"x-priority": Field("longstr", "high")})
    with pytest.raises(SoftError):
        consumers.add("a", queue(1), wrong)
    assert (len(consumers), consumers.queue_of("a")) == (0, None)


def test_the_last_consumer_of_a_queue_leaves_its_credit_to_the_others(
    consumers: ChannelConsumers, credit: ChannelCredit
) -> None:
    one, other = queue(1), queue(2)
    credit.set_limit(1)
    for tag in ("a", "b"):
        consumers.add(tag, one, BasicConsume())
    credit.wait(one)
    credit.reserve(other, 1)
    assert list(credit.release(1)) == [one]
    credit.wait(other)
    assert consumers.forget("a") == (one, ())
    gone, offered = consumers.forget("b")
    assert (gone, list(offered)) == (one, [other])
    assert consumers.forget("b") == (None, ())


def test_queues_that_were_deleted_are_not_remembered_for_long(consumers: ChannelConsumers) -> None:
    used = [queue(number) for number in range(10 * QUEUES_USED_MIN)]
    for each in used:
        consumers.use(each, is_there=lambda asked: asked.queue_id == 0)
    remembered, left = consumers.release()
    assert used[0] in remembered
    assert used[-1] in remembered
    assert len(remembered) < 3 * QUEUES_USED_MIN
    assert left == {}


def test_a_channel_that_ends_names_its_queues_and_consumers_once(
    consumers: ChannelConsumers,
) -> None:
    one = queue(1)
    consumers.add("a", one, BasicConsume())
    consumers.use(one, is_there=lambda _queue: True)
    assert consumers.release() == ([one], {"a": one})
    assert consumers.release() == ([], {})
