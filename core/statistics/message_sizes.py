"""How large the messages are that publishers send: their bodies, in bytes.

To look at each message would cost more than all else that is counted of it. So one message of each
batch, which is what one read brought for a channel, stands for all of the batch: the first of one,
the second of the next, and so on. That is exact for lone messages, for messages larger than a read,
and for publishers whose messages are alike; of others it is an estimate. Their number is exact.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from ...amqp_frames.messages.batch import Batch
from ..histogram import Histogram

# Those of RabbitMQ, as of 4.1: its dashboard asks for each of them.
MESSAGE_BYTES_BOUNDS: Final = (100, 1_000, 10_000, 100_000, 10**6, 10**7, 5 * 10**7, 10**8)


class MessageSizes:
    """Of a node, since its start."""

    __slots__ = ("_turn", "sizes")

    def __init__(self) -> None:
        self.sizes = Histogram(MESSAGE_BYTES_BOUNDS)
        self._turn = 0

    def published(self, batch: Batch) -> None:
        """A channel got the batch."""
        headers, sizes = batch.headers, self.sizes
        count = len(headers)
        at = headers[0]
        if count > 1:
            self._turn += 1
            at = headers[self._turn % count]
        # As `Batch.body_bytes` and `Histogram.observe`: calls would cost as much as the work.
        size_bytes = int.from_bytes(batch.wire[at + 11 : at + 19], "big")
        sizes.counts[bisect_left(sizes.bounds, size_bytes)] += count
        sizes.total += size_bytes * count
