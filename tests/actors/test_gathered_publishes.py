"""Publishes that several queues get: what is merged apart, and how much is kept for the others."""

from __future__ import annotations

from typing import Any

from leveret.actors.messages import Publish
from leveret.actors.queue.gathered_publishes import GatheredPublishes, as_one
from leveret.actors.queue.shared_runs import SharedRuns
from leveret.amqp_frames.decoder import Decoder
from leveret.amqp_frames.messages.batch import Batch
from wire import FRAME_MAX_BYTES, PERSISTENT, publish

_channel: Any = None
KEPT_BYTES_MAX = 2_000_000


def batches(count: int, body_bytes: int) -> list[Batch]:
    decoder = Decoder(FRAME_MAX_BYTES, 100_000, 100_000)
    wire = publish("q", bytes(body_bytes), PERSISTENT)
    return [batch for _ in range(count) for batch in publishes_in(decoder, wire)]


def publishes_in(decoder: Decoder, wire: bytes) -> list[Batch]:
    [read] = decoder.feed(wire)
    assert read.batch is not None  # type: ignore[union-attr]
    return [read.batch]  # type: ignore[union-attr]


def runs(gathered: GatheredPublishes) -> list[list[Publish]]:
    found = []
    while gathered:
        found.append(gathered.next_run(may_merge=True))
    return found


def test_those_that_other_queues_get_are_merged_apart_from_those_of_one_queue() -> None:
    gathered = GatheredPublishes()
    made = batches(6, 10)
    for batch, is_shared in zip(made, (False, True, True, True, False, False), strict=True):
        gathered.add(Publish(_channel, batch, range(1), is_shared=is_shared))
    assert [len(run) for run in runs(gathered)] == [1, 3, 2]


def test_what_is_kept_for_other_queues_is_bounded_and_the_oldest_goes_first() -> None:
    shared = SharedRuns(KEPT_BYTES_MAX)
    merged = as_one(batches(60, 3_900), 1)
    count = 2 * KEPT_BYTES_MAX // len(merged.wire)
    for number in range(count):
        shared.keep((number, number + 1), merged)
        assert shared.kept_bytes <= KEPT_BYTES_MAX
        assert shared.find((number, number + 1)) is merged
    found = [number for number in range(count) if shared.find((number, number + 1)) is not None]
    assert found == list(range(count - len(found), count))
    assert len(found) == KEPT_BYTES_MAX // len(merged.wire)


def test_nothing_is_kept_for_other_queues_where_the_bound_is_nothing() -> None:
    shared = SharedRuns(0)
    shared.keep((1, 2), as_one(batches(2, 10), 1))
    assert shared.find((1, 2)) is None
    assert shared.kept_bytes == 0
