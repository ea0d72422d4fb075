"""NSQ's topics and channels as exchanges and queues: each command, from each state of a topic."""

from __future__ import annotations

from typing import Any

import pytest
from leveret.core.definitions import AddQueue, QueueDefinition, RenameQueue
from leveret.core.exchanges.table import carry_out
from leveret.core.nsq.topics import (
    NoChannelError,
    NoTopicError,
    TopicAction,
    TopicUnusableError,
    is_ready,
    plan_topic,
)
from leveret.core.topology.topology import Plan

HIDDEN = "amq.leveret.nsq.t"


class Topics:
    """Commands of a topic, "t", carried out at once."""

    def __init__(self, commands: Any) -> None:
        self.commands = commands
        self.topology = commands.topology
        self.table = commands.table

    def plan(self, action: str, channel: str = "", topic: str = "t") -> Plan:
        return plan_topic(self.topology, TopicAction[action], topic, channel)

    def do(self, action: str, channel: str = "", topic: str = "t") -> QueueDefinition | None:
        plan = self.plan(action, channel, topic)
        self.topology.apply(plan)
        return plan.queue

    def ensure(self, *channels: str, topic: str = "t") -> None:
        self.do("ENSURE_TOPIC", topic=topic)
        for channel in channels:
            self.do("ENSURE_CHANNEL", channel, topic)

    def routes(self, topic: str = "t") -> list[str]:
        """The names of the queues that a publish to the topic comes to."""
        return sorted(queue.name for queue in carry_out(self.table.route(topic, "")))

    def queues(self) -> list[str]:
        queues = (*self.table.queues(), *self.table.hidden_queues())
        return sorted(queue.name for queue in queues)


@pytest.fixture
def topics(commands) -> Topics:
    return Topics(commands)


def test_a_new_topic_is_a_durable_fanout_exchange_with_a_hidden_queue(topics):
    assert not is_ready(topics.table, "t")
    plan = topics.plan("ENSURE_TOPIC")
    assert plan.changes == plan.catalog
    topics.topology.apply(plan)
    exchange = topics.table.exchange("t").definition
    assert (exchange.type_name, exchange.durable, exchange.auto_delete) == ("fanout", True, False)
    assert topics.table.find_hidden_queue(HIDDEN).durable
    assert topics.routes() == [HIDDEN]
    assert is_ready(topics.table, "t")


def test_a_topic_that_is_ready_stays_as_it_is(topics):
    topics.ensure()
    assert topics.plan("ENSURE_TOPIC").changes == ()
    topics.ensure("c")
    assert topics.plan("ENSURE_TOPIC").changes == ()
    assert topics.plan("ENSURE_CHANNEL", "c").changes == ()


def test_the_first_channel_takes_the_hidden_queue_over_in_one_transaction(topics):
    topics.ensure()
    hidden = topics.table.find_hidden_queue(HIDDEN)
    plan = topics.plan("ENSURE_CHANNEL", "c")
    assert plan.catalog == plan.changes
    assert [type(change) for change in plan.changes].count(RenameQueue) == 1
    topics.topology.apply(plan)
    assert plan.queue is hidden is topics.table.find_queue("t:c")
    assert (hidden.name, hidden.queue_id) == ("t:c", 1)
    assert topics.queues() == topics.routes() == ["t:c"]


def test_a_channel_of_a_new_topic_needs_no_hidden_queue(topics):
    queue = topics.do("ENSURE_CHANNEL", "c")
    assert queue.durable
    assert topics.queues() == topics.routes() == ["t:c"]


def test_each_channel_has_its_queue(topics):
    topics.ensure("c", "d")
    assert topics.routes() == ["t:c", "t:d"]


def test_a_queue_that_amqp_declared_is_the_channel_with_its_arguments(topics):
    topics.commands.declare_queue("t:c", durable=True)
    topics.do("ENSURE_CHANNEL", "c")
    assert topics.queues() == topics.routes() == ["t:c"]


