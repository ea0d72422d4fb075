"""What queues still owe of dead letters, and which messages those were made of.

A queue that refuses a letter and makes a dead letter of it, with reject-publish-dlx, is not the end
of the way: the new letter stands for the old one, and answers for it when its own queues have it.

How many dead letters are made before the event loop looks at its sockets: more if it must be.

A queue may drop messages as fast as publishers send them, several times faster than rounds of one
size make dead letters of them. Then the messages that wait would grow without end, though every
queue is bounded. So rounds get larger while more and more is left over: publishers are read less
often, and come down to the speed of the dead letters. A burst, however large, leaves less after
each round, so small rounds work it off.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ...amqp_frames.messages.batch import Batch, Indexes
from ..definitions import QueueDefinition
from ..queue.span import Span

# At about 10 microseconds each, and so many bytes to copy; one at the least.
DEAD_LETTERS_PER_ROUND_MIN: Final = 256
DEAD_LETTER_BYTES_PER_ROUND_MIN: Final = 1 << 20


class DeadLetterRounds:
    """The size of the next round: `messages_max` and `bytes_max`."""

    def __init__(self) -> None:
        # In smallest rounds.
        self._size = 1
        # The most that was left over by a round since nothing was.
        self._left_max = 0

    @property
    def messages_max(self) -> int:
        """Messages of a round."""
        return self._size * DEAD_LETTERS_PER_ROUND_MIN

    @property
    def bytes_max(self) -> int:
        """Bytes of these, as they came in."""
        return self._size * DEAD_LETTER_BYTES_PER_ROUND_MIN

    def ended(self, left: int) -> None:
        """A round has left over so many messages."""
        if not left:
            self._size, self._left_max = 1, 0
        elif left > self._left_max:
            if self._left_max:
                self._size += 1 + self._size // 4
            self._left_max = left


# Messages that left a queue, and why: rejected, expired, maxlen or delivery_limit.
Dead = tuple[Span, str]
# A dead letter: its batch, and its place there.
Letter = tuple[Batch, int]


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
    `stands_for` has the originals that are letters themselves, which their source has refused.
    """

    __slots__ = (
        "dead",
        "entry_ids",
        "open_count",
        "owed",
        "owing",
        "places",
        "source",
        "stands_for",
    )

    def __init__(self, source: QueueDefinition, dead: Sequence[Dead]) -> None:
        self.source = source
        self.dead = dead
        self.places: array[int] = array("I")
        self.entry_ids: array[int] = array("Q")
        self.owed: array[int] = array("i")
        self.owing: dict[QueueDefinition, bytearray] = {}
        self.open_count = 0
        self.stands_for: dict[int, Letter] = {}

    def add(self, place: int, entry_id: int, queue_count: int, refused: Letter | None) -> None:
        """A dead letter of the message at this place is to go to so many queues."""
        if refused is not None:
            self.stands_for[len(self.owed)] = refused
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


class OwedLetters:
    """All dead letters that some queue owes, and what becomes of their originals.

    `settled` collects, by source queue, the entry ids whose messages are safe elsewhere or
    dropped; the actor that tells the queues takes them out.
    """

    def __init__(self) -> None:
        self._pending: dict[Batch, PendingLetters] = {}
        self.settled: dict[QueueDefinition, array[int]] = {}
        # Originals whose letters a failed queue owes; the actor that retries them takes them out.
        self.stranded: list[Stranded] = []
        # Letters that queues have refused, for which others have answered since: is it safe, or
        # stranded? Their tracer takes them out.
        self.answered: list[tuple[Letter, bool]] = []
        # Refused letters that are to be answered for, because the letters made of them are safe.
        self._safe: list[Letter] = []

    def __len__(self) -> int:
        """How many dead letters some queue still owes."""
        return sum(pending.open_count for pending in self._pending.values())

    def owe(self, batch: Batch, pending: PendingLetters) -> None:
        """Queues owe the dead letters of this batch from now on."""
        self._pending[batch] = pending

    def confirm(self, queue: QueueDefinition, batch: Batch, indexes: Indexes) -> list[int]:
        """The queue has these dead letters, or they are not to be in it any more.

        Returns those of them that it had owed.
        """
        pending = self._pending.get(batch)
        if pending is None:
            return []
        heard = pending.heard(queue, indexes)
        self._confirmed(batch, pending, heard)
        self._answer_for_refused()
        return heard

    def _confirmed(self, batch: Batch, pending: PendingLetters, indexes: Sequence[int]) -> None:
        owed = pending.owed
        for index in indexes:
            if owed[index] > 0:
                owed[index] -= 1
                if not owed[index]:
                    pending.open_count -= 1
                    refused = pending.stands_for.get(index)
                    self._is_over(pending.source, pending.entry_ids[index], refused)
        self._forget_if_done(batch, pending)

    def refused(self, queue: QueueDefinition, dead: Sequence[Dead]) -> None:
        """The queue refuses these; if they are letters, the letters made of them answer for it.

        So their originals stay until the new letters are safe, and the queue's own answer counts no
        more.
        """
        for span, _reason in dead:
            pending = None if span.first_entry_id else self._pending.get(span.batch)
            if pending is not None:
                pending.heard(queue, span.indexes)

    def _answer_for_refused(self) -> None:
        """Confirm refused letters whose new letters are safe, as if the queue had taken them."""
        while self._safe:
            batch, index = letter = self._safe.pop()
            pending = self._pending.get(batch)
            if pending is not None:
                self._confirmed(batch, pending, (index,))
                self.answered.append((letter, True))

    def failed(self, queue: QueueDefinition, batch: Batch, indexes: Indexes) -> list[int]:
        """The queue's actor died owing these: their originals are stranded, and not settled.

        Returns those of them that it had owed.
        """
        pending = self._pending.get(batch)
        if pending is None:
            return []
        heard = pending.heard(queue, indexes)
        for index in heard:
            self._strand(queue, (batch, index))
        return heard

    def _strand(self, queue: QueueDefinition, letter: Letter | None) -> None:
        """Strand the first original, of which this letter was made on whatever way."""
        while letter is not None:
            batch, index = letter
            pending = self._pending.get(batch)
            if pending is None or pending.owed[index] <= 0:
                return
            pending.owed[index] = -1
            pending.open_count -= 1
            letter = pending.stands_for.get(index)
            if letter is None:
                self.stranded.append(Stranded(queue, pending.source, pending.original(index)))
            else:
                self.answered.append((letter, False))
            self._forget_if_done(batch, pending)

    def _forget_if_done(self, batch: Batch, pending: PendingLetters) -> None:
        if not pending.open_count:
            self._pending.pop(batch, None)

    def _is_over(self, source: QueueDefinition, entry_id: int, refused: Letter | None) -> None:
        """The original is safe elsewhere, or dropped."""
        if entry_id:
            self.settled.setdefault(source, array("Q")).append(entry_id)
        elif refused is not None:
            self._safe.append(refused)
