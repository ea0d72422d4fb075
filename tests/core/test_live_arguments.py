"""Arguments that are set, changed and cleared on a queue that holds messages, in every state."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from batches import batch_of
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.definitions import QueueDefinition, ReplaceQueueArguments
from leveret.core.exchanges.table import ExchangeTable
from leveret.core.queue.construction import equip, make_queue
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.rules import Effects
from leveret.core.queue.sizing import SizedRow
from wire import publish

ALL = 1 << 62
NOW_MS = 1_000_000
DELAY_MS = 60_000
SIZE = 10
DLX = {"x-dead-letter-exchange": "dlx"}
STATES = ("resident", "paged", "deferred", "in flight")
every_state = pytest.mark.parametrize("state", STATES)


class Read:
    """Messages that the disk had."""

    def __init__(self, batch: Batch, first_entry_id: int) -> None:
        self.batch = batch
        self.indexes = range(len(batch))
        self.first_entry_id = first_entry_id


def bodies(count: int, **properties: Any) -> Batch:
    about = Properties(delivery_mode=2, **properties)
    return batch_of(*[publish("q", bytes(SIZE), about)] * count)


class LiveQueue:
    """A queue whose messages are in one state, and a disk that answers at once."""

    def __init__(self, state: str, count: int, arguments: dict[str, Any]) -> None:
        self.state = state
        self.queue = make_queue("the queue", True, table_of(arguments), ALL)
        self.pass_time(0)
        self.dead: list[tuple[int, str]] = []
        self.settled: list[int] = []
        self.rejected = 0
        if count:
            self.publish(count, delay_ms=DELAY_MS if state == "deferred" else 0)
        if state == "in flight":
            self.deliver()
        if state == "paged":
            self.page_out()

    def pass_time(self, passed_ms: int) -> None:
        self.queue.now_ms = (self.queue.now_ms or NOW_MS) + passed_ms
        self.queue.uptime_ms += passed_ms

    def page_out(self) -> None:
        self.queue.page_out(0, self.queue.next_entry_id)
        assert self.queue.held_bytes == 0

    def publish(self, count: int, delay_ms: int = 0, **properties: Any) -> None:
        effects = Effects()
        self.queue.publish(bodies(count, **properties), range(count), effects, delays_ms=delay_ms)
        self.carry_out(effects)

    def deliver(self) -> None:
        """A consumer gets all that is ready, and no more."""
        self.consumer = Consumer("channel", b"\1c", 0, ChannelCredit(), False, False)
        self.queue.add_consumer(self.consumer)
        effects = Effects()
        self.queue.dispatch(effects)
        self.carry_out(effects)
        self.held = [delivery for _, some in effects.delivered for delivery in some]
        for delivery in self.held:
            delivery.first_tag = 1
        cancelled = Effects()
        self.queue.cancel("channel", b"\1c", cancelled)

    def give_back(self) -> None:
        """The channel gives back what it holds."""
        effects = Effects()
        parts = [(delivery, *part) for delivery in self.held for part in delivery.remaining]
        self.queue.requeue("channel", parts, effects)
        self.carry_out(effects)

    def replace(self, arguments: dict[str, Any]) -> None:
        """These arguments are in effect from now on, and no others."""
        equip(self.queue, table_of(arguments), ALL)
        effects = Effects()
        self.queue.dispatch(effects)
        self.carry_out(effects)

    def wake(self) -> None:
        effects = Effects()
        self.queue.expire(effects)
        self.carry_out(effects)

    def carry_out(self, effects: Effects) -> None:
        """Note who left; let the disk answer."""
        while (wanted := self.queue.wanted(0)) is not None:
            last = wanted.ranges[-1][1]
            if wanted.is_sizing:
                sizes = [
                    SizedRow(first, array("I", [SIZE] * (end + 1 - first)))
                    for first, end in wanted.ranges
                ]
                self.queue.count_sizes(sizes, last, effects)
            else:
                rows = [Read(bodies(end + 1 - first), first) for first, end in wanted.ranges]
                self.queue.read(rows, last, effects)
            self.queue.dispatch(effects)
        for span, reason in effects.dead:
            assert not span.is_paged or not self.queue.dead_letters
            self.dead += [(span.first_entry_id + at, reason) for at in range(len(span))]
        for first, last in effects.settled_entries:
            self.settled += range(first, last + 1)
        self.rejected += len(effects.rejected or ())

    @property
    def message_count(self) -> int:
        return self.queue.ready.message_count + self.queue.deferred_count

    @property
    def entries(self) -> list[int]:
        return [
            span.first_entry_id + at for span in self.queue.waiting() for at in range(len(span))
        ]


@every_state
def test_a_time_to_live_that_is_set_later_is_for_new_messages(state: str) -> None:
    """As in RabbitMQ: a deadline is reckoned when a message enters."""
    live = LiveQueue(state, 3, {})
    live.replace({"x-message-ttl": 100})
    live.pass_time(1_000)
    live.wake()
    assert not live.dead
    live.publish(1)
    live.pass_time(1_000)
    live.wake()
    if state == "in flight":
        assert live.dead == [(4, "expired")]
        live.give_back()
        assert live.entries == [1, 2, 3]
    elif state == "deferred":
        assert live.dead == [(4, "expired")], "nothing ready is before it"
    else:
        assert not live.dead, "a message expires at the head only"
        live.queue.purge(Effects())
        assert not live.message_count


@every_state
def test_messages_keep_the_deadline_that_they_entered_with(state: str) -> None:
    for later in ({}, {"x-message-ttl": 10}, {"x-message-ttl": 9_000_000}):
        live = LiveQueue(state, 2, {"x-message-ttl": 5_000, **DLX})
        live.replace({**later, **DLX})
        live.pass_time(4_999)
        live.wake()
        assert not live.dead
        live.pass_time(1)
        live.wake()
        if state == "in flight":
            assert not live.dead
            live.give_back()
        assert live.dead == [(1, "expired"), (2, "expired")]


@pytest.mark.parametrize(
    "limit", [{"x-max-length": 2}, {"x-max-length-bytes": 2 * SIZE}], ids=["messages", "bytes"]
)
@pytest.mark.parametrize("letters", [{}, DLX], ids=["no letters", "letters"])
@every_state
def test_a_shorter_queue_drops_from_the_head_at_once(
    state: str, limit: dict[str, int], letters: dict[str, str]
) -> None:
    live = LiveQueue(state, 5, letters)
    live.replace({**limit, **letters})
    if state == "in flight":
        assert not live.dead, "messages in flight do not count"
        live.give_back()
    assert live.dead == [(1, "maxlen"), (2, "maxlen"), (3, "maxlen")]
    assert live.settled == ([] if letters else [1, 2, 3])
    assert live.entries == [4, 5]
    live.replace(letters)
    live.publish(3)
    assert live.message_count == 5, "no limit any more"
    smaller = {name: value // 2 for name, value in limit.items()}
    live.replace({**smaller, **letters})
    assert live.message_count == 1


@every_state
def test_the_rule_over_the_limit_changes(state: str) -> None:
    live = LiveQueue(state, 4, {})
    live.replace({"x-max-length": 2, "x-overflow": "reject-publish"})
    if state == "in flight":
        live.give_back()
    assert not live.dead, "a queue that rejects drops nothing that it has"
    live.publish(1)
    assert live.rejected == 1
    live.replace({"x-max-length": 2, "x-overflow": "reject-publish-dlx", **DLX})
    live.publish(1)
    assert live.rejected == 2
    assert len(live.dead) == 1
    live.dead.clear()
    live.replace({"x-max-length": 2})
    assert live.dead == [(1, "maxlen"), (2, "maxlen")]
    live.replace({})
    live.publish(3)
    assert live.message_count == 5


@every_state
def test_a_dead_letter_exchange_that_is_set_or_cleared_counts_from_then_on(state: str) -> None:
    live = LiveQueue(state, 3, {"x-max-length": 3})
    live.replace({"x-max-length": 3, **DLX})
    assert live.queue.dead_letters
    if state == "in flight":
        effects = Effects()
        live.queue.discard("channel", [(live.held[0], 0, 1)], effects)
        live.carry_out(effects)
    else:
        live.replace({"x-max-length": 2, **DLX})
    assert [entry for entry, _ in live.dead] == [1]
    assert not live.settled, "not before its dead letter is safe"
    live.replace({"x-max-length": 1})
    if state == "in flight":
        live.give_back()
    assert live.settled == [2]
    assert live.entries == [3]


def test_letters_that_wait_to_be_read_are_settled_when_the_exchange_goes() -> None:
    live = LiveQueue("paged", 2, DLX)
    queue = live.queue
    equip(queue, table_of({"x-max-length": 0, **DLX}), ALL)
    queue.dispatch(Effects())
    assert queue.dying
    live.replace({"x-max-length": 0})
    assert not queue.dying
    assert live.settled == [1, 2]


@every_state
def test_a_delivery_limit_that_is_set_later_judges_attempts_that_were_made(state: str) -> None:
    live = LiveQueue("in flight", 2, {})
    live.give_back()
    live.deliver()
    if state != "in flight":
        if state == "deferred":
            live.replace({"x-requeue-delay": DELAY_MS})
        live.give_back()
        if state == "paged":
            live.page_out()
    live.replace({"x-delivery-limit": 1, **DLX})
    if state == "in flight":
        assert not live.dead
        live.give_back()
    assert live.dead == [(1, "delivery_limit"), (2, "delivery_limit")]


def test_a_delivery_limit_that_is_raised_or_cleared_lets_messages_stay() -> None:
    for later in ({"x-delivery-limit": 5}, {}):
        live = LiveQueue("in flight", 1, {"x-delivery-limit": 0})
        live.replace(later)
        live.give_back()
        assert live.entries == [1]


@every_state
def test_the_arguments_in_effect_are_those_of_the_last_change(state: str) -> None:
    """All at once, and all away again."""
    everything: dict[str, Any] = {
        "x-message-ttl": 60_000_000,
        "x-expires": 60_000_000,
        "x-max-length": 100,
        "x-max-length-bytes": 100_000,
        "x-overflow": "reject-publish",
        "x-delivery-limit": 9,
        "x-consumer-timeout": 60_000,
        "x-dedup-window": 100,
        "x-dedup-age-ms": 60_000,
        "x-in-flight-timeout": 60_000,
        "x-requeue-delay": 10,
        **DLX,
    }
    live = LiveQueue(state, 4, {})
    live.replace(everything)
    assert live.queue.deduplication is not None
    live.replace({})
    if state == "in flight":
        live.give_back()
    assert not live.dead
    assert live.entries == [1, 2, 3, 4]
    left = {part.name for part in live.queue.parts}
    assert left == ({"deferral"} if state == "deferred" else set())


def definition() -> QueueDefinition:
    declared = table_of({"x-consumer-timeout": 5})
    return QueueDefinition("q", 1, True, arguments=declared)


def test_a_declaration_is_compared_with_its_own_arguments() -> None:
    table, queue = ExchangeTable(), definition()
    assert queue.effective == queue.arguments
    replaced = table_of({"x-in-flight-timeout": 7})
    table.apply((ReplaceQueueArguments(queue, replaced),))
    assert queue.effective == replaced
    assert queue.consumer_timeout_ms is None
    assert queue.in_flight_timeout_ms == 7
    assert queue.counts_deliveries
    assert list(queue.arguments) == ["x-consumer-timeout"]
    table.apply((ReplaceQueueArguments(queue, queue.arguments),))
    assert queue.consumer_timeout_ms == 5
    assert not queue.counts_deliveries
