"""A channel's publishing side in the tests: made, driven, and its frames as methods."""

from __future__ import annotations

import itertools

from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.methods import Method, decode_method
from leveret.core.publishing.publisher import Publisher, Routed
from leveret.core.publishing.routes import RouteMemory, Routes


def may_write(exchange: str) -> None:
    """Its user may write everywhere."""


def publisher_of(
    commands,
    channel: int = 1,
    frame_max: int = 4096,
    tags: bool = False,
    memory: RouteMemory | None = None,
) -> Publisher:
    routes = Routes(commands.table, may_write, memory or RouteMemory())
    numbers = itertools.count(100).__next__
    return Publisher(routes, numbers, channel, frame_max, "guest", tags, lambda: False)


def methods(frames: bytes) -> list[Method]:
    """The methods among these frames; contents are left out."""
    found = []
    at = 0
    while at < len(frames):
        size = int.from_bytes(frames[at + 3 : at + 7], "big")
        if frames[at] == 1:
            found.append(decode_method(frames, at + 7, at + 7 + size))
        at += 8 + size
    return found


def indexes_by_queue(routed: Routed) -> dict[str, list[int]]:
    return {queue.name: list(indexes) for queue, indexes in routed.by_queue.items()}


def confirm_all(publisher: Publisher, batch: Batch, routed: Routed) -> None:
    for queue, indexes in routed.by_queue.items():
        publisher.unconfirmed.confirm(queue, batch, indexes)