def test_what_a_topic_holds_is_left_to_move_to_a_queue_that_amqp_declared(topics):
    topics.ensure()
    topics.commands.declare_queue("t:c", durable=True)
    topics.do("ENSURE_CHANNEL", "c")
    assert topics.routes() == ["t:c"]
    assert topics.queues() == [HIDDEN, "t:c"]


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ({"type_name": "topic", "durable": True}, "has type 'topic', not 'fanout'"),
        ({"type_name": "fanout"}, "is not durable"),
        ({"type_name": "fanout", "durable": True, "internal": True}, "is internal"),
        (
            {"type_name": "fanout", "durable": True, "auto_delete": True},
            "is deleted when it is not used",
        ),
    ],
)
def test_an_exchange_that_cannot_be_the_topic_is_refused_with_the_reason(topics, declared, text):
    topics.commands.declare_exchange("t", **declared)
    assert not is_ready(topics.table, "t")
    for action in ("ENSURE_TOPIC", "ENSURE_CHANNEL"):
        with pytest.raises(TopicUnusableError) as refusal:
            topics.do(action, "c")
        assert refusal.value.reply_text == (
            f"PRECONDITION_FAILED - exchange 't' in vhost '/' {text}: it cannot be a topic"
        )


def test_a_durable_fanout_exchange_of_amqp_is_a_topic(topics):
    topics.commands.declare_exchange("t", "fanout", durable=True)
    topics.commands.declare_queue("q", durable=True)
    topics.commands.bind("q", "t")
    # What it is bound to is no channel.
    assert not is_ready(topics.table, "t")
    topics.ensure()
    assert topics.routes() == [HIDDEN, "q"]
    topics.ensure("c")
    assert topics.routes() == ["q", "t:c"]


def test_a_reserved_name_is_no_topic(topics):
    for topic in ("amq.t", "amq.fanout"):
        with pytest.raises(TopicUnusableError) as refusal:
            topics.do("ENSURE_TOPIC", topic=topic)
        text = f"ACCESS_REFUSED - topic name '{topic}' contains reserved prefix 'amq.*'"
        assert refusal.value.reply_text == text
        assert not is_ready(topics.table, topic)


def test_a_transient_queue_cannot_be_a_durable_channel(topics):
    topics.commands.declare_queue("t:c")
    with pytest.raises(TopicUnusableError):
        topics.do("ENSURE_CHANNEL", "c")


def test_an_exclusive_queue_is_no_channel(topics, refused):
    topics.commands.declare_queue("t:c", exclusive=True)
    with pytest.raises(Exception, match="RESOURCE_LOCKED"):
        topics.do("ENSURE_CHANNEL", "c")
    topics.ensure()
    assert topics.routes() == [HIDDEN]


def test_a_topic_whose_channels_amqp_deleted_has_its_hidden_queue_before_the_next_publish(topics):
    topics.ensure("c")
    topics.commands.delete_queue("t:c")
    assert not is_ready(topics.table, "t")
    topics.ensure()
    assert topics.routes() == [HIDDEN]


def test_a_topic_whose_exchange_amqp_deleted_leads_to_its_channels_again(topics):
    topics.ensure("c", "d")
    topics.topology.apply(topics.topology.prepare_delete_exchange("t"))
    assert not is_ready(topics.table, "t")
    topics.ensure()
    assert topics.routes() == ["t:c", "t:d"]


def test_the_hidden_queue_goes_with_its_exchange(topics):
    topics.ensure()
    topics.topology.apply(topics.topology.prepare_delete_exchange("t"))
    assert topics.queues() == []


def test_an_ephemeral_channel_is_a_queue_that_goes_with_its_last_consumer(topics):
    topics.ensure()
    queue = topics.do("ENSURE_CHANNEL", "c#ephemeral")
    assert (queue.durable, queue.auto_delete) == (False, True)
    # A durable queue cannot become it: its messages move.
    assert topics.queues() == [HIDDEN, "t:c#ephemeral"]
    assert topics.routes() == ["t:c#ephemeral"]


def test_of_an_ephemeral_topic_nothing_is_durable(topics):
    plan = topics.plan("ENSURE_TOPIC", topic="t#ephemeral")
    assert plan.catalog == ()
    topics.topology.apply(plan)
    assert topics.table.exchange("t#ephemeral").definition.auto_delete
    queue = topics.do("ENSURE_CHANNEL", "c", "t#ephemeral")
    assert (queue.name, queue.durable, queue.auto_delete) == ("t#ephemeral:c", False, False)
    assert topics.routes("t#ephemeral") == topics.queues() == ["t#ephemeral:c"]


