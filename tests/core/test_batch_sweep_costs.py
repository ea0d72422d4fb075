"""A sweep does not copy whole reads, young messages, or reads that others use, too."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import pytest
from held_reads import (
    READ_MESSAGES,
    READS,
    WINDOW,
    check,
    consumer_of,
    enqueue,
    give_back,
    kept_bytes,
    queue_of,
    read,
    spans,
)
from leveret.amqp_frames.decoder import Decoder
from leveret.amqp_frames.messages.batch import Batch
from leveret.core.queue.batch_sweep import ROW_BYTES, SWEEP_INTERVAL_BYTES, BatchSweep
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.rules import Effects, MessageQueue
from leveret.core.queue.span import Span
from wire import publish


def test_whole_reads_given_away_whole_are_not_even_counted() -> None:
    queue = queue_of()
    consumer_of(queue)
    for number in range(READS):
        [delivery] = enqueue(queue, read(number), range(READ_MESSAGES))
        give_back(queue, queue.settle, [(delivery, 0, READ_MESSAGES)])
        assert (queue.sweep.arrived_bytes, queue.sweep.departed_bytes) == (0, 0)


def test_small_reads_are_not_counted() -> None:
    queue = queue_of()
    for number in range(READS):
        enqueue(queue, read(number, body_bytes=50), range(1))
        assert (queue.sweep.arrived_bytes, queue.sweep.departed_bytes) == (0, 0)


def test_messages_that_are_consumed_soon_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def excerpt(*_: object) -> Batch:
        raise AssertionError("copied")

    monkeypatch.setattr("leveret.core.queue.batch_sweep.excerpt", excerpt)
    queue = queue_of()
    consumer_of(queue)
    out: list[Delivery] = []
    for number in range(READS):
        out += enqueue(queue, read(number), range(2))
        if len(out) > 2:
            give_back(queue, queue.settle, [(out.pop(0), 0, 2)])


def read_of_ten_channels() -> list[Batch]:
    """Each has a batch of its own, and all of them the same bytes."""
    wire = b"".join(publish("q", bytes(1_000), channel=1 + n % 10) for n in range(READ_MESSAGES))
    events: list[Any] = Decoder(1 << 17, 1 << 20, 1 << 21).feed(wire)
    batches = [event.batch for event in events]
    assert len(batches) == 10
    assert all(batch.wire is batches[0].wire for batch in batches)
    return batches


def test_a_read_that_channels_share_is_not_copied_while_all_of_it_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def excerpt(*_: object) -> Batch:
        raise AssertionError("copied")

    monkeypatch.setattr("leveret.core.queue.batch_sweep.excerpt", excerpt)
    queue = queue_of()
    for _ in range(READS):
        for batch in read_of_ten_channels():
            enqueue(queue, batch, range(len(batch)))


def test_one_channel_s_part_of_a_read_is_copied_when_nothing_else_of_it_is_used() -> None:
    queue = queue_of()
    for _ in range(READS):
        first, *_others = read_of_ten_channels()
        enqueue(queue, first, range(len(first)))
    assert kept_bytes(queue) < READS * 20_000 / 2


def test_a_copy_between_dispatch_and_sending_leaves_the_windows_right() -> None:
    queue = queue_of()
    consumer_of(queue)
    [consumer] = queue.consumers.all()
    effects = Effects()
    queue.publish(read(1), range(3), effects)
    [(_, [delivery])] = effects.delivered
    given = consumer.window_bytes
    assert given == delivery.span.wire_bytes() > 0
    queue.sweep_all()
    assert delivery.span.wire_bytes() == len(delivery.span.batch.wire) < 5_000
    assert delivery.wire_bytes == given
    consumer.sent(delivery.wire_bytes)
    assert consumer.window_bytes == 0


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each sweep has looked at."""
    counts: list[int] = []
    run = BatchSweep.run

    def counted(
        self: BatchSweep, rows: Iterable[Span], deliveries: Iterable[Delivery], next_id: int
    ) -> None:
        rows = list(rows)
        counts.append(len(rows))
        run(self, rows, deliveries, next_id)

    monkeypatch.setattr(BatchSweep, "run", counted)
    return counts


def test_sweeps_look_at_few_rows_for_each_that_comes_in(looked_at: list[int]) -> None:
    queue = queue_of()
    batch = read(1)
    count = 5_000
    for _ in range(count):
        enqueue(queue, batch, range(5, 6))
    # A row costs a sweep ROW_BYTES at most, and each brings in a read of 20 KB.
    assert 0 < sum(looked_at) <= count * len(batch.wire) // ROW_BYTES


def test_sweeps_look_at_few_rows_for_each_part_that_leaves(looked_at: list[int]) -> None:
    queue = queue_of()
    batch = read(1)
    count = 2_000
    for _ in range(count):
        enqueue(queue, batch, range(READ_MESSAGES))
    consumer_of(queue, prefetch=READ_MESSAGES // 2)
    effects = Effects()
    queue.dispatch(effects)
    for _ in range(count):
        [(_, deliveries)] = effects.delivered
        effects = Effects()
        parts = [(each, 0, len(each.span)) for each in deliveries]
        queue.settle("a", parts, effects)
        queue.sweep_if_due()
    assert 0 < sum(looked_at) <= count // 2 * len(batch.wire) // ROW_BYTES


def test_the_interval_is_a_mebibyte_unless_said_otherwise() -> None:
    assert MessageQueue("the queue", True, WINDOW).sweep.interval_bytes == SWEEP_INTERVAL_BYTES
    assert SWEEP_INTERVAL_BYTES == 1 << 20


def shared_out(queue_count: int) -> list[MessageQueue]:
    """Queues that have an even share each of the same reads."""
    queues = [queue_of() for _ in range(queue_count)]
    for number in range(READS):
        batch = read(number)
        for at, queue in enumerate(queues):
            enqueue(queue, batch, array("I", range(at, READ_MESSAGES, queue_count)))
    return queues


def test_reads_that_several_queues_use_together_are_not_copied() -> None:
    queues = shared_out(10)
    for queue in queues:
        queue.sweep_all()
    assert {span.batch for span, _ in spans(queues[0])} == {
        span.batch for span, _ in spans(queues[9])
    }
    assert kept_bytes(queues[0]) > READS * 20_000


def test_a_read_is_let_go_by_the_queues_that_still_hold_it_when_most_have_not() -> None:
    queues = shared_out(10)
    for queue in queues[2:]:
        queue.purge(Effects())
    for at, queue in enumerate(queues[:2]):
        queue.sweep_all()
        check(queue, [(number, index) for number in range(READS) for index in (at, at + 10)])
        assert kept_bytes(queue) < READS * 3_000


def test_the_rows_of_other_queues_are_counted_and_nothing_else_is() -> None:
    counts: list[int] = []

    class Sweep(BatchSweep):
        __slots__ = ()

        def _is_wasteful(self, batch: Batch, used_bytes: int) -> bool:
            counts.append(used_bytes)
            # private: what is counted to decide shows nowhere else.
            return super()._is_wasteful(batch, used_bytes)

    for others in (0, 1, 5):
        rows = [Span(read(1), range(1), 1, 0, True)]
        rows += [Span(rows[0].batch, range(1), 1, 0, True) for _ in range(others)]
        [first, *_] = rows
        own_bytes = first.batch.ends[0]
        counts.clear()
        Sweep().run_over_all([first], (), 2)
        assert counts == [own_bytes * (1 + others)]
