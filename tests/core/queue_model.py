"""What models of a queue are made of: single messages, and who holds which."""

from __future__ import annotations

from dataclasses import dataclass, field

from leveret.amqp_frames.batch import Batch
from leveret.core.in_flight import Delivery
from leveret.core.message_queue import EntryRange


@dataclass
class Message:
    """One message in the model; its key is its entry id."""

    batch: Batch
    index: int
    is_stored: bool
    attempts: int = 0


@dataclass
class Held:
    """A delivery that a channel has, and which positions it still holds."""

    channel: str
    delivery: Delivery
    positions: set[int] = field(default_factory=set)


def ids(ranges: list[EntryRange]) -> set[int]:
    entries = [entry for first, last in ranges for entry in range(first, last + 1)]
    assert len(set(entries)) == len(entries)
    return set(entries)
