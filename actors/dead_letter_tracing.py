"""What the publisher of dead letters writes into the trace: which message became which letter.

A letter is traced if its original is: what its queues do with it is then told of like the hops of
any other message. That the original is settled is its own queue's to say, when it has heard that
all letters made of it are safe; until then this remembers which they are.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import groupby

from ..amqp_frames.batch import Batch, Indexes
from ..core.dead_letters import DeadBatch, Origin
from ..core.definitions import QueueDefinition
from ..core.pending_letters import Dead
from ..logs.sampling import ranges
from ..logs.trace import Trace
from .queue_tracing import received

_Original = tuple[QueueDefinition, Batch, int]


class DeadLetterTracing:
    """For the one publisher of a node. `safe` collects, by queue, what is to be settled there."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        # Traced letters that queues still owe: how many queues each, and what it was made of.
        self._owed: dict[Batch, dict[int, tuple[int, _Original]]] = {}
        self.safe: dict[QueueDefinition, list[tuple[Batch, Indexes]]] = {}

    def wants_origins(self, dead: Sequence[Dead]) -> list[Origin] | None:
        """A list for what becomes of these messages, if any of them is traced."""
        if self._trace.is_on and any(span.batch.traced is not None for span, _reason in dead):
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
        self._is_safe((source, origin.batch, origin.place), origin.is_entry)

    def _made(
        self, source: QueueDefinition, letters: Batch, made: list[tuple[Origin, int]]
    ) -> None:
        letters.traced = array("I", [number for _origin, number in made])
        owed = self._owed[letters] = {}
        for origin, number in made:
            if origin.is_entry:
                owed[number] = len(origin.queues), (source, origin.batch, origin.place)
        for (_, reason, queues), row in groupby(made, key=_row_of):
            pairs = list(row)
            self._write(
                "message.dead_lettered",
                source,
                [origin for origin, _number in pairs],
                reason=reason,
                letter_batch=letters.number,
                letters=ranges([number for _origin, number in pairs]),
                queues=[queue.name for queue in queues],
            )

    def _write(
        self, event: str, source: QueueDefinition, origins: Sequence[Origin], **fields: object
    ) -> None:
        batch = origins[0].batch
        places = ranges(received(batch, [origin.place for origin in origins]))
        self._trace.write(
            event,
            "dead letters",
            queue=source.name,
            batch=batch.number,
            messages=places,
            **fields,
        )

    def answered(self, letters: Batch, indexes: Sequence[int], *, is_safe: bool = True) -> None:
        """A queue has these letters, or is not to have them; or it has failed owing them."""
        owed = self._owed.get(letters)
        if owed is None:
            return
        for index in indexes:
            if index in owed:
                count, original = owed.pop(index)
                if is_safe and count > 1:
                    owed[index] = count - 1, original
                elif is_safe:
                    self._is_safe(original, is_entry=True)
        if not owed:
            del self._owed[letters]

    def _is_safe(self, original: _Original, is_entry: bool) -> None:
        if is_entry:
            source, batch, index = original
            self.safe.setdefault(source, []).append((batch, range(index, index + 1)))


def _row_of(pair: tuple[Origin, int]) -> tuple[int, str, tuple[QueueDefinition, ...]]:
    origin = pair[0]
    return id(origin.batch), origin.reason, origin.queues
