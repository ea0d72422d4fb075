"""The trace of one node, through which actors write events: off it costs one look at a flag.

An actor renders an event at once and appends it to a ring in a mapped file (ring.py), without a
wait. The thread of `TraceFiles` (files.py) empties the ring, which outlives the process. When the
ring is full, events are dropped; `TraceLoss` counts them and reports them in the service log, a
line at a time and not for every event. The channel that publishes messages decides once which of
them are traced, so that all hops of a message are kept or none.

A sample has next to none of the few messages that are returned, nacked, expired or redelivered,
though users ask for those. So they are traced beside the sample, a limited number per second
(`trace_failures_per_second_max`), because all messages of a client may come back, and a sample must
stay a sample.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from ..events import TRACE_LOST
from .lines import TraceLines
from .parsing import ASKED_FOR, BROKER_STOPS
from .ring import TraceRing
from .sampling import Places, sampled

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


# While events are dropped, the service log says how many at most this often.
LOSS_LOG_SECONDS_MIN: Final = 10.0


class TraceLoss:
    """How many events were dropped. Used by all threads that trace; never waits for a disk."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.count = 0
        # The service log; the owner of the files sets it.
        self.log: FilteringBoundLogger | None = None
        self._clock = clock
        self._lock = threading.Lock()
        self._logged_count = 0
        self._logged_at = -LOSS_LOG_SECONDS_MIN

    def add(self, events: int) -> None:
        """So many events are dropped; the first ones are told of at once."""
        with self._lock:
            self.count += events
        self.tell()

    def tell(self, is_over: bool = False) -> None:
        """Log the unreported losses, unless the last line is recent and the loss goes on."""
        with self._lock:
            now = self._clock()
            since = self.count - self._logged_count
            is_due = is_over or now - self._logged_at >= LOSS_LOG_SECONDS_MIN
            if not since or not is_due:
                return
            self._logged_at = now
            self._logged_count = total = self.count
        if self.log is not None:
            self.log.warning(TRACE_LOST, dropped=since, dropped_total=total)


_SECOND_NS = 1_000_000_000


class FailureBudget:
    """Used on the event loop."""

    def __init__(self, per_second_max: int) -> None:
        self._per_second_max = per_second_max
        self._second = -1
        self._left = 0
        # Beyond the budget, and not told of yet.
        self._skipped = 0

    def admit(self, count: int, now_ns: int) -> int:
        """How many of so many messages are traced from now on."""
        second = now_ns // _SECOND_NS
        if second != self._second:
            self._second, self._left = second, self._per_second_max
        admitted = min(count, self._left)
        self._left -= admitted
        self._skipped += count - admitted
        return admitted

    def skipped(self, now_ns: int) -> int:
        """How many were not admitted in a second that is over; each is told of once."""
        if not self._skipped or now_ns // _SECOND_NS == self._second:
            return 0
        skipped, self._skipped = self._skipped, 0
        return skipped


# What this version writes; `trace.started` says it. Version 1 had no ring: events of its last
# moments were lost with the process, and `trace.lost` stood up to a full buffer from the gap.
TRACE_FORMAT: Final = 2


class TraceError(ValueError):
    """A rate or filter that cannot be; one line for people."""


@dataclass(frozen=True)
class TraceFilter:
    """Which messages: one of `every`, of these queues, users and connections (empty: of all)."""

    every: int = 1
    queues: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    connections: frozenset[str] = frozenset()

    @classmethod
    def with_rate(cls, rate: float, **names: Collection[str]) -> TraceFilter:
        """`rate` is above 0 and at most 1; TraceError if not."""
        # The smallest numbers there are have no reciprocal.
        if not 0 < rate <= 1 or 1 / rate == float("inf"):
            raise TraceError(f"bad trace rate {rate}: it must be above 0 and at most 1")
        return cls(round(1 / rate), **{name: frozenset(each) for name, each in names.items()})

    def wants(self, *, queue: str = "", user: str = "", connection: str = "") -> bool:
        """Does the filter include an event with these properties? Empty ones always match."""
        return (
            not (queue and self.queues and queue not in self.queues)
            and not (user and self.users and user not in self.users)
            and not (connection and self.connections and connection not in self.connections)
        )

    def is_of_queue(self, queue: str) -> bool:
        """Does the filter include faults of messages in that queue, whoever published them?

        A queue does not know the user or the connection: with a filter by these it reports nothing.
        """
        is_asked_for = not self.queues or queue in self.queues
        return is_asked_for and not self.users and not self.connections


class Sink(Protocol):
    """Writes the events."""

    def open(self) -> None:
        """Give the trace its ring; OSError if there cannot be one."""

    def start(self) -> None:
        """Write events from now on: the trace is on."""

    def stop(self) -> None:
        """The node ends: write the waiting events, and close."""


