"""Which messages of a batch are traced: the one writer of `Batch.traced`.

The channel that routes a batch chooses (`mark`), the start chooses among what the journal gave
back, and a dead letter is traced if its original was. Messages that were not chosen are traced from
the moment when something goes wrong with them (`mark_late`): the earlier steps of such a message
are not in the trace, so the event that begins its trace says `late`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from ...amqp_frames.messages.batch import Batch, Indexes
from ...logs.trace.trace import Trace


def mark(batch: Batch, indexes: Sequence[int]) -> None:
    """Trace these messages, which ascend, and no others of the batch; of none if there are none."""
    if not len(indexes):
        batch.traced = None
    elif isinstance(indexes, range | array):
        batch.traced = indexes
    else:
        batch.traced = array("I", indexes)


def mark_late(trace: Trace, batch: Batch, indexes: Sequence[int]) -> Indexes | None:
    """Trace these messages from now on; returns the newly traced ones, None if there are none.

    Within the trace's budget for failures. The caller has asked the filter.
    """
    if not trace.is_on or trace.filter.every == 1:
        return None
    traced = batch.traced
    if traced is None:
        untraced = indexes
    elif isinstance(traced, range):
        untraced = [index for index in indexes if index not in traced]
    else:
        known = set(traced)
        untraced = [index for index in indexes if index not in known]
    if not len(untraced):
        return None
    late = array("I", untraced[: trace.admit_failed(len(untraced))])
    if not late:
        return None
    mark(batch, late if traced is None else sorted((*traced, *late)))
    return late
