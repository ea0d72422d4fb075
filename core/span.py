"""A row of messages in a queue: indexes into one batch, with consecutive entry ids."""

from __future__ import annotations

from ..amqp_frames.batch import Batch, Indexes


class Span:
    """Messages of one batch that a queue holds, all delivered equally often so far.

    The message at position p of `indexes` has the entry id `first_entry_id + p`. `attempts` counts
    deliveries so far; any makes the next one `redelivered`. `stored`: the journal knows some of
    them, so settling them must be journalled.
    """

    __slots__ = ("attempts", "batch", "bytes_known", "first_entry_id", "indexes", "stored")

    def __init__(
        self, batch: Batch, indexes: Indexes, first_entry_id: int, attempts: int, stored: bool
    ) -> None:
        self.batch = batch
        self.indexes = indexes
        self.first_entry_id = first_entry_id
        self.attempts = attempts
        self.stored = stored
        # What the messages take up, when it has been asked for (batch_sweep.py).
        self.bytes_known = -1

    def __len__(self) -> int:
        return len(self.indexes)

    def part(self, low: int, high: int) -> Span:
        """The messages at positions low to high - 1."""
        return Span(
            self.batch,
            self.indexes[low:high],
            self.first_entry_id + low,
            self.attempts,
            self.stored,
        )

    def wire_bytes(self) -> int:
        """About how many bytes of wire the messages take up: exact when they are neighbours."""
        indexes = self.indexes
        batch = self.batch
        if len(indexes) == len(batch):
            return batch.wire_bytes()
        return batch.wire_bytes() * len(indexes) // len(batch)


class RefusedSpan(Span):
    """Messages that a queue did not take, on their way to its dead-letter exchange: no entries."""

    __slots__ = ()

    def __init__(self, batch: Batch, indexes: Indexes) -> None:
        super().__init__(batch, indexes, 0, 0, stored=False)

    def part(self, low: int, high: int) -> Span:
        """As of any row, but for the entry ids."""
        return RefusedSpan(self.batch, self.indexes[low:high])


class ExpiringSpan(Span):
    """A row whose messages all expire at `deadline_ms`, in milliseconds since the epoch."""

    __slots__ = ("deadline_ms",)

    def __init__(
        self,
        batch: Batch,
        indexes: Indexes,
        first_entry_id: int,
        attempts: int,
        stored: bool,
        deadline_ms: int,
    ) -> None:
        super().__init__(batch, indexes, first_entry_id, attempts, stored)
        self.deadline_ms = deadline_ms

    def part(self, low: int, high: int) -> Span:
        """As of any row; what is requeued keeps its deadline."""
        return ExpiringSpan(
            self.batch,
            self.indexes[low:high],
            self.first_entry_id + low,
            self.attempts,
            self.stored,
            self.deadline_ms,
        )
