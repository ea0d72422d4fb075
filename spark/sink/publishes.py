"""A row on its way to the broker, the broker's answers, and the reasons why a row cannot be
published."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..errors import PlainError


class Publish(NamedTuple):
    """A row on its way: everything but the frames' lengths and the channel is encoded."""

    row: int
    message_id: str
    exchange: str
    routing_key: str
    # The payload of basic.publish's method frame, and of its content header behind the body size.
    method: bytes
    properties: bytes
    body: bytes
    is_dead_letter: bool = False


class Returned(NamedTuple):
    """The properties by which a returned message is matched with its publish."""

    message_id: str
    exchange: str
    routing_key: str
    body: bytes
    # Whether it has these properties, encoded. Asked only where the rest leaves a doubt.
    has_properties: Callable[[bytes], bool] = lambda _properties: True


class PublishError(PlainError):
    """The broker cannot be reached, or takes a row at no try; the task fails, and is tried again.

    One line for people, without any value of a row's columns but exchange and routing key.
    """


class FinalError(PublishError):
    """Every other try of the task would end alike: Spark shall make none, the job fails at once."""
