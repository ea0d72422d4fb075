"""When messages arrived, as it is written to the disk.

A batch that came from a reader has its time by a clock that only goes forward, and that begins anew
with each boot of the machine; a batch that was read back has it by the wall clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ..amqp_frames.messages.arrivals import Arrived
from ..amqp_frames.messages.batch import Batch

# Gives the nanoseconds to add to a batch's `received_ns` for the time since the epoch.
WallDistance: TypeAlias = Callable[[], int]


def no_distance() -> int:
    """Of a journal without a wall clock: the two clocks are one."""
    return 0


def arrived(batch: Batch, distance_ns: WallDistance) -> Arrived:
    """Of all messages of the batch; not known of one from neither a reader nor the disk."""
    received_ns = batch.received_ns
    return max(received_ns + distance_ns(), 1) if received_ns else batch.arrived
