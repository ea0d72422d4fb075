"""A sweep for tests that copies whatever it can."""

from __future__ import annotations

from leveret.amqp_frames.messages.batch import Batch
from leveret.core.queue.batch_sweep import BatchSweep


class EagerSweep(BatchSweep):
    """No read is too small to be copied, and none is kept because others, tests too, hold it."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(interval_bytes=0, small_bytes=0, used_part=1)

    def _count_others(self, _batch: Batch, _own_count: int) -> int:
        return 0
