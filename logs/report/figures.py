"""The figures of a trace's report, defined once for every engine that computes them.

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
the first, summed up. If one of n messages is traced, each stands for n: rates are estimated from
them, and counts are of traced messages. A message that is traced only since something went wrong
with it (`late`) is none of the sample, and counts nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ..reading.coverage import Coverage


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
# Hops of which each queue has figures of its own.
QUEUE_HOPS: Final = ("confirm", "deliver")


class Latency(NamedTuple):
    """How long one hop took, over so many `messages`; nanoseconds, all 0 if there is none.

    `estimated` is how many messages these stand for.
    """

    messages: int = 0
    estimated: int = 0
    p50_ns: int = 0
    p95_ns: int = 0
    p99_ns: int = 0
    p999_ns: int = 0
    max_ns: int = 0

    def durations(self) -> tuple[int, ...]:
        """The quantiles, and the longest."""
        return self[2:]


class Counts(NamedTuple):
    """How many messages had this moment in a queue."""

    enqueued: int
    confirmed: int  # its publisher was told
    delivered: int
    settled: int


class QueueFigures(NamedTuple):
    """One queue: how many traced messages it had, how many they stand for, what it took them."""

    vhost: str  # empty in traces of version 1, which do not say it
    queue: str
    traced: Counts
    estimated: Counts
    confirm: Latency
    deliver: Latency


class TraceFigures(NamedTuple):
    """The whole report."""

    events: int
    bad_lines: int
    seconds: float
    queues: tuple[QueueFigures, ...]  # by virtual host and name
    hops: tuple[tuple[Hop, Latency], ...]  # as in HOPS
    # What the trace lacks: `trace_coverage` in sentences.
    notes: tuple[str, ...] = ()
    # Is a part of the messages traced, so that rates are estimates?
    is_sample: bool = False


# A part of the trace: its file, its boot (None: lines that are no events), how many lines, and
# the first and the last `t_ns` of its events.
ReadPart = tuple[str, str | None, int, int | None, int | None]

_SECOND_NS: Final = 1e9


def totals_of(parts: Iterable[ReadPart], torn: int) -> tuple[int, int, float]:
    """How many events, how many lines that are none, and the seconds that the boots cover.

    The last line of `torn` files is cut off, as a killed broker leaves it: no event, and no fault.
    """
    events, bad_lines = 0, -torn
    boots: dict[str, tuple[int, int]] = {}
    for _file, boot, lines, begin_ns, end_ns in parts:
        if boot is None or begin_ns is None or end_ns is None:
            bad_lines += lines
            continue
        events += lines
        first, last = boots.get(boot, (begin_ns, end_ns))
        boots[boot] = min(first, begin_ns), max(last, end_ns)
    return events, bad_lines, sum(last - first for first, last in boots.values()) / _SECOND_NS


def figures_from(
    read: tuple[int, int, float],
    counts: Iterable[tuple[Any, ...]],
    latencies: Iterable[tuple[Any, ...]],
    coverage: Coverage,
) -> TraceFigures:
    """The report of what queries.py gives.

    `read` is what `totals_of` gives; `counts` are the rows of COUNTS, `latencies` those of
    LATENCIES.
    """
    took = {(vhost, queue, hop): Latency(*figures) for vhost, queue, hop, *figures in latencies}
    nothing = Latency()
    queues = [
        QueueFigures(
            vhost,
            queue,
            Counts(*counted[:4]),
            Counts(*counted[4:]),
            *(took.get((vhost, queue, hop), nothing) for hop in QUEUE_HOPS),
        )
        for vhost, queue, *counted in counts
    ]
    return TraceFigures(
        *read,
        tuple(sorted(queues, key=lambda each: each[:2])),
        tuple((hop, took.get((None, None, hop.name), nothing)) for hop in HOPS),
        tuple(coverage.notes()),
        coverage.is_sample,
    )
