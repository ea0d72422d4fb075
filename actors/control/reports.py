"""Reports of a running broker: connections, channels, queues, exchanges, bindings, NSQ's topics.

A report reads shared state directly; it asks queues and channels for their counts, each once, and
one report is made at a time. An actor that has not answered after a while is shown without counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import chain
from typing import Final

from ...amqp_frames.values.field_table import Table
from ...core.definitions import QueueDefinition
from ...core.nsq.topics import TopicParts, topics_of
from ...core.users.accounts import Row
from ..messages import (
    ChannelReport,
    Ref,
    Refused,
    ReportChannel,
    ReportStatus,
    Status,
    WakeAt,
    Woken,
)
from ..node_context import NodeContext, OpenConnection
from ..runtime.runtime import tell

ANSWERS_SECONDS_MAX: Final = 5.0
REPORTS: Final = ("connections", "channels", "queues", "exchanges", "bindings", "topics")

Answer = Callable[[list[Row]], None]


class Reporter:
    """Makes reports for the actor `control`, one at a time."""

    def __init__(self, context: NodeContext, control: Ref) -> None:
        self._context = context
        self._control = control
        self._waiting: deque[tuple[str, Answer]] = deque()
        self._answer: Answer | None = None
        # Of the report at hand: a row for each asked actor, and the actors without an answer.
        self._rows: dict[object, Row] = {}
        self._open: set[object] = set()
        self._refused_count = 0
        self._number = 0

    def counts(self) -> Row:
        """How many there are of each."""
        context = self._context
        connections = context.open_connections.values()
        topics = {}
        if context.nsq_vhost:
            found = self._topics()
            topics = {
                "nsq_topics": len(found),
                "nsq_channels": sum(len(each.channels) for each in found),
            }
        return {
            "connections": len(connections),
            "channels": sum(len(_channels(each)) for each in connections),
            "queues": sum(len(topology.table.queues()) for topology in context.vhosts),
            **topics,
            "vhosts": len(context.accounts.vhosts),
            "users": len(context.accounts.users),
            "publishing_bytes": context.node_window.used_bytes,
            "memory_bytes": context.memory_budget.used_bytes,
            "memory_budget_bytes": context.memory_budget.budget_bytes,
            "alarm": context.alarms.reason or "none",
        }

    def start(self, name: str, answer: Answer) -> None:
        """Make a report of REPORTS and answer with its rows, now or later."""
        if name == "connections":
            answer([_connection_row(each) for each in self._context.open_connections.values()])
        elif name == "exchanges":
            answer(self._exchange_rows())
        elif name == "bindings":
            answer(self._binding_rows())
        else:
            self._waiting.append((name, answer))
            self._next()

    def receive(self, message: Status | ChannelReport | Refused | Woken) -> None:
        """Take an answer; late ones, to a report that was made without them, do no harm."""
        if isinstance(message, Status):
            counts: Row = {
                "ready": message.message_count,
                "unacked": message.unacked_count,
                "deferred": message.deferred_count,
                "consumers": message.consumer_count,
            }
            self._add_counts(message.queue, counts)
        elif isinstance(message, ChannelReport):
            self._add_counts(message.channel, message.counts)
        elif isinstance(message, Refused):
            # By a queue that has gone, whose name is not said.
            self._refused_count += 1
        elif message.token == self._number:
            self._open.clear()
        self._finish()

    def _add_counts(self, who: object, counts: Row) -> None:
        if who in self._rows:
            self._rows[who].update(counts)
            self._open.discard(who)

    def _next(self) -> None:
        if self._answer is not None or not self._waiting:
            return
        name, self._answer = self._waiting.popleft()
        self._number += 1
        self._refused_count = 0
        if name == "queues":
            self._ask_queues()
        elif name == "topics":
            self._ask_topics()
        else:
            self._ask_channels()
        when = self._context.runtime.scheduler.time() + ANSWERS_SECONDS_MAX
        tell(self._context.ticker, WakeAt(when, self._control, self._number))
        self._finish()

    def _ask_queues(self) -> None:
        for queue in chain.from_iterable(each.table.queues() for each in self._context.vhosts):
            self._rows[queue] = _queue_row(queue, self._ask_queue(queue))

    def _ask_queue(self, queue: QueueDefinition) -> bool:
        """Whether its actor will answer."""
        handle: Ref = queue.handle
        is_there = tell(handle, ReportStatus(self._control))
        if is_there:
            self._open.add(queue)
        return is_there

    def _ask_topics(self) -> None:
        for topic in self._topics():
            hidden = topic.hidden
            if hidden is None:
                self._rows[topic.name] = _topic_row(topic.name, "", topic.is_paused)
            else:
                self._rows[hidden] = _topic_row(topic.name, "", topic.is_paused)
                self._ask_queue(hidden)
            for name in sorted(topic.channels):
                queue = topic.channels[name]
                self._rows[queue] = _topic_row(topic.name, name, queue.is_paused)
                self._ask_queue(queue)

    def _topics(self) -> list[TopicParts]:
        topology = self._context.vhosts.find(self._context.nsq_vhost)
        if topology is None:
            return []
        steps = topics_of(topology.table)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: list[TopicParts] = end.value
                return found

    def _ask_channels(self) -> None:
        for opened in self._context.open_connections.values():
            for number, channel in _channels(opened).items():
                if tell(channel, ReportChannel(self._control)):
                    self._rows[channel] = _channel_row(opened, number)
                    self._open.add(channel)

    def _finish(self) -> None:
        if self._answer is not None and len(self._open) <= self._refused_count:
            answer, rows = self._answer, list(self._rows.values())
            self._answer = None
            self._rows.clear()
            self._open.clear()
            answer(rows)
            self._next()

    def _exchange_rows(self) -> list[Row]:
        return [
            {
                "vhost": topology.vhost,
                "exchange": definition.name,
                "type": definition.type_name,
                "durable": definition.durable,
                "auto_delete": definition.auto_delete,
                "internal": definition.internal,
                "arguments": _shown(definition.arguments),
            }
            for topology in self._context.vhosts
            for definition in (each.definition for each in topology.table.exchanges())
        ]

    def _binding_rows(self) -> list[Row]:
        return [
            {
                "vhost": topology.vhost,
                "source": binding.source,
                "destination": binding.destination,
                "kind": binding.destination_kind,
                "routing_key": binding.routing_key,
                "arguments": _shown(binding.arguments),
            }
            for topology in self._context.vhosts
            for exchange in topology.table.exchanges()
            for binding in exchange.bindings.values()
            if not binding.is_hidden
        ]


def _channels(opened: OpenConnection) -> dict[int, Ref]:
    return {number: each for number, each in opened.channels.items() if each is not None}


def _connection_row(opened: OpenConnection) -> Row:
    properties = opened.handshake.client_properties
    client = [str(properties[name].value) for name in ("product", "version") if name in properties]
    name = properties.get("connection_name")
    return {
        "peer": opened.peer.name,
        "user": opened.access.user,
        "vhost": opened.access.topology.vhost,
        "channels": len(_channels(opened)),
        "opened": datetime.fromtimestamp(opened.opened_seconds, UTC).isoformat(" ", "seconds"),
        "client": " ".join(client),
        "name": "" if name is None else str(name.value),
    }


def _channel_row(opened: OpenConnection, number: int) -> Row:
    return {
        "peer": opened.peer.name,
        "channel": number,
        "user": opened.access.user,
        "vhost": opened.access.topology.vhost,
    }


def _topic_row(topic: str, channel: str, is_paused: bool) -> Row:
    """Of a channel; without one, of the messages that no channel has yet."""
    return {
        "topic": topic,
        "channel": channel,
        "state": "paused" if is_paused else "running",
        "ready": 0,
        "unacked": 0,
        "deferred": 0,
        "consumers": 0,
    }


def _queue_row(queue: QueueDefinition, is_there: bool) -> Row:
    state = "paused" if queue.is_paused else "running"
    return {
        "vhost": queue.vhost,
        "queue": queue.name,
        "durable": queue.durable,
        "exclusive": queue.exclusive,
        "auto_delete": queue.auto_delete,
        "state": state if is_there else "failed",
        "ready": None,
        "unacked": None,
        "deferred": None,
        "consumers": None,
        "arguments": _shown(queue.arguments),
    }


def _shown(arguments: Table) -> dict[str, object]:
    """A table as JSON has it; values that JSON knows not are shown in words."""
    return {name: _plain(field.value) for name, field in arguments.items()}


def _plain(value: object) -> object:
    return value if isinstance(value, (str, int, float, bool)) else repr(value)
