"""A client's answers and deliveries, as values that can be compared."""

from __future__ import annotations

from typing import NamedTuple

from leveret.amqp_frames.properties import Properties


class Frame(NamedTuple):
    kind: int
    channel: int
    payload: bytes


class Content(NamedTuple):
    """Header and body that followed a method, and how many body frames there were."""

    properties: Properties
    body: bytes
    body_frames: int = 1


class Got(NamedTuple):
    """The message of a basic.get; `left` messages are behind it."""

    delivery_tag: int
    redelivered: bool
    left: int
    body: bytes
