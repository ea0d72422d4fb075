"""What a report of a trace tells, defined once for all who work it out.

**Messages.** One traced message is `(boot, batch, place)`; an event with ranges speaks of each
message in them. Behind its routing a message counts once in every queue that has it.

**Moments.** A message's moment for an event is the `t_ns` of the first such event about it, for
events of queues the first in that queue. Three are found in a roundabout way:
- `journal.appended` names the queue by its number, which `message.enqueued` and
  `message.recovered` of the same boot give a name;
- `journal.synced` is the first of the boot that lists the batch, at or after the message's
  `journal.appended` for that queue;
- `confirm.sent` holds the number that `command.assembled` gave the message (the n-th number
  belongs to the n-th place): the next one of that boot, connection and channel behind it,
  before the number is given again.

**Hops.** A hop is the time between two such moments of one message, in nanoseconds; a message that
lacks one of them does not count for that hop. Nothing is cut off or smoothed.

**Quantiles.** Exact, by nearest rank: of n values in ascending order the one at `ceil(q * n)`,
counted from 1. A quantile is thus a value that occurred.

**Rates.** A queue's count by the seconds that the trace covers: for every boot the last `t_ns` less
the first, summed up. If one of n messages is traced, all counts are of those that are traced.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Hop(NamedTuple):
    """From one event of a message to another."""

    name: str
    begin: str
    end: str
    # Once for each queue that has the message, not once for the message.
    is_per_queue: bool


HOPS: Final = (
    Hop("assemble", "frame.received", "command.assembled", False),
    Hop("route", "command.assembled", "message.routed", False),
    Hop("enqueue", "message.routed", "message.enqueued", True),
    Hop("append", "message.enqueued", "journal.appended", True),
    Hop("sync", "journal.appended", "journal.synced", True),
    Hop("persist", "journal.synced", "message.persisted", True),
    Hop("report", "message.persisted", "confirm.queued", True),
    Hop("send", "confirm.queued", "confirm.sent", True),
    Hop("confirm", "frame.received", "confirm.sent", True),
    Hop("deliver", "message.enqueued", "message.delivered", True),
    Hop("settle", "message.delivered", "message.settled", True),
)
QUANTILES: Final = (0.5, 0.95, 0.99, 0.999)


class Latency(NamedTuple):
    """How long one hop took, over so many `messages`; nanoseconds, all 0 if there is none."""

    messages: int = 0
    p50_ns: int = 0
    p95_ns: int = 0
    p99_ns: int = 0
    p999_ns: int = 0
    max_ns: int = 0


class QueueFigures(NamedTuple):
    """One queue: how many messages had this moment in it, and how long it took them."""

    queue: str
    enqueued: int
    confirmed: int  # its publisher was told
    delivered: int
    settled: int
    confirm: Latency
    deliver: Latency


class TraceFigures(NamedTuple):
    """The whole report."""

    events: int
    bad_lines: int
    seconds: float
    queues: tuple[QueueFigures, ...]  # by name
    hops: tuple[tuple[Hop, Latency], ...]  # as in HOPS
