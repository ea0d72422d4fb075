"""Small publishes that a queue got in one turn, and which of them may enter as one batch.

What the rules, the journal and its thread do for a batch costs as much for one message as for a
hundred. Many connections that publish a message each bring a batch each, so their messages are
merged where nothing depends on which publish they came in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from ...amqp_frames.messages.batch import Batch
from ...amqp_frames.messages.merging import merged
from ..messages import Publish

# A larger publish is not copied for this. No setting: a queue has what it gathers anyhow, and the
# publish windows bound it.
MERGED_BYTES_MAX: Final = 4 * 1024
# So many wait at most, even if the mailbox of the queue is never empty: together 1 MiB.
GATHERED_COUNT_MAX: Final = 256


class GatheredPublishes:
    """In the order in which they came."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[Publish] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, publish: Publish) -> int:
        """One more, behind the others; how many there are now."""
        waiting = self._waiting
        waiting.append(publish)
        return len(waiting)

    def drain(self) -> list[Publish]:
        """Remove all of them, for a queue that has failed."""
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting

    def next_run(self, *, may_merge: bool) -> list[Publish]:
        """Remove the first, with those behind it that may be merged with it."""
        waiting = self._waiting
        first = waiting.popleft()
        run = [first]
        if not (may_merge and waiting and _is_plain(first)):
            return run
        is_durable = first.batch.durable is None
        while waiting:
            publish = waiting[0]
            if (
                (publish.batch.durable is None) is not is_durable
                or publish.is_shared is not first.is_shared
                or not _is_plain(publish)
            ):
                break
            run.append(waiting.popleft())
        return run


def _is_plain(publish: Publish) -> bool:
    """Does nothing set its messages apart, are all of them the queue's, and of one kind?

    All of them are to be appended to the journal, or none: those that wait for the disk are
    answered together.
    """
    batch = publish.batch
    durable = batch.durable
    return (
        len(publish.indexes) == len(batch.starts)
        and (durable is None or not len(durable))
        and batch.ttls_ms is None
        and not batch.arrived
        and publish.delays_ms.__class__ is int
        and not publish.delays_ms
    )


def as_one(batches: Sequence[Batch], number: int) -> Batch:
    """The messages of all of them, in a batch of its own with this number."""
    batch = merged(batches)
    batch.number = number
    return batch
