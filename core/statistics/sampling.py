"""Samples of a node: at each tick, the values of all objects that have changed since the last.

The histories of all objects together are bounded: with many objects each one is shorter. Objects
that have not changed for as long as a history reaches back keep their last values only.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final

from ..definitions import QueueDefinition
from .channel_counts import ChannelCounts
from .history import History, Moment
from .node_counts import CHURN, LENGTHS, Counted, NodeCounts, Totals
from .traffic import Traffic

OCTETS: Final = ("recv_oct", "send_oct")
PUBLISHES: Final = ("confirm", "drop_unroutable", "publish", "return_unroutable")
DELIVERIES: Final = (
    "ack",
    "deliver",
    "deliver_get",
    "deliver_no_ack",
    "get",
    "get_empty",
    "get_no_ack",
    "redeliver",
)
MESSAGES: Final = (*PUBLISHES, *DELIVERIES)
PUBLISH: Final = ("publish",)
PASSED_ON: Final = ("publish_in", "publish_out")
GAUGES: Final = (
    "disk_free",
    "fd_used",
    "io_sync_count",
    "io_write_bytes",
    "io_write_count",
    "mem_used",
    "msg_store_read_count",
    "msg_store_write_count",
    "proc_used",
    "sockets_used",
)

# Columns of the histories of each kind.
QUEUE: Final = (*LENGTHS, *PUBLISH, *DELIVERIES)
LEVELS: Final = (*LENGTHS, *OCTETS)
VHOST: Final = (*LEVELS, *MESSAGES)
NODE: Final = (*VHOST, *CHURN, *GAUGES)

SAMPLES_MIN: Final = 3
# A queue's row, which most are: its tick and eleven values, of 8 bytes each.
_ROW_BYTES: Final = 100
# Each tick looks at this many objects at least, to find unchanged ones.
_LOOKED_AT_MIN: Final = 1_000
# Queues that one step adds up: some microseconds.
_SUMMED_IN_STEP: Final = 8


class Sampling:
    """Ticks of a node. Histories reach back `samples_max` ticks, or less if `bytes_max` says so."""

    def __init__(
        self, node: NodeCounts, interval_ms: int, samples_max: int, bytes_max: int
    ) -> None:
        self._node = node
        self._interval_ms = interval_ms
        self._samples_max = samples_max
        self._bytes_max = bytes_max
        self._tick = 0
        self._previous = -1
        self._first_tick = 0
        # Objects with histories of several rows, those looked at longest ago first.
        self._alive: dict[Any, None] = {}
        node.is_sampled = True

    @property
    def tick(self) -> int:
        """The number of the last tick."""
        return self._tick

    @property
    def moment(self) -> Moment:
        """The last tick, and what histories show at it."""
        first = max(self._tick - self.samples_kept, self._first_tick)
        return Moment(self._tick, self._previous, self._interval_ms, first)

    @property
    def retained_ms(self) -> int:
        """How far the history of an object reaches back at most."""
        return self._samples_max * self._interval_ms

    @property
    def samples_kept(self) -> int:
        """How many ticks the history of an object reaches back now."""
        count = self._bytes_max // (_ROW_BYTES * max(len(self._alive), 1))
        return min(max(count, SAMPLES_MIN), self._samples_max)

    def begin_anew(self) -> None:
        """Have histories begin with the last tick."""
        self._first_tick = self._tick

    def stop(self) -> None:
        """Nobody wants samples any more."""
        self._node.is_sampled = False
        self._node.touched.clear()

    def sample(
        self, tick: int, traffic: Iterable[Traffic], gauges: Callable[[], Sequence[int]]
    ) -> Generator[None, None, None]:
        """Sample the changed objects, in short steps.

        `traffic` is that of the open connections; `gauges` gives the values of GAUGES.
        """
        node = self._node
        yield from node.collecting()
        self._first_tick = self._first_tick or tick
        first_kept = max(tick - self.samples_kept, self._first_tick)
        for octets in traffic:
            self._record(octets, OCTETS, octets.octets(), tick, first_kept)
            octets.count()
            yield
        touched, node.touched = node.touched, {}
        for each in touched:
            if isinstance(each, QueueDefinition):
                self._queue(each, tick, first_kept)
            elif isinstance(each, ChannelCounts):
                yield from self._channel(each, tick, first_kept)
            elif isinstance(each, Counted):
                self._record(each, PASSED_ON, _values(each.totals, PASSED_ON), tick, first_kept)
            yield
        # Behind the connections and the queues, which count for them.
        for vhost in node.vhosts():
            if vhost in touched or vhost in node.touched:
                values = [*_values(vhost.levels, LEVELS), *_values(vhost.totals, MESSAGES)]
                self._record(vhost, VHOST, values, tick, first_kept)
            yield
        values = [*_values(node.levels, LEVELS), *_values(node.totals, MESSAGES)]
        values += [*_values(node.churn, CHURN), *gauges()]
        self._record(node, NODE, values, tick, first_kept)
        self._previous = self._tick or tick - 1
        self._tick = tick
        yield from self._forget(first_kept, max(_LOOKED_AT_MIN, 2 * len(touched)))

    def _record(
        self, owner: Any, columns: Sequence[str], values: Sequence[int], tick: int, first_kept: int
    ) -> None:
        """Note the values of an object."""
        history: History | None = owner.history
        if history is None:
            history = owner.history = History(len(columns))
        history.record(tick, values, first_kept)
        if history.last_tick == tick:
            self._alive[owner] = None

    def _queue(self, queue: QueueDefinition, tick: int, first_kept: int) -> None:
        if queue.rules is None:
            return
        counts = self._node.of_queue(queue)
        lengths = lengths_of(queue)
        self._node.count_lengths(counts, lengths)
        values = [*lengths, *_values(counts.totals, QUEUE[len(lengths) :])]
        self._record(counts, QUEUE, values, tick, first_kept)
        for each in counts.by_exchange.values():
            self._record(each, PUBLISH, _values(each.totals, PUBLISH), tick, first_kept)

    def _channel(
        self, counts: ChannelCounts, tick: int, first_kept: int
    ) -> Generator[None, None, None]:
        self._record(counts, MESSAGES, _values(counts.totals, MESSAGES), tick, first_kept)
        for published in tuple(counts.exchanges.values()):
            values = _values(published.totals, PUBLISHES)
            self._record(published, PUBLISHES, values, tick, first_kept)
            yield
        for delivered in tuple(counts.queues.values()):
            values = _values(delivered.totals, DELIVERIES)
            self._record(delivered, DELIVERIES, values, tick, first_kept)
            yield

    def _forget(self, first_kept: int, count: int) -> Generator[None, None, None]:
        """Have objects that have not changed lately keep their last values only."""
        for _ in range(min(len(self._alive), count)):
            owner = next(iter(self._alive))
            del self._alive[owner]
            history: History | None = owner.history
            if history is not None:
                history.forget(first_kept)
                if history.last_tick > first_kept:
                    self._alive[owner] = None
            yield


def _values(totals: Totals, columns: Sequence[str]) -> list[int]:
    return [totals.get(name, 0) for name in columns]


def lengths_of(queue: QueueDefinition) -> tuple[int, int]:
    """Its ready messages, and the others: in flight, or deferred."""
    ready, _, unacked = queue.rules.counts()
    return ready, unacked + queue.rules.deferred_count


def numbers_of(queue: QueueDefinition) -> dict[str, int]:
    """The counts of a queue now, by RabbitMQ's names; none of a queue that is not up.

    Deferred messages count as unacknowledged: they are not ready, and come back.
    """
    if queue.rules is None:
        return {}
    return _numbers(*lengths_of(queue), len(queue.rules.consumers), queue.rules.held_bytes)


def sums_of(queues: Iterable[QueueDefinition]) -> Generator[None, None, dict[str, int]]:
    """`numbers_of` all of them, added up in short steps; `queues` are not to change meanwhile."""
    ready = unacked = consumers = held_bytes = 0
    for at, queue in enumerate(queues):
        rules = queue.rules
        if rules is not None:
            its_ready, its_consumers, its_unacked = rules.counts()
            ready += its_ready
            consumers += its_consumers
            unacked += its_unacked + rules.deferred_count
            held_bytes += rules.held_bytes
        if not at % _SUMMED_IN_STEP:
            yield
    return _numbers(ready, unacked, consumers, held_bytes)


def _numbers(ready: int, unacked: int, consumers: int, held_bytes: int) -> dict[str, int]:
    return {
        "consumers": consumers,
        "memory": held_bytes,
        "messages": ready + unacked,
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
    }
