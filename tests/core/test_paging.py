"""Rows whose bytes are on the disk only: packed columns, the backlog, and what is read of them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from random import Random

import pytest
from batches import batch_of
from dashed import dashed
from leveret.amqp_frames.messages.batch import Batch, Indexes
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.construction import make_queue, refill_paged
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.paging import SPILLED_BYTES_MAX, PagedRows, Wanted, matched
from leveret.core.queue.rules import READ_COUNT_MAX, Effects, MessageQueue
from leveret.core.queue.span import PagedSpan, Span, positions_in
from sweeping import EagerSweep
from wire import publish

ALL = 1 << 62


class Read:
    """Messages that the disk had."""

    def __init__(self, batch: Batch, indexes: Indexes, first_entry_id: int) -> None:
        self.batch = batch
        self.indexes = indexes
        self.first_entry_id = first_entry_id


def persistent(count: int, size: int = 10) -> Batch:
    return batch_of(*[publish("q", bytes(size), Properties(delivery_mode=2))] * count)


def transient(count: int) -> Batch:
    batch = batch_of(*[publish("q", b"x", Properties(delivery_mode=1))] * count)
    batch.durable = range(0)
    return batch


def queue_of(**arguments: object) -> MessageQueue:
    named = dashed(arguments)
    return make_queue("the queue", True, table_of(named), ALL)


def enter(queue: MessageQueue, batch: Batch) -> Effects:
    effects = Effects()
    queue.publish(batch, range(len(batch)), effects)
    return effects


def consumer_of(queue: MessageQueue, prefetch: int = 0) -> Consumer:
    consumer = Consumer("channel", b"\1c", prefetch, ChannelCredit(), False, False)
    queue.add_consumer(consumer)
    return consumer


def entries(effects: Effects) -> list[int]:
    return [
        delivery.span.first_entry_id + position
        for _, deliveries in effects.delivered
        for delivery in deliveries
        for position in range(len(delivery.span))
    ]


def test_a_million_rows_in_order_are_one_run() -> None:
    rows = PagedRows()
    for entry in range(1, 1_000_001, 100):
        rows.append(PagedSpan(entry, 100, 0, True))
    assert len(rows) == 1
    assert rows.message_count == 1_000_000
    assert rows.front(10) == ([(1, 10)], False)


def test_packed_rows_are_those_that_were_packed() -> None:
    seed = Random().randrange(1 << 32)
    print(f"SEED={seed}")
    random = Random(seed)
    for _ in range(60):
        keeps_sizes = random.random() < 0.5
        rows = PagedRows(priority=3, keeps_sizes=keeps_sizes)
        naive: list[tuple[int, int, bool, int, bool, int]] = []
        entry = 1
        for _ in range(random.randint(1, 120)):
            if random.random() < 0.6 or not naive:
                entry += random.choice((0, 0, 0, 1, 5))
                count = random.randint(1, 4)
                attempts, deadline = random.choice((0, 0, 2)), random.choice((0, 0, 77, 90))
                is_spilled, stored = random.random() < 0.2, random.random() < 0.9
                sizes = array("I", [random.randrange(9) for _ in range(count)])
                rows.append(
                    PagedSpan(entry, count, attempts, stored, deadline, is_spilled, 3, sizes)
                )
                naive += [
                    (entry + at, attempts, stored, deadline, is_spilled, sizes[at])
                    for at in range(count)
                ]
                entry += count
            elif random.random() < 0.8:
                span = rows.dequeue(random.randint(1, 6))
                assert naive[: len(span)] == list(messages_in(span, keeps_sizes, naive))
                del naive[: len(span)]
            else:
                first = random.randint(1, entry)
                ranges = [(first, first + random.randint(0, 5))]
                withdrawn: list[Span] = []
                rows.withdraw(ranges, withdrawn)
                gone = [each for each in naive if ranges[0][0] <= each[0] <= ranges[0][1]]
                assert sum(map(len, withdrawn)) == len(gone)
                naive = [each for each in naive if each not in gone]
            assert rows.message_count == len(naive)
            found = [each for span in rows for each in messages_in(span, keeps_sizes, naive)]
            assert found == naive


def messages_in(
    span: PagedSpan, keeps_sizes: bool, naive: list[tuple[int, int, bool, int, bool, int]]
) -> list[tuple[int, int, bool, int, bool, int]]:
    known = {each[0]: each[5] for each in naive}
    assert span.priority == 3
    assert (span.sizes is not None) == keeps_sizes
    return [
        (
            span.first_entry_id + at,
            span.attempts,
            span.stored,
            span.deadline_ms,
            span.is_spilled,
            known[span.first_entry_id + at] if span.sizes is None else span.sizes[at],
        )
        for at in range(len(span))
    ]


def test_paged_rows_take_no_memory_and_are_read_for_a_consumer() -> None:
    queue = queue_of()
    batches = [persistent(10) for _ in range(5)]
    for batch in batches:
        enter(queue, batch)
    before = queue.held_bytes
    unspilled, _ = queue.page_out(0, queue.next_entry_id)
    assert not unspilled
    assert queue.held_bytes == 0 < before
    assert queue.counts()[0] == 50
    assert queue.wanted(1 << 20) is None, "nobody wants any"
    consumer_of(queue)
    effects = Effects()
    queue.dispatch(effects)
    assert not effects.delivered
    wanted = queue.wanted(1 << 20)
    assert wanted is not None
    assert wanted.ranges == [(1, 50)]
    assert queue.wanted(1 << 20) is None, "they are being read"
    # Only a part of it in one go.
    queue.read([Read(batches[0], range(10), 1), Read(batches[1], range(4), 11)], 14, effects)
    queue.dispatch(effects)
    assert entries(effects) == list(range(1, 15))
    assert queue.wanted(1 << 20) is not None


def test_a_returned_message_goes_before_what_is_being_read() -> None:
    queue = queue_of()
    consumer = consumer_of(queue, prefetch=1)
    batch = persistent(6)
    effects = enter(queue, batch)
    [(_, [delivery])] = effects.delivered
    queue.page_out(0, queue.next_entry_id)
    # Two are wanted ahead of delivery, and before they are there the first comes back.
    wanted = queue.wanted(1 << 20)
    assert wanted is not None
    assert wanted.ranges == [(2, 6)]
    effects = Effects()
    consumer.channel_credit.release(1)
    queue.requeue("channel", [(delivery, 0, 1)], effects)
    assert entries(effects) == [1]
    effects = Effects()
    queue.read([Read(batch, range(1, 6), 2)], 6, effects)
    queue.dispatch(effects)
    assert not effects.delivered
    assert [span.first_entry_id for span in queue.ready] == [2]


def test_transient_rows_are_spilled_in_order_with_persistent_ones() -> None:
    queue = queue_of()
    for batch in (persistent(2), transient(3), persistent(2)):
        enter(queue, batch)
    unspilled, _ = queue.page_out(0, queue.next_entry_id)
    assert [(span.first_entry_id, len(span)) for span in unspilled] == [(3, 3)]
    resident = [span.first_entry_id for span in queue.ready if not span.is_paged]
    assert resident == [3, 6], "rows behind one that is on no disk stay"
    unspilled, used = queue.page_out(0, queue.next_entry_id, [(3, 5)])
    assert not unspilled
    assert used == [(3, 5)]
    assert queue.held_bytes == 0
    consumer_of(queue)
    queue.dispatch(Effects())
    wanted = queue.wanted(1 << 20)
    assert wanted is not None
    assert (wanted.ranges, wanted.is_spilled) == ([(1, 2)], False), "one place at a time"


def test_a_row_that_the_journal_has_not_synced_is_not_paged() -> None:
    queue = queue_of()
    enter(queue, persistent(2))
    enter(queue, persistent(2))
    queue.page_out(0, synced_below=3)
    assert [span.is_paged for span in queue.ready] == [True, False]


def test_purging_and_expiring_read_nothing() -> None:
    queue = queue_of(x_message_ttl=10)
    enter(queue, persistent(1000))
    enter(queue, persistent(5))
    queue.page_out(0, queue.next_entry_id)
    queue.now_ms = 11
    effects = Effects()
    queue.expire(effects)
    assert effects.settled_entries == [(1, 1005)]
    enter(queue, persistent(3))
    queue.page_out(0, queue.next_entry_id)
    effects = Effects()
    assert queue.purge(effects) == 3
    assert effects.settled_entries == [(1006, 1008)]
    assert queue.wanted(1 << 20) is None


def test_dead_letters_are_read_some_at_a_time() -> None:
    queue = queue_of(x_message_ttl=10, x_dead_letter_exchange="dlx")
    count = READ_COUNT_MAX + 10
    batch = persistent(count)
    enter(queue, batch)
    queue.page_out(0, queue.next_entry_id)
    queue.now_ms = 11
    effects = Effects()
    queue.expire(effects)
    assert not effects.dead
    assert queue.counts()[0] == 0
    left = []
    while (wanted := queue.wanted(1 << 20)) is not None:
        [(first, last)] = wanted.ranges
        assert last - first < READ_COUNT_MAX
        effects = Effects()
        queue.read([Read(batch, range(first - 1, last), first)], last, effects)
        assert not effects.settled_entries, "not before the letters are safe"
        left += [(span.first_entry_id, len(span), reason) for span, reason in effects.dead]
    assert left == [(1, READ_COUNT_MAX, "expired"), (READ_COUNT_MAX + 1, 10, "expired")]


def test_what_cannot_be_read_leaves_and_is_named() -> None:
    queue = queue_of()
    batch = persistent(5)
    enter(queue, batch)
    queue.page_out(0, queue.next_entry_id)
    consumer_of(queue)
    queue.dispatch(Effects())
    queue.wanted(1 << 20)
    effects = Effects()
    lost = queue.read([Read(batch, range(1), 1), Read(batch, range(3, 5), 4)], 5, effects)
    queue.dispatch(effects)
    assert lost == [(2, 3)]
    assert effects.settled_entries == [(2, 3)]
    assert entries(effects) == [1, 4, 5]
    assert queue.counts()[0] == 0


def test_entries_that_the_journal_lost_leave_unless_they_are_resident() -> None:
    queue = queue_of(x_max_length_bytes=10_000)
    for _ in range(4):
        enter(queue, persistent(10))
    batch = persistent(10)
    effects = Effects()
    queue.publish(batch, range(10), effects, delays_ms=60_000)
    queue.page_out(queue.held_bytes // 2 - 1, 51)
    resident = [span for span in queue.ready if not span.is_paged]
    assert resident
    paged_first = resident[-1].first_entry_id + len(resident[-1])
    assert paged_first <= 31
    effects = Effects()
    # The first of these are in memory.
    queue.lose([(1, 5), (35, 36), (44, 44)], effects)
    assert effects.settled_entries == [(35, 36), (44, 44)]
    assert (queue.ready.message_count, queue.deferred_count) == (38, 9)
    effects = Effects()
    queue.lose([(35, 36)], effects)
    assert not effects.settled_entries
    # The sizes of those that left do not count: there is room for just this.
    enter(queue, persistent(1, 10_000 - 470))
    assert (queue.ready.message_count, queue.deferred_count) == (39, 9)


def test_entries_that_are_lost_while_they_are_read_leave_once() -> None:
    queue = queue_of()
    batch = persistent(10)
    enter(queue, batch)
    queue.page_out(0, 11)
    consumer_of(queue)
    effects = Effects()
    queue.dispatch(effects)
    wanted = queue.wanted(0)
    assert wanted is not None
    queue.lose([(3, 4)], effects)
    effects = Effects()
    rows = [Read(batch, range(2), 1), Read(batch, range(4, 10), 5)]
    assert queue.read(rows, 10, effects) == []
    queue.dispatch(effects)
    assert entries(effects) == [1, 2, 5, 6, 7, 8, 9, 10]


def test_a_delivery_in_flight_is_paged_and_comes_back_so() -> None:
    queue = queue_of()
    consumer = consumer_of(queue, prefetch=4)
    batch = persistent(4)
    [(_, [delivery])] = enter(queue, batch).delivered
    queue.page_out(0, queue.next_entry_id)
    assert not delivery.span.is_paged, "its channel has not encoded it yet"
    delivery.first_tag = 1
    queue.page_out(0, queue.next_entry_id)
    assert delivery.span.is_paged
    assert queue.held_bytes == 0
    consumer.channel_credit.release(4)
    effects = Effects()
    queue.settle("channel", [(delivery, 0, 1)], effects)
    assert effects.settled_entries == [(1, 1)]
    queue.requeue("channel", [(delivery, 1, 4)], Effects())
    wanted = queue.wanted(1 << 20)
    assert wanted is not None
    assert wanted.ranges == [(2, 4)]
    effects = Effects()
    queue.read([Read(batch, range(1, 4), 2)], 4, effects)
    queue.dispatch(effects)
    assert entries(effects) == [2, 3, 4]
    [(_, [delivery])] = effects.delivered
    assert delivery.attempts == 2


def spilled_to_the_end(queue: MessageQueue) -> list[tuple[int, int]]:
    """Page as the queue's actor does; returns what went to the spill."""
    spilled: list[tuple[int, int]] = []
    now: list[tuple[int, int]] = []
    while True:
        unspilled, used = queue.page_out(0, queue.next_entry_id, now)
        assert sorted(used) == now
        if not unspilled:
            return sorted(spilled)
        now = [(each.first_entry_id, each.first_entry_id + len(each) - 1) for each in unspilled]
        assert now == sorted(now)
        spilled += now


