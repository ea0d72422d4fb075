"""How long publishers wait for confirms: from the read of their publishes to the confirm.

One value for each batch, never one for each message. It counts when the last queue that owes any of
the batch has confirmed it; a nack that comes last, and a transaction, count nowhere.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from ...amqp_frames.messages.batch import Batch
from ..histogram import Histogram

# A lone transient publish takes some 50 microseconds; an overloaded disk seconds.
CONFIRM_SECONDS_BOUNDS: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1),
    *(2.5, 5, 10),
)


class ConfirmLatency:
    """Of a node, since its start. A batch with both kinds of messages counts as persistent."""

    __slots__ = ("persistent", "transient")

    def __init__(self) -> None:
        # A confirm of these waits for the disk.
        self.persistent = Histogram(CONFIRM_SECONDS_BOUNDS)
        self.transient = Histogram(CONFIRM_SECONDS_BOUNDS)

    def confirmed(self, batch: Batch, now_ns: int) -> None:
        """All that queues owed of the batch is confirmed; `now_ns` by the clock of its read."""
        durable = batch.durable
        # None: all of it went to the journal.
        kind = self.persistent if durable is None or durable else self.transient
        seconds = (now_ns - batch.received_ns) * 1e-9
        # As `Histogram.observe`: a call more would be a third of what this costs each lone publish.
        kind.counts[bisect_left(kind.bounds, seconds)] += 1
        kind.total += seconds
