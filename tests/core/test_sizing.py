"""A limit by bytes that comes to a queue whose messages are on the disk only."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from random import Random

import pytest
from batches import batch_of
from dashed import dashed
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.construction import equip, make_queue, refill_paged
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.paging import PagedRows, Wanted
from leveret.core.queue.rules import Effects, MessageQueue
from leveret.core.queue.sizing import SIZED_COUNT_MAX, SizedRow, sized_parts
from leveret.core.queue.span import PagedSpan
from wire import publish

ALL = 1 << 62


class Read:
    """Messages that the disk had."""

    def __init__(self, batch: Batch, first_entry_id: int) -> None:
        self.batch = batch
        self.indexes = range(len(batch))
        self.first_entry_id = first_entry_id


def bodies(*sizes: int, delivery_mode: int = 2) -> Batch:
    batch = batch_of(
        *[publish("q", bytes(size), Properties(delivery_mode=delivery_mode)) for size in sizes]
    )
    if delivery_mode == 1:
        batch.durable = range(0)
    return batch


def queue_of(*sizes: int, **arguments: object) -> MessageQueue:
    """A queue with messages of these sizes, all paged."""
    queue = make_queue("the queue", True, named(**arguments), ALL)
    enter(queue, bodies(*sizes))
    queue.page_out(0, queue.next_entry_id)
    return queue


def named(**arguments: object):
    return table_of(dashed(arguments))


def enter(queue: MessageQueue, batch: Batch, delay_ms: int = 0) -> Effects:
    effects = Effects()
    queue.publish(batch, range(len(batch)), effects, delays_ms=delay_ms)
    return effects


def change(queue: MessageQueue, **arguments: object) -> Effects:
    """Give the queue other arguments."""
    equip(queue, named(**arguments), ALL)
    effects = Effects()
    queue.dispatch(effects)
    return effects


def answer(queue: MessageQueue, sizes: Sequence[int], through: int | None = None) -> Effects:
    """The disk says the sizes that are wanted: those of all messages are `sizes`, by entry id."""
    wanted = queue.wanted(0)
    assert wanted is not None
    assert wanted.is_sizing
    rows = [
        SizedRow(first, array("I", sizes[first - 1 : last]))
        for first, last in wanted.read_through(through or wanted.ranges[-1][1])
    ]
    effects = Effects()
    assert not queue.count_sizes(rows, through or wanted.ranges[-1][1], effects)
    queue.dispatch(effects)
    return effects


def left(effects: Effects) -> list[tuple[int, int]]:
    return [(span.first_entry_id, span.first_entry_id + len(span) - 1) for span, _ in effects.dead]


def test_paged_messages_count_when_the_disk_has_said_their_sizes() -> None:
    queue = queue_of(10, 20, 30, 40)
    assert not left(change(queue, x_max_length_bytes=70)), "no size is known yet"
    effects = answer(queue, [10, 20, 30, 40])
    assert left(effects) == [(1, 2)]
    assert effects.dead[0][1] == "maxlen"
    assert queue.wanted(0) is None
    assert left(enter(queue, bodies(10))) == [(3, 3)]


def test_sizes_are_counted_as_the_disk_says_them() -> None:
    sizes = [10] * 10
    queue = queue_of(*sizes)
    change(queue, x_max_length_bytes=35)
    assert left(answer(queue, sizes, through=3)) == []
    assert left(answer(queue, sizes, through=7)) == [(1, 3), (4, 4)]
    assert left(answer(queue, sizes)) == [(5, 7)]
    assert [len(span) for span in queue.ready] == [3]


def test_a_message_of_unknown_size_leaves_only_for_a_limit_that_others_exceed_alone() -> None:
    """It is older than these, so it would leave whatever its size."""
    queue = queue_of(1, 1, 1)
    change(queue, x_max_length_bytes=50)
    assert not left(enter(queue, bodies(50)))
    assert left(enter(queue, bodies(1))) == [(1, 3), (4, 4)]
    assert queue.ready.message_count == 1


def test_a_queue_that_rejects_over_its_limit_admits_by_the_sizes_that_it_knows() -> None:
    queue = queue_of(30, 30)
    change(queue, x_max_length_bytes=50, x_overflow="reject-publish")
    assert enter(queue, bodies(1)).rejected is None
    answer(queue, [30, 30])
    assert list(enter(queue, bodies(1)).rejected or ()) == [0]
    assert queue.ready.message_count == 3, "it drops nothing that it has"


def test_deferred_returned_and_spilled_messages_count_too() -> None:
    queue = queue_of(5, 5)
    queue.needs_clock = True
    enter(queue, bodies(10, 10), delay_ms=1_000)
    consumer = Consumer("channel", b"\1c", 0, ChannelCredit(), False, False)
    queue.add_consumer(consumer)
    rows = [Read(bodies(5, 5), 1)]
    effects = Effects()
    queue.dispatch(effects)
    assert queue.wanted(0) is not None
    queue.read(rows, 2, effects)
    queue.dispatch(effects)
    [(_, [delivery])] = effects.delivered
    delivery.first_tag = 1
    queue.cancel("channel", b"\1c", Effects())
    enter(queue, bodies(20, 20, delivery_mode=1))
    queue.page_out(0, queue.next_entry_id, [(5, 6)])
    sizes = [5, 5, 10, 10, 20, 20]
    change(queue, x_max_length_bytes=61)
    queue.channel_down("channel", Effects())
    assert all(span.is_paged for span in queue.waiting())
    places = []
    for _ in range(3):
        wanted = queue.wanted(0)
        assert wanted is not None
        queue.reading = None
        places.append((wanted.ranges, wanted.is_spilled))
        effects = answer(queue, sizes)
    assert places == [([(5, 6)], True), ([(1, 2)], False), ([(3, 4)], False)]
    assert left(effects) == [(1, 2)], "the oldest ready ones"
    assert queue.wanted(0) is None


def test_messages_that_are_read_before_their_sizes_are_known_count_once() -> None:
    queue = queue_of(10, 20, 30)
    change(queue, x_max_length_bytes=55)
    assert queue.get("channel", True, Effects()) is None
    assert queue.wanted(0) == Wanted([(1, 3)], False), "the messages go before their sizes"
    effects = Effects()
    queue.read([Read(bodies(10, 20, 30), 1)], 3, effects)
    queue.dispatch(effects)
    assert left(effects) == [(1, 1)]
    assert queue.wanted(0) is None, "nothing is left to ask for"
    assert not left(enter(queue, bodies(5)))
    assert left(enter(queue, bodies(1))) == [(2, 2)]


def test_a_message_that_the_disk_does_not_have_leaves() -> None:
    queue = queue_of(10, 10, 10)
    change(queue, x_max_length_bytes=100)
    assert queue.wanted(0) is not None
    rows = [SizedRow(1, array("I", [10])), SizedRow(3, array("I", [10]))]
    effects = Effects()
    assert queue.count_sizes(rows, 3, effects) == [(2, 2)]
    assert effects.settled_entries == [(2, 2)]
    assert queue.ready.message_count == 2
    assert queue.wanted(0) is None


def test_a_limit_that_goes_before_the_answer_and_comes_again_asks_again() -> None:
    queue = queue_of(10, 10)
    change(queue, x_max_length_bytes=15)
    assert queue.wanted(0) is not None
    change(queue)
    assert queue.count_sizes([SizedRow(1, array("I", [10, 10]))], 2, Effects()) == []
    assert queue.wanted(0) is None
    change(queue, x_max_length_bytes=15)
    assert left(answer(queue, [10, 10])) == [(1, 1)]
    change(queue, x_max_length_bytes=9)
    assert queue.ready.message_count == 0, "another limit has the sizes that are known"


def test_messages_that_left_while_their_sizes_were_asked_for_do_not_count() -> None:
    queue = queue_of(10, 10, 10)
    change(queue, x_max_length_bytes=15)
    assert queue.wanted(0) is not None
    queue.purge(Effects())
    enter(queue, bodies(10))
    assert queue.count_sizes([SizedRow(1, array("I", [10, 10, 10]))], 3, Effects()) == []
    assert queue.ready.message_count == 1
    assert queue.wanted(0) is None


def test_so_many_sizes_are_asked_for_together() -> None:
    queue = make_queue("the queue", True, {}, ALL)
    refill_paged(queue, [(1, SIZED_COUNT_MAX + 5, 0, 0, 0)])
    change(queue, x_max_length_bytes=10)
    wanted = queue.wanted(0)
    assert wanted is not None
    assert wanted.ranges == [(1, SIZED_COUNT_MAX)]


@pytest.mark.parametrize("priorities", [False, True])
def test_the_order_by_priority_is_kept(priorities: bool) -> None:
    arguments: dict[str, object] = {"x_max_priority": 3} if priorities else {}
    queue = queue_of(10, 10, 10, **arguments)
    change(queue, x_max_length_bytes=20, **arguments)
    assert left(answer(queue, [10, 10, 10])) == [(1, 1)]
    assert [(span.first_entry_id, len(span)) for span in queue.ready] == [(2, 2)]


def test_packed_rows_with_sizes_are_those_that_were_packed() -> None:
    seed = Random().randrange(1 << 32)
    print(f"SEED={seed}")
    random = Random(seed)
    for _ in range(80):
        rows = PagedRows()
        entry, known = 1, {}
        for _ in range(random.randint(1, 60)):
            entry += random.choice((0, 0, 1))
            count = random.randint(1, 5)
            attempts, deadline = random.choice((0, 0, 2)), random.choice((0, 0, 9))
            rows.append(PagedSpan(entry, count, attempts, True, deadline))
            known |= {entry + at: (attempts, deadline) for at in range(count)}
            entry += count
        for _ in range(random.randint(0, 5)):
            if rows.message_count:
                gone = rows.dequeue(random.randint(1, 4))
                for at in range(len(gone)):
                    del known[gone.first_entry_id + at]
        rows.keep_sizes()
        rows.append(PagedSpan(entry, 2, 0, True, sizes=array("I", [entry, entry + 1])))
        known |= {entry: (0, 0), entry + 1: (0, 0)}
        sized = set(range(entry, entry + 2))
        while any(each not in sized for each in known):
            first = random.randint(1, entry)
            last = first + random.randint(0, 30)
            answered = [SizedRow(first, array("I", range(first, last + 1)))]
            got = rows.set_sizes(first, last, lambda span, these=answered: sized_parts(span, these))
            new = {each for each in known if first <= each <= last} - sized
            assert {span.first_entry_id + at for span in got for at in range(len(span))} == new
            sized |= new
            found = {}
            for span in rows:
                for at in range(len(span)):
                    each = span.first_entry_id + at
                    found[each] = (span.attempts, span.deadline_ms)
                    size = None if span.sizes is None else span.sizes[at]
                    assert size == (each if each in sized else None)
            assert list(found.items()) == sorted(known.items())
            unsized = next(rows.unsized(1), None)
            lowest = min((each for each in known if each not in sized), default=None)
            assert (None if unsized is None else unsized.first_entry_id) == lowest