def test_transient_rows_that_came_back_are_deferred_or_in_flight_are_spilled() -> None:
    queue = queue_of()
    consumer = consumer_of(queue, prefetch=6)
    batch = transient(2)
    deliveries = [enter(queue, batch).delivered[0][1][0] for _ in range(3)]
    for tag, delivery in enumerate(deliveries):
        delivery.first_tag = 1 + 2 * tag
    consumer.channel_credit.release(6)
    queue.requeue("channel", [(deliveries[0], 0, 2)], Effects(), delay_ms=60_000)
    queue.pause()
    queue.requeue("channel", [(deliveries[1], 0, 2)], Effects())
    assert spilled_to_the_end(queue) == [(1, 2), (3, 4), (5, 6)]
    assert queue.held_bytes == 0
    effects = Effects()
    queue.settle("channel", [(deliveries[2], 0, 1)], effects)
    assert effects.unspilled_entries == [(5, 5)]
    queue.requeue("channel", [(deliveries[2], 1, 2)], Effects())
    queue.resume(Effects())
    wanted = queue.wanted(1 << 20)
    assert wanted is not None
    assert (wanted.ranges, wanted.is_spilled) == ([(3, 4), (6, 6)], True)
    effects = Effects()
    queue.read([Read(batch, range(2), 3), Read(batch, range(1, 2), 6)], 6, effects)
    assert effects.unspilled_entries == [(3, 4), (6, 6)]
    queue.dispatch(effects)
    assert entries(effects) == [3, 4, 6]
    effects = Effects()
    assert queue.purge(effects) == 2
    assert effects.unspilled_entries == [(1, 2)]


