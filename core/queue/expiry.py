"""The part of a queue whose messages may expire: `x-message-ttl`, `expiration` of single messages.

A message gets its deadline when it enters the queue: the smaller of the two times from then on. It
keeps the deadline when it is requeued, over a restart, and when the queue's time to live changes.
As in RabbitMQ's classic queues
- a message expires at the head of the queue only, so one with a short time to live waits behind
  one with a longer, and is dropped when it comes to the head;
- messages in flight do not expire;
- with a time to live of 0 a message goes to a consumer that has room at once, or nowhere.

Expired messages are settled, and confirmed like any message, or dead-lettered. A queue whose
arguments ask for no such part gets one with its first message that has an `expiration`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from ...amqp_frames.messages.batch import Batch, Indexes
from ...amqp_frames.values.field_table import Table
from .columns import TTL_NONE, times_to_live
from .parts import Part
from .span import ExpiringSpan, Span

# Rows that may expire before others get their turn; each is some microseconds.
EXPIRED_ROWS_MAX: Final = 2_000

# A deadline, 0 for none, and how many messages in a row have it.
DeadlineRun = tuple[int, int]


class Deadlines(Part):
    """Gives new messages their deadlines, and says when a row has passed its own."""

    __slots__ = ("_ttl_ms", "is_behind")

    name: ClassVar[str] = "deadlines"

    def __init__(self, ttl_ms: int = TTL_NONE) -> None:
        """`ttl_ms`: the queue's own time to live."""
        self._ttl_ms = ttl_ms
        # Has more expired than one call of the rules may drop?
        self.is_behind = False

    def remainder(self, rows: Iterable[Span]) -> Part | None:
        """Messages that have a deadline keep it: for them a part without a time to live stays."""
        return Deadlines() if any(map(deadline_of, rows)) else None

    def runs(self, batch: Batch, indexes: Indexes, now_ms: int) -> list[DeadlineRun]:
        """The deadlines of new messages, in order."""
        own = self._ttl_ms
        ttls_ms = times_to_live(batch, indexes)
        if ttls_ms is None:
            return [(_deadline(own, now_ms), len(indexes))]
        runs: list[DeadlineRun] = []
        for ttl_ms in ttls_ms:
            deadline = _deadline(min(own, ttl_ms), now_ms)
            if runs and runs[-1][0] == deadline:
                runs[-1] = (deadline, runs[-1][1] + 1)
            else:
                runs.append((deadline, 1))
        return runs


def deadlines_part(arguments: Table) -> Deadlines:
    """The part that `x-message-ttl` asks for."""
    ttl_ms = arguments["x-message-ttl"].value
    assert isinstance(ttl_ms, int)
    return Deadlines(ttl_ms)


def _deadline(ttl_ms: int, now_ms: int) -> int:
    return 0 if ttl_ms == TTL_NONE else now_ms + ttl_ms


def deadline_of(span: Span | None) -> int | None:
    """When the messages of this row expire, in milliseconds since the epoch; None for never."""
    return (span.deadline_ms or None) if isinstance(span, ExpiringSpan) else None


def aligned(
    runs: Sequence[DeadlineRun], entry_ids: range | array[int], first: int
) -> int | array[int]:
    """Deadlines as the journal takes them: one for all of these entries, or one for each.

    `runs` are the deadlines of the entries from `first` on.
    """
    if all(deadline == runs[0][0] for deadline, _ in runs):
        return runs[0][0]
    each = array("Q")
    for deadline, count in runs:
        each.extend([deadline] * count)
    return array("Q", [each[entry_id - first] for entry_id in entry_ids])


def spans_in_runs(
    batch: Batch,
    indexes: Indexes,
    first_entry_id: int,
    attempts: int,
    stored: bool,
    runs: Iterable[DeadlineRun],
) -> list[Span]:
    """A row of messages for each run of deadlines."""
    spans: list[Span] = []
    start = 0
    for deadline, count in runs:
        row, first = indexes[start : start + count], first_entry_id + start
        if deadline:
            spans.append(ExpiringSpan(batch, row, first, attempts, stored, deadline))
        else:
            spans.append(Span(batch, row, first, attempts, stored))
        start += count
    return spans


def spans_of(
    batch: Batch,
    indexes: Indexes,
    first_entry_id: int,
    attempts: int,
    deadlines: int | array[int],
) -> list[Span]:
    """Rows of messages as the journal kept them; deadlines as in its records."""
    if isinstance(deadlines, int):
        runs = [(deadlines, len(indexes))]
    else:
        runs = []
        for deadline in deadlines:
            if runs and runs[-1][0] == deadline:
                runs[-1] = (deadline, runs[-1][1] + 1)
            else:
                runs.append((deadline, 1))
    return spans_in_runs(batch, indexes, first_entry_id, attempts, True, runs)
