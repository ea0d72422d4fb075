"""What consumes for one run of a streaming query: a thread per broker address, and what they share.

The threads live in the process that Spark keeps for a query's source on the driver. Each keeps its
connection's heartbeats whatever the query does, and holds deliveries unacked (prefetch bounds how
many per queue) in `HeldRanges`, under one lock. Spark's side waits here for messages, and has
ranges acked. Executors could not ack: a delivery can only be acked on the channel it came by.

A connection that breaks is made again for as long as `reconnect_timeout_ms` allows without any
connection at all; what was unacked on it comes back redelivered. What a new connection would not
mend ends the query, loudly: a deleted queue (the consumer is cancelled, or the queue is not found),
a refused login, a channel that the broker closes (such as its limit for unacked deliveries).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from ..logs.events import SPARK_SOURCE_CONNECTION_LOST
from .broker_errors import SourceError
from .held_ranges import HeldRanges
from .received import Received

if TYPE_CHECKING:
    import pika

# How long Spark waits until the broker has acks; later they are sent all the same.
ACK_TIMEOUT_S: Final = 10.0


class ChannelName(NamedTuple):
    """One queue on one connection; a new connection to the same address has another number."""

    address: str
    connection: int
    queue: str


@dataclass(frozen=True)
class Consuming:
    """What to consume; `only_present`: no more than is in the queues when it is connected to."""

    queues: tuple[str, ...]
    prefetch: int
    reconnect_timeout_ms: int
    only_present: bool = False


Ways = Mapping[str, Callable[[], "pika.ConnectionParameters"]]
Warn = Callable[..., object]


class Consumers:
    """All threads of one query, and what they share."""

    def __init__(self, ways: Ways, consuming: Consuming, warn: Warn) -> None:
        """Take how to reach each address, and how to log."""
        from .consumer_thread import ConsumerThread

        self.ranges: HeldRanges[ChannelName, Received] = HeldRanges()
        self.changed = threading.Condition()
        self.consuming = consuming
        self.warn = warn
        # Which address counts for a cluster of brokers, by the cluster's name.
        self.clusters: dict[str, str] = {}
        self.arrived_at_s = time.monotonic()
        self._failure: SourceError | None = None
        self._connected: set[str] = set()
        self._tried: set[str] = set()
        self._parted_at_s = dict.fromkeys(ways, time.monotonic())
        self._threads = {
            address: ConsumerThread(self, address, way) for address, way in ways.items()
        }
        for thread in self._threads.values():
            thread.start()

    def check(self) -> None:
        """Raise if reading cannot go on."""
        if self._failure is not None:
            raise self._failure

    def wait_until_tried(self) -> None:
        """Return when every address has been connected to once, or could not be."""
        with self.changed:
            self.changed.wait_for(lambda: self._failure or len(self._tried) == len(self._threads))

    def wait_for(self, enough: Callable[[], bool], seconds: float) -> None:
        """Wait until `enough`, a failure or the time is up; with the lock held."""
        self.changed.wait_for(lambda: self._failure is not None or enough(), seconds)

    def has_batch(self, records: int, size_bytes: int) -> bool:
        """Is there a whole batch, or all that there can be before an ack? With the lock held."""
        if self.ranges.has(records, size_bytes):
            return True
        prefetch = self.consuming.prefetch
        return self.ranges.available > 0 and (
            self.ranges.available == self.ranges.remaining
            or all(self.ranges.unacked(each) >= prefetch for each in self.ranges.channels)
        )

    @property
    def are_settled(self) -> bool:
        """Is every address connected to, or unreachable for so long that it is passed over?"""
        return all(
            address in self._connected or self._parted_ms(address) > self._timeout_ms
            for address in self._threads
        )

    def ack(self, tags: Mapping[ChannelName, int]) -> None:
        """Ack up to these tags, and return when the brokers have them; not with the lock held.

        Spark may kill this process right after its last question: an ack that is only in a buffer
        by then would be lost, and the last batch be delivered again.
        """
        done = [self._threads[each.address].ask(each, tag) for each, tag in tags.items()]
        deadline_s = time.monotonic() + ACK_TIMEOUT_S
        for each in done:
            each.wait(max(0.0, deadline_s - time.monotonic()))

    def stop(self) -> None:
        """Close the connections; what is unacked goes back to its queues."""
        for thread in self._threads.values():
            thread.stop()
        for thread in self._threads.values():
            thread.join()

    def connected(self, address: str) -> None:
        """Note that an address has been connected to; called by its thread, as are the next two."""
        with self.changed:
            self._connected.add(address)
            self._tried.add(address)
            self.arrived_at_s = time.monotonic()
            self.changed.notify_all()

    def disconnected(self, address: str, reason: str) -> None:
        """Note that an address has no connection; raise if there has been none at all for long."""
        with self.changed:
            if address in self._connected:
                self._connected.discard(address)
                self._parted_at_s[address] = time.monotonic()
                self.warn(SPARK_SOURCE_CONNECTION_LOST, broker=address, reason=reason)
            self._tried.add(address)
            self.changed.notify_all()
            if not self._connected and self.are_settled:
                raise SourceError(
                    f"no connection to {', '.join(self._threads)} for "
                    f"{self._timeout_ms} ms (reconnectTimeoutMs): {reason}"
                )

    def failed(self, error: SourceError) -> None:
        """Note that reading cannot go on."""
        with self.changed:
            self._failure = self._failure or error
            self.changed.notify_all()

    @property
    def _timeout_ms(self) -> int:
        return self.consuming.reconnect_timeout_ms

    def _parted_ms(self, address: str) -> float:
        return (time.monotonic() - self._parted_at_s[address]) * 1000