@pytest.mark.parametrize("batch_made_by", [persistent, transient])
def test_a_delivery_that_is_answered_in_part_is_paged(
    batch_made_by: Callable[[int], Batch],
) -> None:
    queue = queue_of()
    consumer = consumer_of(queue, prefetch=10)
    batch = batch_made_by(10)
    [(_, [delivery])] = enter(queue, batch).delivered
    delivery.first_tag = 1
    consumer.channel_credit.release(10)
    queue.settle("channel", [(delivery, 0, 2), (delivery, 5, 6)], Effects())
    spilled = spilled_to_the_end(queue)
    assert spilled == ([] if batch_made_by is persistent else [(3, 5), (7, 10)])
    assert delivery.span.is_paged
    assert queue.held_bytes == 0
    effects = Effects()
    queue.settle("channel", [(delivery, 2, 5)], effects)
    assert effects.settled_entries == ([(3, 5)] if batch_made_by is persistent else [])
    assert effects.unspilled_entries == (None if batch_made_by is persistent else [(3, 5)])
    queue.channel_down("channel", Effects())
    assert [(span.first_entry_id, len(span)) for span in queue.ready] == [(7, 4)]
    assert queue.held_bytes == 0


def test_what_is_left_of_deliveries_in_a_copied_read_is_paged_with_its_own_priority() -> None:
    queue = queue_of(x_max_priority=5)
    queue.sweep = EagerSweep()
    consumer_of(queue, prefetch=10)
    batch = batch_of(
        *[publish("q", b"x", Properties(delivery_mode=2, priority=each)) for each in (5, 5, 1, 1)]
    )
    effects = Effects()
    for row in queue.rows_of(batch, range(4)):
        queue.publish(batch, row, effects)
    high, low = [delivery for _, deliveries in effects.delivered for delivery in deliveries]
    high.first_tag, low.first_tag = 1, 3
    queue.settle("channel", [(high, 0, 1), (low, 0, 1)], Effects())
    queue.sweep.run_over_all((), (high, low), queue.next_entry_id)
    assert len(high.span.batch) == 2
    queue.page_out(0, queue.next_entry_id)
    assert high.span.is_paged
    assert low.span.is_paged
    queue.channel_down("channel", Effects())
    assert [(span.first_entry_id, len(span)) for span in queue.ready] == [(2, 1), (4, 1)]


