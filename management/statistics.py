"""The numbers in rows: what rows ask of queues, exchanges, channels, connections and the node.

Rows ask here, and nowhere else, so that counters and their histories (core/statistics) have one
place. All is read on the event loop, where the actors that own it run, too.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from ..actors.node_context import NodeContext, OpenConnection
from ..core.connection.reading_time import Pause
from ..core.definitions import ExchangeDefinition, QueueDefinition
from ..core.statistics.channel_counts import ChannelCounts
from ..core.statistics.history import History, Range, details
from ..core.statistics.node_counts import CHURN, LENGTHS, Counted, QueueCounts, Totals
from ..core.statistics.sampling import (
    DELIVERIES,
    GAUGES,
    MESSAGES,
    NODE,
    OCTETS,
    PASSED_ON,
    PUBLISH,
    PUBLISHES,
    QUEUE,
    VHOST,
    Sampling,
    numbers_of,
    sums_of,
)
from ..core.topology.topology import Topology
from .pace import Pace

Numbers = dict[str, Any]

# Of the numbers of queues.
SUMMED: Final = ("consumers", "messages", "messages_ready", "messages_unacknowledged")


class Ranges(NamedTuple):
    """Samples that a request wants of lengths, of message rates and of octets; None: none."""

    lengths: Range | None = None
    messages: Range | None = None
    octets: Range | None = None


NO_RANGES = Ranges()


class Statistics:
    """Of one node."""

    def __init__(self, context: NodeContext, sampling: Sampling) -> None:
        self._context = context
        self._sampling = sampling

    async def collect(self, pace: Pace) -> None:
        """Have all counts be those of this moment."""
        if self._context.counts.has_new:
            await pace.carry_out(self._context.counts.collecting())

    # --- Queues

    def of_queue(self, queue: QueueDefinition, ranges: Ranges = NO_RANGES) -> Numbers:
        """How many messages it has, and had."""
        if queue.rules is None:
            return {}
        counts = self._context.counts.of_queue(queue)
        numbers: Numbers = numbers_of(queue)
        numbers |= self._lengths([counts.history], QUEUE, ranges.lengths)
        numbers |= self._idle_since(counts.history)
        names = (*PUBLISH, *DELIVERIES)
        return numbers | self._messages(counts, QUEUE, names, ranges.messages)

    def state_of_queue(self, queue: QueueDefinition) -> object:
        """Another one whenever `of_queue` is; quick to make, because lists ask it of each queue."""
        rules = queue.rules
        if rules is None:
            return None
        counts: QueueCounts = queue.counts
        tick = self._sampling.tick
        # Only then a rate is not 0.
        rate_of = tick if counts.history is not None and counts.history.last_tick == tick else 0
        consumers = rules.consumers
        return (
            rules.counts(),
            rules.deferred_count,
            rules.held_bytes,
            counts.changes,
            rate_of,
            consumers.exclusive,
            consumers.single_active,
        )

    def of_queues(self, queues: Iterable[QueueDefinition]) -> Generator[None, None, Numbers]:
        """The sums of several, in short steps; `queues` are not to change meanwhile."""
        sums = yield from sums_of(queues)
        return {name: sums[name] for name in SUMMED}

    def incoming_of_queue(self, queue: QueueDefinition, wanted: Range | None) -> list[Numbers]:
        """Its messages by the exchange that they came through."""
        by_exchange = self._context.counts.of_queue(queue).by_exchange
        return [
            {
                "exchange": {"name": name, "vhost": queue.vhost},
                "stats": self._stats([counted], PUBLISH, PUBLISH, wanted),
            }
            for name, counted in by_exchange.items()
        ]

    # --- Exchanges

    def of_exchange(self, exchange: ExchangeDefinition, wanted: Range | None = None) -> Numbers:
        """What it got and passed on, if anything."""
        counted = self._counted(exchange)
        return {} if counted is None else self._messages(counted, PASSED_ON, PASSED_ON, wanted)

    def state_of_exchange(self, exchange: ExchangeDefinition) -> object:
        """Another one whenever `of_exchange` is."""
        counted = self._counted(exchange)
        if counted is None:
            return None
        tick, history = self._sampling.tick, counted.history
        rate_of = tick if history is not None and history.last_tick == tick else 0
        return tuple(counted.totals.items()), rate_of

    def _counted(self, exchange: ExchangeDefinition) -> Counted | None:
        topology = self._context.vhosts.find(exchange.vhost)
        if topology is None:
            return None
        return self._context.counts.of_exchange(topology, exchange.name)

    def outgoing_of_exchange(
        self, exchange: ExchangeDefinition, queues: Iterable[QueueDefinition], wanted: Range | None
    ) -> Generator[None, None, list[Numbers]]:
        """Which queues got messages of it, in short steps."""
        rows = []
        for queue in tuple(queues):
            counted = self._context.counts.of_queue(queue).by_exchange.get(exchange.name)
            if counted is not None:
                stats = self._stats([counted], PUBLISH, PUBLISH, wanted)
                named = {"name": queue.name, "vhost": queue.vhost}
                rows.append({"queue": named, "stats": stats})
            yield
        return rows

    # --- Clients

    def of_channel(self, counts: ChannelCounts, wanted: Range | None = None) -> Numbers:
        """All its messages, if there were any."""
        numbers = self._idle_since(counts.history)
        return numbers | self._messages(counts, MESSAGES, MESSAGES, wanted)

    def published(self, counted: Counted, wanted: Range | None = None) -> Numbers:
        """A channel's publishes to one exchange."""
        return self._stats([counted], PUBLISHES, PUBLISHES, wanted)

    def delivered(self, counted: Counted, wanted: Range | None = None) -> Numbers:
        """A channel's deliveries from one queue."""
        return self._stats([counted], DELIVERIES, DELIVERIES, wanted)

    def connection_state(self, opened: OpenConnection) -> str:
        """Whether it is read, in RabbitMQ's words."""
        reason = opened.reading.reason
        if reason is Pause.ALARM:
            return "blocked"
        if self._context.alarms.reason:
            # With its next publish.
            return "blocking"
        return "flow" if reason in (Pause.WINDOW, Pause.NODE_WINDOW) else "running"

    def of_connection(self, opened: OpenConnection, wanted: Range | None = None) -> Numbers:
        """Its octets."""
        traffic = opened.traffic
        received, sent = traffic.octets()
        numbers = {
            "recv_cnt": traffic.received_count,
            "recv_oct": received,
            "send_cnt": traffic.sent_count,
            "send_oct": sent,
            "send_pend": 0,
        }
        return numbers | self._rates([traffic.history], OCTETS, OCTETS, wanted)

    # --- Vhosts and the node

    def of_vhosts(self, seen: Sequence[Topology], ranges: Ranges = NO_RANGES) -> Numbers:
        """Rates of the lengths of all queues of these vhosts, and their messages if any."""
        counts = [self._context.counts.of_vhost(each) for each in seen]
        histories = [each.history for each in counts]
        numbers = self._lengths(histories, VHOST, ranges.lengths)
        if any(each.totals for each in counts):
            numbers["message_stats"] = self._stats(counts, VHOST, MESSAGES, ranges.messages)
        return numbers

    def octets_of_vhost(self, topology: Topology, wanted: Range | None = None) -> Numbers:
        """The octets of its connections."""
        counts = self._context.counts.of_vhost(topology)
        numbers: Numbers = {name: counts.levels.get(name, 0) for name in OCTETS}
        return numbers | self._rates([counts.history], VHOST, OCTETS, wanted)

    def retained_seconds(self) -> int:
        """How far histories reach back, unless too many objects change."""
        return self._sampling.retained_ms // 1000

    def forget_samples(self) -> None:
        """Have histories begin with the last sample."""
        self._sampling.begin_anew()

    def churn(self, wanted: Range | None = None) -> Numbers:
        """How many connections, channels and queues came and went."""
        counts = self._context.counts
        return {**counts.churn, **self._rates([counts.history], NODE, CHURN, wanted)}

    def on_disk(self, wanted: Range | None = None) -> Numbers:
        """How many messages of all queues were read from the disk, and written to it."""
        journal = self._context.journal_figures
        moment, histories = self._sampling.moment, [self._context.counts.history]
        columns = [NODE.index(f"msg_store_{name}_count") for name in ("read", "write")]
        reads, writes = (details(histories, (each,), moment, wanted) for each in columns)
        return {
            "disk_reads": journal.pages.read_messages,
            "disk_reads_details": reads,
            "disk_writes": journal.written_messages,
            "disk_writes_details": writes,
        }

    def rates_of_node(self) -> Numbers:
        """Of what changes all the time: memory, descriptors."""
        return self._rates([self._context.counts.history], NODE, GAUGES, None)

    # --- Details

    def _idle_since(self, history: History | None) -> Numbers:
        """At which sample it had changed last; nothing if it had at the last one, or never."""
        moment = self._sampling.moment
        if history is None or history.last_tick in (-1, moment.tick):
            return {}
        since = datetime.fromtimestamp(history.last_tick * moment.interval_ms / 1000, UTC)
        return {"idle_since": since.isoformat(timespec="milliseconds")}

    def _lengths(
        self, histories: Sequence[History | None], columns: Sequence[str], wanted: Range | None
    ) -> Numbers:
        both = [columns.index(name) for name in LENGTHS]
        moment = self._sampling.moment
        numbers = self._rates(histories, columns, LENGTHS, wanted)
        numbers["messages_details"] = details(histories, both, moment, wanted)
        return numbers

    def _rates(
        self,
        histories: Sequence[History | None],
        columns: Sequence[str],
        names: Sequence[str],
        wanted: Range | None,
    ) -> Numbers:
        moment = self._sampling.moment
        return {
            f"{name}_details": details(histories, (columns.index(name),), moment, wanted)
            for name in names
        }

    def _stats(
        self,
        counted: Sequence[Any],
        columns: Sequence[str],
        names: Sequence[str],
        wanted: Range | None,
    ) -> Numbers:
        """The sums of what these objects have counted, with their rates."""
        totals: list[Totals] = [each.totals for each in counted]
        numbers: Numbers = {name: sum([each.get(name, 0) for each in totals]) for name in names}
        histories = [each.history for each in counted]
        return numbers | self._rates(histories, columns, names, wanted)

    def _messages(
        self, counted: Any, columns: Sequence[str], names: Sequence[str], wanted: Range | None
    ) -> Numbers:
        if not counted.totals:
            return {}
        return {"message_stats": self._stats([counted], columns, names, wanted)}