class Trace:
    """The trace of one node. Used on the event loop and by the journal's thread."""

    def __init__(
        self, boot_id: str, failures_per_second_max: int = 100, slow_ns: int = 1_000_000_000
    ) -> None:
        """`slow_ns`: a batch that takes so long is told of; 0 for none."""
        self.boot_id = boot_id
        self.slow_ns = slow_ns
        self._failures = FailureBudget(failures_per_second_max)
        self.is_on = False
        self.filter = TraceFilter()
        # What the sink made for events that wait to be written; None until it starts.
        self.ring: TraceRing | None = None
        self.loss = TraceLoss()
        # Why nothing can be written; empty while it can.
        self.error = ""
        # The filter and the reason of a start that waits for room on the disk.
        self._wanted: tuple[TraceFilter, str] | None = None
        # Who takes them; set by the node.
        self.sink: Sink | None = None
        self.now_ns: Callable[[], int] = time.monotonic_ns
        self._lines = TraceLines(boot_id)
        # Events are appended by several threads, and `trace.lost` goes in where they are missing.
        self._lock = threading.Lock()
        self._untold = 0

    def start(self, chosen: TraceFilter, reason: str) -> None:
        """Trace from now on; if it is on, with another filter. OSError if it cannot be written."""
        self._wanted = None
        if self.sink is not None:
            self.sink.open()
        if not self.is_on:
            # Of an earlier start that failed; the sink finds out by itself whether it can write.
            self.error = ""
        self.filter = chosen
        self.is_on = True
        if self.sink is not None:
            self.sink.start()
        self._note_state()
        self.write(
            "trace.started",
            "trace",
            reason=reason,
            one_of=chosen.every,
            queues=sorted(chosen.queues),
            users=sorted(chosen.users),
            connections=sorted(chosen.connections),
            format=TRACE_FORMAT,
        )

    def start_later(self, chosen: TraceFilter, reason: str) -> None:
        """The disk has no room for a start now: try again with each `retry_start`."""
        self._wanted = chosen, reason

    def retry_start(self) -> bool:
        """Start a trace that waits for room; true if one has begun by that."""
        if self._wanted is None:
            return False
        wanted = self._wanted
        try:
            self.start(*wanted)
        except OSError:
            self._wanted = wanted
            return False
        return True

    def replace_ring(self, made: TraceRing) -> None:
        """Append to this ring from now on, behind the waiting events of the one before."""
        with self._lock:
            before = self.ring
            assert before is not None
            waiting = before.read(before.capacity_bytes)
            is_kept = not waiting or made.append(waiting)
            assert is_kept
            before.release(len(waiting))
            self.ring = made
        made.note_state(self.is_on)
        before.close()

    def stop(self, reason: str = ASKED_FOR) -> None:
        """Stop tracing; earlier events are on their way to the files."""
        if self._wanted is not None:
            self._wanted = None
            self.error = ""
        if self.is_on:
            # Of the second that is not over, too.
            skipped = self._failures.skipped(0)
            if skipped:
                self.write("trace.limited", "trace", skipped=skipped)
            self.write("trace.stopped", "trace", reason=reason)
            self.is_on = False
            self._note_state()

    def _note_state(self) -> None:
        if self.ring is not None:
            self.ring.note_state(self.is_on)

    def close(self) -> None:
        """The node ends; all events are in the files when it returns. May wait for the disk."""
        self.stop(BROKER_STOPS)
        if self.sink is not None:
            self.sink.stop()

    def choose(
        self, batch_number: int, count: int, connection: str, user: str, queues: Collection[str]
    ) -> Places | None:
        """Which places of a batch of `count` messages are traced; None if none is.

        If some messages of a batch go to other queues, the caller selects those for the filter's
        queues.
        """
        chosen = self.filter
        if (
            (chosen.connections and connection not in chosen.connections)
            or (chosen.users and user not in chosen.users)
            or (chosen.queues and chosen.queues.isdisjoint(queues))
        ):
            return None
        return sampled(batch_number, count, chosen.every)

    def write(self, event: str, actor: str, at_ns: int = 0, /, **fields: object) -> None:
        """One event, now or at the moment `at_ns` of the monotonic clock; never waits."""
        if self.is_on:
            line = self._lines.line(at_ns or self.now_ns(), event, actor, fields)
            with self._lock:
                if self._untold:
                    line = self._lost_line() + line
                is_kept = self.ring is not None and self.ring.append(line)
                self._untold = 0 if is_kept else self._untold + 1
            if not is_kept:
                self.loss.add(1)

    def admit_failed(self, count: int) -> int:
        """How many of so many messages with which something went wrong are traced from now on."""
        now_ns = self.now_ns()
        skipped = self._failures.skipped(now_ns)
        if skipped:
            self.write("trace.limited", "trace", skipped=skipped)
        return self._failures.admit(count, now_ns)

    def tell_loss(self) -> None:
        """Have `trace.lost` behind the last event, if there is room and events are missing there.

        For the thread that empties the ring: nobody may write another event for long.
        """
        with self._lock:
            if self._untold and self.ring is not None and self.ring.append(self._lost_line()):
                self._untold = 0

    def _lost_line(self) -> bytes:
        return self._lines.line(self.now_ns(), "trace.lost", "trace", {"dropped": self._untold})