def test_what_is_made_needs_permission_to_configure_it(topics):
    assert topics.plan("ENSURE_TOPIC").needed == (("configure", "exchange", "t"),)
    topics.ensure()
    assert topics.plan("ENSURE_TOPIC").needed == ()
    assert topics.plan("ENSURE_CHANNEL", "c").needed == (("configure", "queue", "t:c"),)
    topics.ensure("c")
    assert topics.plan("ENSURE_CHANNEL", "c").needed == ()


def test_nobody_finds_a_hidden_queue_by_its_name(topics, refused):
    topics.ensure()
    us = topics.commands.us
    for use in (
        lambda: topics.topology.queue(HIDDEN, us),
        lambda: topics.commands.bind(HIDDEN, "t"),
        lambda: topics.commands.declare_queue(HIDDEN, passive=True),
        lambda: topics.topology.prepare_pause_queue(HIDDEN, is_paused=True),
    ):
        with refused(404, f"NOT_FOUND - no queue '{HIDDEN}' in vhost '/'"):
            use()
    with refused(403, f"ACCESS_REFUSED - queue name '{HIDDEN}' contains reserved prefix 'amq.*'"):
        topics.commands.declare_queue(HIDDEN, durable=True)
    # No mistake, as with any queue that is not there.
    topics.commands.unbind(HIDDEN, "t", "")
    topics.commands.delete_queue(HIDDEN)
    assert topics.routes() == [HIDDEN]
    assert carry_out(topics.table.route("", HIDDEN)) == ()


# --- Delete


def test_a_deleted_topic_goes_with_its_channels(topics):
    topics.ensure("c", "d")
    # No channels: no name of NSQ's has a colon or a space.
    topics.commands.declare_queue("t:c:d", durable=True)
    topics.commands.declare_queue("t:of us", durable=True)
    assert set(topics.plan("DELETE_TOPIC").needed) == {
        ("configure", "exchange", "t"),
        ("configure", "queue", "t:c"),
        ("configure", "queue", "t:d"),
    }
    topics.do("DELETE_TOPIC")
    assert topics.table.find_exchange("t") is None
    assert topics.queues() == ["t:c:d", "t:of us"]


def test_a_deleted_topic_goes_with_its_hidden_queue(topics):
    topics.ensure()
    topics.do("DELETE_TOPIC")
    assert topics.queues() == []


def test_the_last_channel_leaves_the_hidden_queue_in_its_place(topics):
    topics.ensure("c", "d")
    topics.do("DELETE_CHANNEL", "c")
    assert topics.queues() == topics.routes() == ["t:d"]
    plan = topics.plan("DELETE_CHANNEL", "d")
    assert plan.catalog == plan.changes
    topics.topology.apply(plan)
    assert topics.queues() == topics.routes() == [HIDDEN]


def test_an_ephemeral_topic_goes_with_its_last_channel(topics):
    topics.ensure("c", "d", topic="t#ephemeral")
    topics.do("DELETE_CHANNEL", "c", "t#ephemeral")
    assert is_ready(topics.table, "t#ephemeral")
    topics.do("DELETE_CHANNEL", "d", "t#ephemeral")
    assert topics.queues() == []
    assert topics.table.find_exchange("t#ephemeral") is None


def test_a_paused_ephemeral_topic_goes_with_its_last_channel(topics):
    topics.ensure("c", topic="t#ephemeral")
    topics.do("PAUSE_TOPIC", topic="t#ephemeral")
    topics.do("DELETE_CHANNEL", "c", "t#ephemeral")
    assert topics.queues() == []


@pytest.mark.parametrize("action", ["DELETE_TOPIC", "PAUSE_TOPIC", "RESUME_TOPIC", "EMPTY_TOPIC"])
def test_a_topic_that_is_not_there_is_not_found(topics, action):
    with pytest.raises(NoTopicError, match="no topic 't'"):
        topics.do(action)
    # Another's exchange is not deleted.
    topics.commands.declare_exchange("t", "direct", durable=True)
    with pytest.raises(NoTopicError):
        topics.do(action)


