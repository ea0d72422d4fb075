"""What queues still owe of one batch of dead letters, and which messages those were made of."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..amqp_frames.batch import Indexes
from .definitions import QueueDefinition
from .span import Span

# Messages that left a queue, and why: rejected, expired, maxlen or delivery_limit.
Dead = tuple[Span, str]


class Stranded(NamedTuple):
    """A message of `source` that has no dead letter, because the queue `target` has failed."""

    target: QueueDefinition
    source: QueueDefinition
    dead: Dead


class PendingLetters:
    """One batch of dead letters: per message its original's entry id and how many queues owe it.

    0 as the id: the journal does not know the original. -1 as the count: one of its queues failed.
    `owing` has an octet per message for each queue, 1 while that queue owes it: a queue that
    speaks twice is heard once. `places` are those of the originals, counted through `dead`.
    """

    __slots__ = ("dead", "entry_ids", "open_count", "owed", "owing", "places", "source")

    def __init__(self, source: QueueDefinition, dead: Sequence[Dead]) -> None:
        self.source = source
        self.dead = dead
        self.places: array[int] = array("I")
        self.entry_ids: array[int] = array("Q")
        self.owed: array[int] = array("i")
        self.owing: dict[QueueDefinition, bytearray] = {}
        self.open_count = 0

    def add(self, place: int, entry_id: int, queue_count: int) -> None:
        """A dead letter of the message at this place is to go to so many queues."""
        self.places.append(place)
        self.entry_ids.append(entry_id)
        self.owed.append(queue_count)

    def told(self, told: Mapping[QueueDefinition, Indexes], letter_count: int) -> None:
        """All are made, and each queue will be told its own."""
        self.open_count = letter_count
        for queue, indexes in told.items():
            owing = self.owing[queue] = bytearray(letter_count)
            for index in indexes:
                owing[index] = 1

    def heard(self, queue: QueueDefinition, indexes: Indexes) -> list[int]:
        """Those of the messages that the queue has owed until now."""
        owing = self.owing.get(queue)
        if owing is None:
            return []
        heard = [index for index in indexes if owing[index]]
        for index in heard:
            owing[index] = 0
        return heard

    def original(self, index: int) -> Dead:
        """The message of which a dead letter was made."""
        place = self.places[index]
        for span, reason in self.dead:
            if place < len(span):
                return span.part(place, place + 1), reason
            place -= len(span)
        raise AssertionError(f"dead letter {index} has no original")
