"""/stats: topics, their channels, and clients, with what queues and connections count.

Counts are those since the broker's start, as nsqd's. A topic's depth is the messages that no
channel has yet. The broker does not count messages on the disk apart, so `backend_depth` is 0.
Clients are those of NSQ: AMQP's are counted, not listed.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Generator, Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple

from ...actors.messages import ChannelReport, NsqReport, ReportChannel
from ...actors.node_context import NodeContext, OpenConnection
from ...core.definitions import QueueDefinition
from ...core.nsq.identity import NsqIdentity
from ...core.nsq.session import NSQD_VERSION, State
from ...core.nsq.topics import TopicParts, topics_of
from ...core.statistics.node_counts import Totals
from ...nsq_frames.publishes import CHANNEL_NUMBER
from ..asking import ask_all
from ..request import Answer
from .call import NsqRequest, json_answer, text_answer
from .stats_text import stats_text

Row = dict[str, Any]

# Connections that are busy for longer are left out.
_REPORT_SECONDS_MAX: Final = 1.0
_REPORTED_BY: Final = attrgetter("channel")
_STATES: Final[Mapping[State, int]] = {State.INIT: 0, State.SUBSCRIBED: 3, State.CLOSING: 4}
# Percentiles of processing times are an option of nsqd's, off by default.
_NO_LATENCY: Final[Mapping[str, Any]] = {"count": 0, "percentiles": None}


class Wanted(NamedTuple):
    """The part of it that the request names; "" is all."""

    topic: str
    channel: str
    clients: bool
    memory: bool


class Clients(NamedTuple):
    """NSQ's clients, by the name of their channel's queue; and the publishers among them."""

    by_queue: dict[str, list[Row]]
    producers: list[Row]


async def stats(request: NsqRequest) -> Answer:
    """The figures, as JSON or as text."""
    query = request.query()
    wanted = Wanted(
        query.get("topic") or "",
        query.get("channel") or "",
        query.flag("include_clients", True),
        query.flag("include_mem", True),
    )
    content = await _stats(request, wanted)
    if query.get("format") == "json":
        return json_answer(content)
    return text_answer(stats_text(content, request.about, _now_seconds(request.context)))


async def _stats(request: NsqRequest, wanted: Wanted) -> Row:
    context, pace = request.context, request.pace
    table = context.vhosts[request.settings.vhost].table
    topics = await pace.carry_out(topics_of(table, wanted.topic or None))
    if context.counts.has_new:
        await pace.carry_out(context.counts.collecting())
    clients = None
    if wanted.clients and (topics or not wanted.topic):
        clients = await _clients(context, wanted.topic)
    rows: list[Row] | None = None
    if topics or not wanted.topic:
        rows = await pace.carry_out(_topic_rows(context, topics, clients, wanted.channel))
    content: Row = {
        "version": NSQD_VERSION,
        "health": health(context),
        "start_time": int(request.about.started_seconds),
        "topics": rows,
    }
    if wanted.memory:
        content["memory"] = _memory(context)
    content["producers"] = None if clients is None else clients.producers
    return content


def health(context: NodeContext) -> str:
    """OK while publishes are taken."""
    alarm = context.alarms.reason
    return f"NOK - {alarm}" if alarm else "OK"


def _now_seconds(context: NodeContext) -> float:
    return context.runtime.wall_clock.now_ns() / 1e9


def _topic_rows(
    context: NodeContext, topics: Collection[TopicParts], clients: Clients | None, only: str
) -> Generator[None, None, list[Row]]:
    rows = []
    for topic in topics:
        yield
        if only and only not in topic.channels:
            continue
        channels = []
        for name in [only] if only else sorted(topic.channels):
            channels.append(_channel_row(context, name, topic.channels[name], clients))
            yield
        rows.append(_topic_row(topic, channels))
    return rows


def _topic_row(topic: TopicParts, channels: list[Row]) -> Row:
    counted: Any = topic.exchange.counts
    totals: Totals = {} if counted is None else counted.totals
    ready, unacked, deferred, _ = lengths(topic.hidden)
    return {
        "topic_name": topic.name,
        "channels": channels,
        "depth": ready + unacked + deferred,
        "backend_depth": 0,
        "message_count": totals.get("publish_in", 0),
        "message_bytes": totals.get("publish_in_bytes", 0),
        "paused": topic.is_paused,
        "e2e_processing_latency": _NO_LATENCY,
    }


def _channel_row(
    context: NodeContext, name: str, queue: QueueDefinition, clients: Clients | None
) -> Row:
    totals = context.counts.of_queue(queue).totals
    ready, unacked, deferred, consumers = lengths(queue)
    return {
        "channel_name": name,
        "depth": ready,
        "backend_depth": 0,
        "in_flight_count": unacked,
        "deferred_count": deferred,
        "message_count": totals.get("publish", 0),
        "requeue_count": totals.get("requeue", 0),
        "timeout_count": totals.get("time_out", 0),
        "client_count": consumers,
        "clients": None if clients is None else clients.by_queue.get(queue.name, []),
        "paused": queue.is_paused,
        "e2e_processing_latency": _NO_LATENCY,
    }


def lengths(queue: QueueDefinition | None) -> tuple[int, int, int, int]:
    """Messages that are ready, in flight and deferred, and consumers; none if there is no queue."""
    if queue is None or queue.rules is None:
        return 0, 0, 0, 0
    ready, consumers, unacked = queue.rules.counts()
    return ready, unacked, queue.rules.deferred_count, consumers


async def _clients(context: NodeContext, topic: str) -> Clients:
    """Ask all NSQ connections; each counts the messages that it has published and got."""
    opened = {
        ref: each
        for ref, each in context.open_connections.items()
        if isinstance(each.handshake, NsqIdentity)
    }
    reports: list[ChannelReport] = await ask_all(
        context.runtime, opened, ReportChannel, _REPORTED_BY, _REPORT_SECONDS_MAX
    )
    clients = Clients({}, [])
    for report in reports:
        connection = opened[report.channel]
        assert report.nsq is not None
        row = _client_row(connection, report.counts, report.nsq, topic)
        if report.nsq.queue:
            clients.by_queue.setdefault(report.nsq.queue, []).append(row)
        if _published(connection):
            clients.producers.append(row)
    for rows in (*clients.by_queue.values(), clients.producers):
        rows.sort(key=_connected_at)
    return clients


def _connected_at(row: Row) -> tuple[int, str]:
    return row["connect_ts"], row["remote_address"]


def _client_row(
    connection: OpenConnection, counts: Mapping[str, Any], nsq: NsqReport, topic: str
) -> Row:
    peer, totals = connection.peer, connection.channel_counts[CHANNEL_NUMBER].totals
    names = nsq.client_names
    row: Row = {
        "client_id": names.get("client_id", peer.host),
        "hostname": names.get("hostname", peer.host),
        "version": "V2",
        "remote_address": peer.name,
        "state": _STATES[nsq.state],
        "ready_count": counts.get("prefetch", 0),
        "in_flight_count": counts.get("unacked", 0),
        "message_count": totals.get("deliver", 0),
        "finish_count": totals.get("ack", 0),
        "requeue_count": totals.get("requeue", 0),
        "connect_ts": int(connection.opened_seconds),
        "sample_rate": nsq.sample_rate,
        "deflate": nsq.deflate,
        "snappy": nsq.snappy,
        "user_agent": names.get("user_agent", ""),
    }
    if connection.handshake.mechanism:
        row |= {"authed": True, "auth_identity": connection.access.user}
    published = _published(connection)
    if topic:
        published = {name: count for name, count in published.items() if name == topic}
    if published:
        row["pub_counts"] = [
            {"topic": name, "count": published[name]} for name in sorted(published)
        ]
    tls = peer.tls_protocol
    return row | {
        "tls": bool(tls),
        "tls_cipher_suite": peer.tls_cipher,
        "tls_version": tls.replace("TLSv", "TLS"),
        "tls_negotiated_protocol": "",
        "tls_negotiated_protocol_is_mutual": False,
    }


def _published(connection: OpenConnection) -> dict[str, int]:
    """Its messages by their topics."""
    exchanges = connection.channel_counts[CHANNEL_NUMBER].exchanges
    return {
        exchange[1:].decode(): counted.totals["publish"]
        for exchange, counted in exchanges.items()
        if counted.totals.get("publish")
    }


def _memory(context: NodeContext) -> Row:
    """nsqd's fields; 0 where Python does not say: it keeps no account of pauses and idle memory."""
    collections = [each["collections"] for each in gc.get_stats()]
    return {
        "heap_objects": sys.getallocatedblocks(),
        "heap_idle_bytes": 0,
        "heap_in_use_bytes": context.memory_budget.used_bytes,
        "heap_released_bytes": 0,
        "gc_pause_usec_100": 0,
        "gc_pause_usec_99": 0,
        "gc_pause_usec_95": 0,
        "next_gc_bytes": 0,
        "gc_total_runs": sum(collections),
    }