@pytest.mark.parametrize(
    "action", ["DELETE_CHANNEL", "PAUSE_CHANNEL", "RESUME_CHANNEL", "EMPTY_CHANNEL"]
)
def test_a_channel_that_is_not_there_is_not_found(topics, action):
    with pytest.raises(NoTopicError):
        topics.do(action, "c")
    topics.ensure()
    with pytest.raises(NoChannelError, match="topic 't' has no channel 'c'"):
        topics.do(action, "c")


# --- Pause


def test_a_paused_topic_keeps_what_is_published(topics):
    topics.ensure("c", "d")
    plan = topics.plan("PAUSE_TOPIC")
    assert plan.catalog == plan.changes
    topics.topology.apply(plan)
    assert topics.routes() == [HIDDEN]
    assert topics.table.find_hidden_queue(HIDDEN).is_paused
    assert is_ready(topics.table, "t")
    assert topics.plan("PAUSE_TOPIC").changes == ()


def test_a_new_channel_of_a_paused_topic_gets_nothing(topics):
    topics.ensure()
    topics.do("PAUSE_TOPIC")
    topics.do("ENSURE_CHANNEL", "c")
    assert topics.routes() == [HIDDEN]
    assert topics.table.find_hidden_queue(HIDDEN).is_paused
    assert topics.plan("ENSURE_CHANNEL", "c").changes == ()


def test_a_resumed_topic_leads_to_all_its_channels(topics):
    topics.ensure("c")
    topics.do("PAUSE_TOPIC")
    topics.do("ENSURE_CHANNEL", "d")
    plan = topics.plan("RESUME_TOPIC")
    assert plan.catalog == plan.changes
    topics.topology.apply(plan)
    assert topics.routes() == ["t:c", "t:d"]
    hidden = topics.table.find_hidden_queue(HIDDEN)
    assert not hidden.is_paused
    assert topics.plan("RESUME_TOPIC").changes == ()


def test_a_topic_without_channels_is_paused_and_resumed(topics):
    topics.ensure()
    hidden = topics.table.find_hidden_queue(HIDDEN)
    topics.do("PAUSE_TOPIC")
    topics.do("RESUME_TOPIC")
    assert not hidden.is_paused
    assert topics.routes() == [HIDDEN]
    # As if it had not been paused.
    assert topics.do("ENSURE_CHANNEL", "c") is hidden


def test_a_topic_is_paused_again_while_its_messages_move(topics):
    topics.ensure("c")
    topics.do("PAUSE_TOPIC")
    hidden = topics.table.find_hidden_queue(HIDDEN)
    topics.do("RESUME_TOPIC")
    topics.do("PAUSE_TOPIC")
    assert topics.table.find_hidden_queue(HIDDEN) is hidden
    assert topics.routes() == [HIDDEN]
    assert hidden.is_paused


def test_the_last_channel_goes_while_messages_move_to_it(topics):
    topics.ensure("c")
    topics.do("PAUSE_TOPIC")
    topics.do("RESUME_TOPIC")
    topics.do("DELETE_CHANNEL", "c")
    assert topics.routes() == topics.queues() == [HIDDEN]


def test_a_channel_is_paused_and_resumed(topics):
    topics.ensure("c")
    assert topics.plan("PAUSE_CHANNEL", "c").needed == (("configure", "queue", "t:c"),)
    queue = topics.do("PAUSE_CHANNEL", "c")
    assert queue.is_paused
    assert topics.plan("PAUSE_CHANNEL", "c").changes == ()
    topics.do("RESUME_CHANNEL", "c")
    assert not queue.is_paused


def test_a_new_channel_beside_others_is_a_new_queue(topics):
    topics.ensure("c")
    plan = topics.plan("ENSURE_CHANNEL", "d")
    assert [change.queue.name for change in plan.changes if isinstance(change, AddQueue)] == ["t:d"]


# --- Empty


def test_an_emptied_channel_is_its_queue(topics):
    topics.ensure("c")
    plan = topics.plan("EMPTY_CHANNEL", "c")
    assert (plan.queue.name, plan.changes) == ("t:c", ())
    assert plan.needed == (("read", "queue", "t:c"),)


def test_an_emptied_topic_is_its_hidden_queue_and_not_its_channels(topics):
    topics.ensure()
    plan = topics.plan("EMPTY_TOPIC")
    assert (plan.queue.name, plan.changes) == (HIDDEN, ())
    topics.ensure("c")
    assert topics.plan("EMPTY_TOPIC").queue is None
