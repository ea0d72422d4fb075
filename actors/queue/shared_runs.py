"""Runs of small publishes that went to several queues: merged once, for all of these.

Each queue of a fanout merges what it got in its turn. If each made a batch of its own, the bytes of
a message would be in memory and in the journal once for each queue. As a rule all of them got the
same publishes in the same order, so the first makes the batch, and the others find it here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...amqp_frames.messages.batch import Batch

# The numbers of the batches that were merged: each is one batch's in the process.
Run = tuple[int, ...]


def run_of(batches: Sequence[Batch]) -> Run:
    """The key under which other queues find the batch made of these."""
    return tuple([batch.number for batch in batches])


class SharedRuns:
    """One for all queues of a node.

    It keeps merged batches for queues to come, up to `bytes_max`; the oldest go first.
    """

    __slots__ = ("_bytes_max", "_kept", "kept_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        # The oldest first.
        self._kept: dict[Run, Batch] = {}
        self.kept_bytes = 0

    def find(self, run: Run) -> Batch | None:
        """The batch that another queue made of the same publishes."""
        return self._kept.get(run)

    def keep(self, run: Run, batch: Batch) -> None:
        """Keep a new one for the other queues, which have their turns soon."""
        kept = self._kept
        kept[run] = batch
        self.kept_bytes += len(batch.wire)
        while self.kept_bytes > self._bytes_max:
            self.kept_bytes -= len(kept.pop(next(iter(kept))).wire)
