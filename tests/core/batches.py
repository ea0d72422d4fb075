"""Batches as a channel would hand them to its rules, from few words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.amqp_frames.properties import Properties
from leveret.core.queue.consumers import Consumer
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.rules import Effects
from wire import PERSISTENT, publish


def batch_of(*wires: bytes) -> Batch:
    """The publishes whose frames these are; nothing routed yet."""
    return decode_publishes(b"".join(wires))


def numbered(count: int, properties: Properties = PERSISTENT) -> Batch:
    """That many messages to queue "q"; the bodies are their indexes."""
    return batch_of(*(publish("q", b"%d" % index, properties) for index in range(count)))


def mixed(persistent: Iterable[bool], priorities: Sequence[int | None] | None = None) -> Batch:
    """Messages of which these are persistent, all of them to a durable queue."""
    flags = list(persistent)
    priorities = [None] * len(flags) if priorities is None else priorities
    batch = batch_of(
        *(
            publish(
                "q",
                b"%d" % index,
                Properties(delivery_mode=2 if is_persistent else None, priority=priority),
            )
            for index, (is_persistent, priority) in enumerate(zip(flags, priorities, strict=True))
        )
    )
    if not all(flags):
        batch.durable = [index for index, flag in enumerate(flags) if flag]  # type: ignore[assignment]
    return batch


def sized(bodies: Iterable[tuple[int, bool]]) -> Batch:
    """Messages with bodies of these sizes; the flag says which are persistent."""
    chosen = list(bodies)
    batch = batch_of(
        *(
            publish("q", bytes(size), PERSISTENT if is_persistent else Properties())
            for size, is_persistent in chosen
        )
    )
    durable = [index for index, (_, is_persistent) in enumerate(chosen) if is_persistent]
    if len(durable) < len(chosen):
        batch.durable = durable  # type: ignore[assignment]
    return batch


def delivered_to(effects: Effects, consumer: Consumer) -> list[Delivery]:
    """Messages as the consumer gets them, in one run or several."""
    runs = [deliveries for each, deliveries in effects.delivered if each is consumer]
    return [delivery for run in runs for delivery in run]


def message_of(batch: Batch, index: int) -> tuple[int, int, bytes, bytes, int]:
    """A message's own facts, wherever it lies: its number, key, bytes, delivery mode."""
    place = index if batch.excerpted is None else batch.excerpted[index]
    content = batch.wire[batch.headers[index] : batch.ends[index]]
    key = batch.distinct[batch.keys[index]]
    assert batch.starts[index] < batch.headers[index] < batch.ends[index] <= len(batch.wire)
    return batch.number, place, key, content, batch.persistent[index]
