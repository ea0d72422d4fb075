"""The trace events of the publisher of dead letters: which message became which letter.

A letter is traced if its original is: what its queues do with it is then told of like the hops of
any other message. That the original is settled is its own queue's to say, when it has heard that
all letters made of it are safe; until then this remembers which they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...amqp_frames.messages.batch import Batch, Indexes
from ...core.dead_letters.letters import Dead, DeadBatch, Letter, Origin
from ...core.definitions import QueueDefinition
from ...logs.trace.sampling import ranges
from ...logs.trace.trace import Trace
from .marks import mark
from .queue import received

_Original = tuple[QueueDefinition, Batch, int]

# Why an original may be settled.
_SAFE = "its dead letter is safe"
_REFUSED = "its dead letter was refused by a queue"
_NOWHERE = "there is no way for its dead letter"


class _Owed:
    """A traced letter that so many queues still owe."""

    __slots__ = ("count", "original", "reason")

    def __init__(self, count: int, original: _Original) -> None:
        self.count = count
        self.original = original
        self.reason = _SAFE


class DeadLetterTracing:
    """For the one publisher of a node.

    `safe` collects, by queue, the originals that may be settled there. `owed` has the traced
    letters that queues still owe: without any, no answer of a queue concerns the trace.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.owed: dict[Batch, dict[int, _Owed]] = {}
        self.safe: dict[QueueDefinition, list[tuple[Batch, Indexes, str]]] = {}

    def wants_origins(self, dead: Sequence[Dead]) -> list[Origin] | None:
        """A list for what becomes of these messages, if any of them is traced."""
        if any(span.batch.traced is not None for span, _reason in dead):
            return []
        return None

    def published(
        self, source: QueueDefinition, letters: DeadBatch | None, origins: Sequence[Origin]
    ) -> None:
        """Letters have been made and routed, and their queues not been told yet."""
        made: list[tuple[Origin, int]] = []
        chosen: dict[Batch, range | set[int]] = {}
        number = 0
        for origin in origins:
            if origin.batch not in chosen:
                traced = origin.batch.traced or ()
                chosen[origin.batch] = traced if isinstance(traced, range) else set(traced)
            is_traced = origin.place in chosen[origin.batch]
            if origin.queues:
                if is_traced:
                    made.append((origin, number))
                number += 1
            elif is_traced:
                self._dropped(source, origin)
        if letters is not None and made:
            self._made(source, letters.batch, made)

    def _dropped(self, source: QueueDefinition, origin: Origin) -> None:
        self._write("letter.dropped", source, [origin], reason=origin.reason)
        if origin.is_entry:
            self._is_safe((source, origin.batch, origin.place), _NOWHERE)

    def _made(
        self, source: QueueDefinition, letters: Batch, made: list[tuple[Origin, int]]
    ) -> None:
        mark(letters, [number for _origin, number in made])
        owed = self.owed[letters] = {}
        for origin, number in made:
            if origin.is_entry:
                owed[number] = _Owed(len(origin.queues), (source, origin.batch, origin.place))
        for pairs in _rows_of(made):
            first = pairs[0][0]
            self._write(
                "message.dead_lettered",
                source,
                [origin for origin, _number in pairs],
                reason=first.reason,
                letter_batch=letters.number,
                letters=ranges([number for _origin, number in pairs]),
                queues=[queue.name for queue in first.queues],
            )

    def _write(
        self, event: str, source: QueueDefinition, origins: Sequence[Origin], **fields: object
    ) -> None:
        batch = origins[0].batch
        places = ranges(received(batch, [origin.place for origin in origins]))
        self._trace.write(
            event,
            "dead letters",
            vhost=source.vhost,
            queue=source.name,
            batch=batch.number,
            messages=places,
            **fields,
        )

    def confirmed(self, letters: Batch, indexes: Sequence[int]) -> None:
        """A queue has these letters."""
        self._answered(letters, indexes, "")

    def rejected(self, letters: Batch, indexes: Sequence[int]) -> None:
        """A queue will not have these: they are dropped there."""
        self._answered(letters, indexes, _REFUSED)

    def failed(self, letters: Batch, indexes: Sequence[int]) -> None:
        """A queue has failed owing these: their originals stay."""
        owed = self.owed.get(letters, {})
        for index in indexes:
            owed.pop(index, None)
        if not owed:
            self.owed.pop(letters, None)

    def answered_for(self, letters: list[tuple[Letter, bool]]) -> None:
        """Take out refused letters, because the letters made of them are safe, or stranded."""
        while letters:
            (batch, index), is_safe = letters.pop()
            (self.confirmed if is_safe else self.failed)(batch, (index,))

    def _answered(self, letters: Batch, indexes: Sequence[int], reason: str) -> None:
        owed = self.owed.get(letters)
        if owed is None:
            return
        for index in indexes:
            letter = owed.get(index)
            if letter is not None:
                letter.count -= 1
                letter.reason = reason or letter.reason
                if not letter.count:
                    del owed[index]
                    self._is_safe(letter.original, letter.reason)
        if not owed:
            del self.owed[letters]

    def _is_safe(self, original: _Original, reason: str) -> None:
        source, batch, index = original
        self.safe.setdefault(source, []).append((batch, range(index, index + 1), reason))


def _rows_of(made: Sequence[tuple[Origin, int]]) -> Iterator[list[tuple[Origin, int]]]:
    """Letters that one event can tell of: alike, and with places that ascend.

    Places of one batch do not where its messages have priorities, or came back in between.
    """
    row: list[tuple[Origin, int]] = []
    for origin, number in made:
        if row:
            before = row[-1][0]
            is_alike = before._replace(place=origin.place) == origin
            if not is_alike or before.place >= origin.place:
                yield row
                row = []
        row.append((origin, number))
    yield row
