"""Connections, channels and consumers: listed, and connections closed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from ...actors.messages import ChannelReport, Ref, ReportChannel, Shutdown
from ...actors.node_context import OpenConnection
from ...actors.runtime.runtime import tell
from ...core.definitions import ExchangeDefinition, QueueDefinition
from ...core.json_tables import plain_table
from ...core.publishing.by_exchange import exchange_key, exchange_name
from ...core.queue.consumers import Consumer
from ...core.statistics.channel_counts import ChannelCounts
from ...core.statistics.history import Range
from ..about import About
from ..asking import GoneError, ask
from ..client_names import channel_name, connection_name, open_channels, own_end
from ..listing import listed, shown
from ..request import (
    LISTED,
    SHOWN,
    Action,
    Answer,
    Request,
    Tag,
    VhostRule,
    not_authorised,
    not_found,
)
from ..snapshots import Row, rows_of
from ..statistics import Statistics

# RabbitMQ's.
_CLOSED: Final = "Closed via management plugin"


def _ends(about: About, opened: OpenConnection) -> Row:
    host, _, port = opened.peer.name.rpartition(":")
    return {
        "name": connection_name(about, opened),
        "peer_host": host,
        "peer_port": int(port),
    }


def connection_row(
    about: About, statistics: Statistics, opened: OpenConnection, wanted: Range | None = None
) -> Row:
    """A connection."""
    handshake, peer = opened.handshake, opened.peer
    host, port = own_end(about, opened)
    return {
        **_ends(about, opened),
        "auth_mechanism": handshake.mechanism,
        "channel_max": handshake.limits.channel_max,
        "channels": len(open_channels(opened)),
        "client_properties": plain_table(handshake.client_properties),
        "connected_at": int(opened.opened_seconds * 1000),
        "frame_max": handshake.limits.frame_max_bytes,
        "host": host,
        "node": about.node_name,
        "port": port,
        "protocol": handshake.protocol,
        "ssl": bool(peer.tls_protocol),
        "ssl_cipher": peer.tls_cipher or None,
        "ssl_protocol": peer.tls_protocol.lower() or None,
        "state": "running",
        "timeout": handshake.limits.heartbeat_seconds,
        "type": "network",
        "user": opened.access.user,
        "user_provided_name": handshake.connection_name,
        "user_who_performed_action": opened.access.user,
        "vhost": opened.access.topology.vhost,
        **statistics.of_connection(opened, wanted),
    }


def _may_see(request: Request, opened: OpenConnection) -> bool:
    vhost = request.names.get("vhost")
    if vhost is not None and opened.access.topology.vhost != vhost:
        return False
    return request.is_monitor() or opened.access.user == request.user.name


def _seen(request: Request) -> list[OpenConnection]:
    opened = request.context.open_connections.values()
    return [each for each in opened if _may_see(request, each)]


def _find(request: Request) -> tuple[Ref, OpenConnection]:
    """The path's connection; 404, or 401 if it is another's."""
    for reader, opened in request.context.open_connections.items():
        if connection_name(request.about, opened) == request.names["connection"]:
            if not _may_see(request, opened):
                raise not_authorised("User not authorised to access object")
            return reader, opened
    raise not_found()


async def _connections(request: Request) -> Answer:
    pace, about, statistics = request.snapshots.pace, request.about, request.statistics
    wanted = request.ranges().octets

    def row(each: OpenConnection) -> Row:
        return connection_row(about, statistics, each, wanted)

    rows = await rows_of(pace, _seen(request), row)
    return await listed(request, rows)


async def _one_connection(request: Request) -> Answer:
    opened, wanted = _find(request)[1], request.ranges().octets
    row = connection_row(request.about, request.statistics, opened, wanted)
    return Answer(200, shown(request, row))


async def _close(request: Request) -> Answer:
    reader, opened = _find(request)
    if not request.has_tag(Tag.ADMINISTRATOR) and opened.access.user != request.user.name:
        raise not_authorised("User not authorised to access object")
    tell(reader, Shutdown(request.reason or _CLOSED))
    return Answer(204)


# --- Channels


async def _channel_row(
    request: Request, opened: OpenConnection, number: int, channel: Ref
) -> Row | None:
    """A channel; None if it has gone."""
    context, about = request.context, request.about
    try:
        report = await ask(context.runtime, channel, ReportChannel)
    except GoneError:
        return None
    assert isinstance(report, ChannelReport)
    counts: dict[str, Any] = report.counts
    row: Row = {
        "connection_details": _ends(about, opened),
        "confirm": counts["mode"] == "confirm",
        "consumer_count": counts["consumers"],
        "global_prefetch_count": counts["global_prefetch"],
        "messages_unacknowledged": counts["unacked"],
        "messages_unconfirmed": counts["unconfirmed"],
        "name": channel_name(about, opened, number),
        "node": about.node_name,
        "number": number,
        "prefetch_count": counts["prefetch"],
        "state": "running",
        "transactional": counts["mode"] == "tx",
        "user": opened.access.user,
        "user_who_performed_action": opened.access.user,
        "vhost": opened.access.topology.vhost,
    }
    counted = opened.channel_counts.get(number)
    if counted is not None:
        row |= request.statistics.of_channel(counted, request.ranges().messages)
    return row


async def _channel_rows(request: Request, connections: Iterable[OpenConnection]) -> list[Row]:
    rows = []
    for opened in connections:
        for number, channel in open_channels(opened).items():
            row = await _channel_row(request, opened, number, channel)
            if row is not None:
                rows.append(row)
    return rows


async def _channels(request: Request) -> Answer:
    return await listed(request, await _channel_rows(request, _seen(request)))


async def _channels_of_connection(request: Request) -> Answer:
    return await listed(request, await _channel_rows(request, [_find(request)[1]]))


async def _one_channel(request: Request) -> Answer:
    name = request.names["channel"]
    for opened in request.context.open_connections.values():
        for number, channel in open_channels(opened).items():
            if channel_name(request.about, opened, number) == name:
                if not _may_see(request, opened):
                    raise not_authorised("User not authorised to access object")
                row = await _channel_row(request, opened, number, channel)
                if row is not None:
                    row |= _breakdown(request, opened.channel_counts.get(number))
                    row["consumer_details"] = [
                        each
                        for each in consumer_rows(request, request.context.vhosts.queues())
                        if each["channel_details"]["name"] == name
                    ]
                    return Answer(200, shown(request, row))
    raise not_found()


def _breakdown(request: Request, counted: ChannelCounts | None) -> Row:
    """What a channel published to which exchange, and got from which queue."""
    if counted is None:
        return {"deliveries": [], "publishes": []}
    statistics, wanted, vhost = request.statistics, request.ranges().messages, counted.vhost
    publishes = [
        {
            "exchange": {"name": exchange_name(exchange), "vhost": vhost},
            "stats": statistics.published(each, wanted),
        }
        for exchange, each in counted.exchanges.items()
    ]
    deliveries = [
        {
            "queue": {"name": queue.name, "vhost": vhost},
            "stats": statistics.delivered(each, wanted),
        }
        for queue, each in counted.queues.items()
    ]
    return {"deliveries": deliveries, "publishes": publishes}


def _counting_channels(
    request: Request, vhost: str
) -> Iterator[tuple[OpenConnection, int, ChannelCounts]]:
    for opened in request.context.open_connections.values():
        if opened.access.topology.vhost == vhost:
            for number, counted in opened.channel_counts.items():
                yield opened, number, counted


def deliveries_from(request: Request, queue: QueueDefinition, wanted: Range | None) -> list[Row]:
    """Which channels got messages of a queue."""
    return [
        {
            "channel_details": _channel_details(request.about, opened, number),
            "stats": request.statistics.delivered(counted.queues[queue], wanted),
        }
        for opened, number, counted in _counting_channels(request, queue.vhost)
        if queue in counted.queues
    ]


def publishes_to(request: Request, exchange: ExchangeDefinition, wanted: Range | None) -> list[Row]:
    """Which channels published to an exchange."""
    key = exchange_key(exchange.name)
    return [
        {
            "channel_details": _channel_details(request.about, opened, number),
            "stats": request.statistics.published(counted.exchanges[key], wanted),
        }
        for opened, number, counted in _counting_channels(request, exchange.vhost)
        if key in counted.exchanges
    ]


def _channel_details(about: About, opened: OpenConnection, number: int) -> Row:
    ends = _ends(about, opened)
    return {
        **ends,
        "connection_name": ends["name"],
        "name": channel_name(about, opened, number),
        "node": about.node_name,
        "number": number,
        "user": opened.access.user,
    }


# --- Consumers


def tag_of(consumer: Consumer) -> str:
    """The consumer tag as text."""
    return consumer.consumer_tag[1:].decode("utf-8", "surrogateescape")


def consumer_rows(request: Request, queues: Iterable[QueueDefinition]) -> list[Row]:
    """The consumers of these queues."""
    about = request.about
    channels = {
        channel: (opened, number)
        for opened in request.context.open_connections.values()
        for number, channel in open_channels(opened).items()
    }
    rows = []
    for queue in queues:
        for consumer in () if queue.rules is None else queue.rules.consumers.all():
            opened, number = channels.get(consumer.channel, (None, 0))
            details = {} if opened is None else _channel_details(about, opened, number)
            single = queue.rules.consumers.single_active
            status = "up" if single is None else "waiting"
            if single is consumer:
                status = "single_active"
            rows.append(
                {
                    "ack_required": not consumer.no_ack,
                    "active": status != "waiting",
                    "activity_status": status,
                    "arguments": {"x-priority": consumer.priority} if consumer.priority else {},
                    "channel_details": details,
                    "consumer_tag": tag_of(consumer),
                    "exclusive": consumer.exclusive,
                    "prefetch_count": max(consumer.prefetch, 0),
                    "queue": {"name": queue.name, "vhost": queue.vhost},
                }
            )
    return rows


async def _consumers(request: Request) -> Answer:
    vhost = request.names.get("vhost")
    if vhost is not None and vhost not in request.context.accounts.vhosts:
        raise not_found()
    queues = [
        queue
        for topology in request.context.vhosts
        if (vhost is None or topology.vhost == vhost) and request.may_see(topology.vhost)
        for queue in topology.table.queues()
    ]
    return await listed(request, consumer_rows(request, queues), ("consumer_tag",))


_CONNECTION: Final = "/api/connections/{connection}"

ACTIONS: Final = (
    Action("GET", "/api/connections", "connections", _connections, query=LISTED),
    Action("GET", _CONNECTION, "connection", _one_connection, query=SHOWN),
    Action("DELETE", _CONNECTION, "connection close", _close, query=("x-reason",)),
    Action("GET", f"{_CONNECTION}/channels", "channels", _channels_of_connection, query=LISTED),
    Action("GET", "/api/vhosts/{vhost}/connections", "connections", _connections, query=LISTED),
    Action("GET", "/api/vhosts/{vhost}/channels", "channels", _channels, query=LISTED),
    Action("GET", "/api/channels", "channels", _channels, query=LISTED),
    Action("GET", "/api/channels/{channel}", "channel", _one_channel, query=SHOWN),
    Action("GET", "/api/consumers", "consumers", _consumers, query=LISTED),
    # Who may not open the vhost sees none there, as in RabbitMQ.
    Action(
        "GET",
        "/api/consumers/{vhost}",
        "consumers",
        _consumers,
        vhost=VhostRule.ANY,
        query=LISTED,
    ),
)
