"""What actors write their trace through: off it costs one look at a flag, and never a wait.

An event is a tuple in a bounded buffer, taken by the thread of `trace_files.TraceFiles`; when the
buffer is full, events are dropped and counted. Which messages are traced is decided once, by the
channel that published them, so that all hops of a message are kept or none.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import repeat
from typing import Protocol

from .sampling import Places, sampled
from .trace_loss import TraceLoss

# When, on the monotonic clock, in nanoseconds; which event; which actor; its fields.
Entry = tuple[int, str, str, dict[str, object]]

# An event with more ranges than this takes up several of the buffer's places, so that the buffer's
# memory is bounded: a place takes 3 KB at most, and 0.8 where messages are alike.
PLACE_RANGES_MAX = 8


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
        """Is an event of these to be told of? Of what is left out nothing is asked."""
        return (
            not (queue and self.queues and queue not in self.queues)
            and not (user and self.users and user not in self.users)
            and not (connection and self.connections and connection not in self.connections)
        )


class Sink(Protocol):
    """Who writes the events."""

    def start(self) -> None:
        """Be ready to write."""

    def stop(self) -> None:
        """The node ends: write what is there, and close."""


class Trace:
    """The trace of one node. Used on the event loop and by the journal's thread."""

    def __init__(self, boot_id: str, buffer_events_max: int) -> None:
        self.boot_id = boot_id
        self.is_on = False
        self.filter = TraceFilter()
        # So many places there are for events that wait to be written. None stands behind an event
        # that takes up more than one: the length is then all there is to count, by any thread.
        self.buffer_events_max = buffer_events_max
        self.entries: deque[Entry | None] = deque()
        self.loss = TraceLoss()
        # Why nothing can be written; empty while it can.
        self.error = ""
        # Who takes them; set by the node.
        self.sink: Sink | None = None
        self.now_ns: Callable[[], int] = time.monotonic_ns

    def start(self, chosen: TraceFilter, reason: str) -> None:
        """Trace from now on; if it is on, with another filter."""
        self.filter = chosen
        self.is_on = True
        if self.sink is not None:
            self.sink.start()
        self.write(
            "trace.started",
            "trace",
            reason=reason,
            one_of=chosen.every,
            queues=sorted(chosen.queues),
        )

    def stop(self) -> None:
        """Trace no more; what was traced is on its way to the files."""
        if self.is_on:
            self.write("trace.stopped", "trace")
            self.is_on = False

    def close(self) -> None:
        """The node ends; what was traced is in the files when it returns. May wait for the disk."""
        self.stop()
        if self.sink is not None:
            self.sink.stop()

    def choose(
        self, batch_number: int, count: int, connection: str, user: str, queues: Collection[str]
    ) -> Places | None:
        """Which places of a batch of `count` messages are traced; None if none is.

        Of a batch of which some messages go elsewhere the caller takes what goes to the filter's
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
        if not self.is_on:
            return
        entries = self.entries
        if len(entries) >= self.buffer_events_max:
            self.loss.add(1)
            return
        entries.append((at_ns or self.now_ns(), event, actor, fields))
        spans = fields.get("messages") or fields.get("seq_no")
        # There may be many of these in few of those.
        parts = fields.get("waits_for_sync") or fields.get("singles")
        if isinstance(parts, list) and (not isinstance(spans, list) or len(parts) > len(spans)):
            spans = parts
        if isinstance(spans, list) and len(spans) > PLACE_RANGES_MAX:
            entries.extend(repeat(None, len(spans) // PLACE_RANGES_MAX))