@pytest.mark.parametrize("delay_ms", [None, 60_000])
def test_more_transient_rows_than_are_spilled_at_once_are_spilled_in_the_end(
    delay_ms: int | None,
) -> None:
    queue = queue_of()
    consumer_of(queue)
    batch = batch_of(publish("q", bytes(5_000), Properties(delivery_mode=1)))
    batch.durable = range(0)
    count = 2 * SPILLED_BYTES_MAX // 5_000
    for tag in range(1, count + 1):
        effects = Effects()
        queue.publish(batch, range(1), effects, delays_ms=delay_ms or 0)
        for _, deliveries in effects.delivered:
            deliveries[0].first_tag = tag
    assert queue.counts()[2] == (0 if delay_ms else count)
    assert len(spilled_to_the_end(queue)) == count
    assert queue.held_bytes == 0


def test_deferred_messages_of_mixed_priorities_are_paged_with_these() -> None:
    """Within limits they are not divided when they enter."""
    queue = queue_of(x_max_priority=5, x_max_length=10)
    batch = batch_of(
        *[publish("q", b"x", Properties(delivery_mode=2, priority=each)) for each in (1, 5, 5, 0)]
    )
    queue.publish(batch, range(4), Effects(), delays_ms=1_000)
    queue.page_out(0, queue.next_entry_id)
    assert queue.held_bytes == 0
    queue.uptime_ms = 1_000
    queue.expire(Effects())
    assert [(span.first_entry_id, len(span)) for span in queue.ready] == [(2, 2), (1, 1), (4, 1)]


