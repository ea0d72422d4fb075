"""Queues that hold messages of large reads, and what they keep of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from batches import batch_of, message_of
from leveret.amqp_frames.messages.batch import Batch, Indexes
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Table
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.queue.batch_sweep import ROW_BYTES, SMALL_BYTES, YOUNG_SWEEPS, BatchSweep
from leveret.core.queue.construction import make_queue
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.rules import Effects, MessageQueue
from leveret.core.queue.span import Span, held_bytes
from wire import publish

WINDOW = 1 << 30
INTERVAL = 64 * 1024
READS = 100
READ_MESSAGES = 20


def queue_of(arguments: Table | None = None) -> MessageQueue:
    queue = make_queue("the queue", True, arguments or {}, WINDOW)
    queue.sweep = BatchSweep(INTERVAL)
    return queue


def read(number: int, body_bytes: int = 1_000) -> Batch:
    """A read of some 20 KB, each of whose messages says where it is from."""
    batch = batch_of(
        *(
            publish(
                "q",
                b"%d of %d" % (index, number) + bytes(body_bytes),
                Properties(delivery_mode=2, priority=index % 3),
            )
            for index in range(READ_MESSAGES)
        )
    )
    batch.number = number
    return batch


def enqueue(queue: MessageQueue, batch: Batch, indexes: Indexes) -> list[Delivery]:
    """Handle a publish as the queue's actor does; returns the deliveries."""
    effects = Effects()
    queue.publish(batch, indexes, effects)
    queue.sweep_if_due()
    return [each for _, deliveries in effects.delivered for each in deliveries]


def give_back(
    queue: MessageQueue, how: Callable[..., None], parts: Iterable[tuple[Delivery, int, int]]
) -> None:
    how("a", parts, Effects())
    queue.sweep_if_due()


def consumer_of(
    queue: MessageQueue, no_ack: bool = False, tag: bytes = b"\1t", prefetch: int = 0
) -> None:
    queue.consumers.add(Consumer("a", tag, prefetch, ChannelCredit(), no_ack, False))


def spans(queue: MessageQueue) -> list[tuple[Span, list[int]]]:
    """The batches that the queue holds, and its own positions in them."""
    rows = [*queue.ready, *(span for span, _ in queue.spent or ())]
    held: list[tuple[Span, list[int]]] = [(span, list(range(len(span)))) for span in rows]
    for delivery in queue.in_flight.deliveries():
        positions = [at for low, high in delivery.remaining for at in range(low, high)]
        held.append((delivery.span, positions))
    return held


def kept_bytes(queue: MessageQueue) -> int:
    return sum({id(span.batch): len(span.batch.wire) for span, _ in spans(queue)}.values())


def check(queue: MessageQueue, expected: Iterable[tuple[int, int]]) -> None:
    """The queue holds these messages (read, index), and not much besides."""
    found, used, held, batches = {}, 0, 0, set()
    for span, positions in spans(queue):
        batches.add(span.batch)
        held += held_bytes(span.batch, len(positions))
        for position in positions:
            index = span.indexes[position]
            used += span.batch.ends[index] - span.batch.starts[index]
            number, place, _key, content, _ = message_of(span.batch, index)
            assert b"%d of %d" % (place, number) in content
            found[span.first_entry_id + position] = number, place
    assert sorted(found.values()) == sorted(expected)
    assert queue.held_bytes == held
    # What is young was counted between two sweeps each, with a read more.
    between = (YOUNG_SWEEPS + 1) * (max(INTERVAL, ROW_BYTES * len(spans(queue))) + 25_000)
    assert kept_bytes(queue) <= 8 * used + SMALL_BYTES * len(batches) + between