def test_a_queue_with_a_limit_by_bytes_knows_the_sizes_of_paged_messages() -> None:
    queue = queue_of(x_max_length_bytes=100)
    enter(queue, persistent(9, size=10))
    queue.page_out(0, queue.next_entry_id)
    effects = Effects()
    batch = persistent(1, size=35)
    queue.publish(batch, range(1), effects)
    assert effects.settled_entries == [(1, 3)], "three of ten bytes make room"
    assert queue.wanted(1 << 20) is None


def test_what_was_read_ahead_in_vain_is_paged_again() -> None:
    queue = queue_of()
    consumer = consumer_of(queue, prefetch=1)
    batch = persistent(6)
    [(_, [first])] = enter(queue, batch).delivered
    enter(queue, persistent(4))
    queue.page_out(0, queue.next_entry_id)
    assert queue.wanted(0) is None
    assert queue.wanted(1 << 20) is not None
    queue.read([Read(batch, range(1, 6), 2)], 6, Effects())
    queue.page_out(0, queue.next_entry_id)
    assert all(span.is_paged for span in queue.ready)
    consumer.channel_credit.release(1)
    queue.settle("channel", [(first, 0, 1)], Effects())
    wanted = queue.wanted(1 << 20)
    assert wanted is not None
    assert wanted.ranges == [(2, 6), (7, 10)], "in its old place, with those behind it"


def test_a_restored_queue_has_nothing_in_memory() -> None:
    queue = queue_of()
    queue.now_ms, queue.uptime_ms = 1_000, 50
    refill_paged(queue, [(1, 500_000, 0, 0, 0), (500_001, 2, 3, 0, 0), (500_003, 7, 0, 0, 1_010)])
    assert queue.counts()[0] == 500_002
    assert queue.deferred_count == 7
    assert queue.next_entry_id == 500_010
    assert queue.held_bytes == 0
    assert [(len(span), span.attempts) for span in queue.ready] == [(500_000, 0), (2, 3)]


def test_messages_due_at_a_start_do_not_wait_for_those_that_become_due_behind_it() -> None:
    """Each read has few messages, and in the time of each several that lie before come back."""
    seed, count, in_read, read_ms, start_ms = 7, 2_000, 60, 8, 10_000
    random = Random(seed)
    queue = queue_of()
    queue.now_ms, queue.uptime_ms = start_ms, 0
    due = [random.choice((0, start_ms + random.randrange(1, 2_000))) for _ in range(count)]
    refill_paged(queue, [(number + 1, 1, 1, 0, each) for number, each in enumerate(due)])
    waiting = {number + 1 for number, each in enumerate(due) if not each}
    consumer_of(queue)
    batch = persistent(count)
    reads = came = late_ms = 0
    queue.dispatch(Effects())
    while waiting:
        wanted = queue.wanted(0)
        assert wanted is not None
        ids = [each for first, last in wanted.ranges for each in range(first, last + 1)][:in_read]
        assert ids == sorted(ids)
        effects = Effects()
        # The disk takes its time.
        for _ in range(read_ms):
            queue.now_ms += 1
            queue.uptime_ms += 1
            assert queue.wait_ms() is None, "the timer would ring in vain"
            queue.expire(effects)
        assert not effects.delivered
        rows = [Read(batch, range(each - 1, each), each) for each in ids]
        assert queue.read(rows, ids[-1], effects) == []
        queue.dispatch(effects)
        queue.expire(effects)
        delivered = entries(effects)
        assert delivered == ids
        late_ms = max([late_ms, *(queue.now_ms - (due[each - 1] or start_ms) for each in ids)])
        assert all(due[each - 1] <= queue.now_ms for each in delivered)
        waiting.difference_update(delivered)
        reads += 1
        came += len(delivered)
    # Each read is full, so nothing is later than all that were due before it take.
    assert reads == -(-came // in_read)
    assert late_ms <= reads * read_ms


@pytest.mark.parametrize("gap", [0, 1, 3])
def test_rows_are_matched_by_entry_id(gap: int) -> None:
    batch = persistent(6)
    pieces = [PagedSpan(1, 3, 0, True), PagedSpan(4, 3, 1, True)]
    rows = [Read(batch, range(gap, 6), 1 + gap)]
    found, missing, _ = matched(pieces, rows)
    assert sum(map(len, missing)) == gap
    assert [
        (span.first_entry_id + at, span.indexes[at]) for span in found for at in range(len(span))
    ] == [(entry, entry - 1) for entry in range(1 + gap, 7)]


def test_sizes_of_messages_that_left_the_front_of_a_run_are_not_kept() -> None:
    rows = PagedRows(keeps_sizes=True)
    entry = 1
    for _ in range(200):
        rows.append(PagedSpan(entry, 1_000, 0, True, sizes=array("I", range(1_000))))
        entry += 1_000
        if rows.message_count > 2_000:
            assert list(rows.head().sizes or ()) == list(range(len(rows.head())))
            gone = rows.dequeue(1_000)
            assert list(gone.sizes or ()) == list(range(1_000))
    assert len(rows) == 1
    # private: what it keeps for messages that left shows nowhere else.
    assert len(rows._sizes or ()) < 40_000


def test_rows_that_were_spilled_one_by_one_are_paged_without_looking_at_each_for_each() -> None:
    count = 4_000
    queue = queue_of()
    for _ in range(count):
        enter(queue, transient(1))
    unspilled, _ = queue.page_out(0, queue.next_entry_id)
    spilled = Looked((span.first_entry_id, span.first_entry_id) for span in unspilled)
    assert len(spilled) == count
    _, used = queue.page_out(0, queue.next_entry_id, spilled)
    # Rows that follow each other are one range of what the spill keeps.
    assert used == [(spilled[0][0], spilled[-1][1])]
    assert spilled.looks < 20 * count


class Looked(list[tuple[int, int]]):
    """Ranges, and how often one was looked at."""

    looks = 0

    def __getitem__(self, key: object) -> object:  # type: ignore[override]
        self.looks += 1
        return super().__getitem__(key)  # type: ignore[index]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for each in super().__iter__():
            self.looks += 1
            yield each


def dying_queue(rows: int) -> MessageQueue:
    """A queue all of whose messages have expired, at times of their own, and become letters."""
    queue = queue_of(x_message_ttl=1_000, x_dead_letter_exchange="")
    for at in range(rows):
        queue.now_ms = 2 * at
        enter_late(queue, persistent(1))
    queue.page_out(0, queue.next_entry_id)
    queue.now_ms = 1 << 40
    while queue.ready.message_count:
        queue.expire(Effects())
    return queue


def enter_late(queue: MessageQueue, batch: Batch) -> None:
    queue.publish(batch, range(len(batch)), Effects())


def test_rows_that_expired_together_become_letters_in_order_whatever_is_asked_for() -> None:
    queue = dying_queue(400)
    left = list(range(1, 401))
    while (wanted := queue.wanted(1 << 20)) is not None:
        assert wanted.is_dying
        assert [first for first, _ in wanted.ranges] == left
        first, through = left[0], left[min(len(left), 150) - 1]
        # The second of them is lost.
        batch = persistent(through - first + 1)
        rows = [
            Read(batch, range(1), first),
            Read(batch, range(2, len(batch)), first + 2),
        ]
        effects = Effects()
        assert queue.read(rows, through, effects) == [(first + 1, first + 1)]
        dead = [span.first_entry_id for span, reason in effects.dead if reason == "expired"]
        assert dead == [first, *range(first + 2, through + 1)]
        left = left[through - first + 1 :]
    assert not left


def test_who_waits_for_the_head_gets_turns_between_reads_of_letters() -> None:
    queue = dying_queue(10)
    enter_late(queue, persistent(1))
    queue.page_out(0, queue.next_entry_id)
    assert queue.get("channel", no_ack=False, effects=Effects()) is None
    assert queue.wants_head
    wanted = queue.wanted(1 << 20)
    assert wanted is not None
    assert wanted.is_dying
    queue.read([Read(persistent(1), range(1), 1)], 1, Effects())
    assert queue.get("channel", no_ack=False, effects=Effects()) is None
    assert queue.wanted(1 << 20) == Wanted([(11, 11)], is_spilled=False)
    queue.read([Read(persistent(1), range(1), 11)], 11, Effects())
    assert queue.get("channel", no_ack=False, effects=Effects()) is not None
    wanted = queue.wanted(1 << 20)
    assert wanted is not None
    assert wanted.is_dying


def test_a_get_does_not_wait_for_a_head_that_has_expired_meanwhile() -> None:
    queue = queue_of(x_message_ttl=1_000)
    enter_late(queue, persistent(1))
    queue.page_out(0, queue.next_entry_id)
    consumer_of(queue)
    queue.dispatch(Effects())
    assert queue.wants_head
    queue.now_ms = 2_000
    assert queue.get("channel", no_ack=False, effects=Effects()) is None
    assert not queue.wants_head


def test_a_row_is_divided_by_the_ranges_that_it_meets_and_no_others() -> None:
    ranges = Looked((3 * at, 3 * at + 1) for at in range(10_000))
    row = PagedSpan(15_001, 4, 0, True)
    assert list(positions_in(row, 0, 4, ranges)) == [(0, 1, True), (1, 2, False), (2, 4, True)]
    assert ranges.looks < 40


def test_rows_that_expire_while_they_are_read_stay_in_the_spill_for_their_dead_letters() -> None:
    queue = queue_of(x_message_ttl=1_000, x_dead_letter_exchange="")
    enter(queue, transient(3))
    queue.page_out(0, queue.next_entry_id)
    queue.page_out(0, queue.next_entry_id, [(1, 3)])
    consumer_of(queue)
    queue.dispatch(Effects())
    assert queue.wanted(1 << 20) == Wanted([(1, 3)], is_spilled=True)
    queue.now_ms = 1_000
    queue.expire(Effects())
    effects = Effects()
    queue.read([Read(transient(3), range(3), 1)], 3, effects)
    assert not effects.unspilled_entries
    assert queue.wanted(1 << 20) == Wanted([(1, 3)], is_spilled=True, is_dying=True)
    effects = Effects()
    queue.read([Read(transient(3), range(3), 1)], 3, effects)
    assert effects.unspilled_entries == [(1, 3)]
    assert [(span.first_entry_id, len(span)) for span, _ in effects.dead] == [(1, 3)]
