"""Connections, channels and consumers: listed, and connections closed."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from operator import attrgetter
from typing import Any, Final, NamedTuple

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
from ..asking import ask_all
from ..client_names import channel_name, open_channels
from ..listing import listed, shown
from ..request import (
    LISTED,
    RANGES,
    SHOWN,
    Action,
    Answer,
    Request,
    Tag,
    VhostRule,
    not_authorised,
    not_found,
)
from ..rows import Row
from ..snapshots import rows_of
from ..statistics import Statistics

# RabbitMQ's.
_CLOSED: Final = "Closed via management plugin"


def _ends(opened: OpenConnection) -> Row:
    host, _, port = opened.peer.name.rpartition(":")
    return {
        "name": opened.peer.connection_name,
        "peer_host": host,
        "peer_port": int(port),
    }


def connection_row(
    about: About, statistics: Statistics, opened: OpenConnection, wanted: Range | None = None
) -> Row:
    """A connection."""
    handshake, peer = opened.handshake, opened.peer
    return {
        **_ends(opened),
        "auth_mechanism": handshake.mechanism,
        "channel_max": handshake.limits.channel_max,
        "channels": len(open_channels(opened)),
        "client_properties": plain_table(handshake.client_properties),
        "connected_at": int(opened.opened_seconds * 1000),
        "frame_max": handshake.limits.frame_max_bytes,
        "host": peer.local_host,
        "node": about.node_name,
        "port": peer.local_port,
        "protocol": handshake.protocol,
        "ssl": bool(peer.tls_protocol),
        "ssl_cipher": peer.tls_cipher or None,
        "ssl_protocol": peer.tls_protocol.lower() or None,
        "state": statistics.connection_state(opened),
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
        if opened.peer.connection_name == request.names["connection"]:
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


def _of_user(request: Request) -> list[tuple[Ref, OpenConnection]]:
    """Connections of the path's user; 401 if the user that asks may not see them."""
    name = request.names["username"]
    if not request.is_monitor() and name != request.user.name:
        raise not_authorised("User not authorised to access object")
    opened = request.context.open_connections.items()
    return [(reader, each) for reader, each in opened if each.access.user == name]


async def _connections_of_user(request: Request) -> Answer:
    """With what RabbitMQ has of them without asking their processes."""
    rows: list[Row] = [
        {
            "name": each.peer.connection_name,
            "node": request.about.node_name,
            "user": each.access.user,
            "vhost": each.access.topology.vhost,
        }
        for _, each in _of_user(request)
    ]
    return await listed(request, rows)


async def _close_all_of_user(request: Request) -> Answer:
    if not request.has_tag(Tag.ADMINISTRATOR) and request.names["username"] != request.user.name:
        raise not_authorised("User not authorised to access object")
    for reader, _ in _of_user(request):
        tell(reader, Shutdown(request.reason or _CLOSED))
    return Answer(204)


# --- Channels


class _Channel(NamedTuple):
    opened: OpenConnection
    number: int


async def _channel_rows(request: Request, connections: Iterable[OpenConnection]) -> list[Row]:
    """Rows of their channels: all are asked before any answer is awaited."""
    wanted = request.ranges().messages
    channels = {
        channel: _Channel(opened, number)
        for opened in connections
        for number, channel in open_channels(opened).items()
    }
    reports: list[ChannelReport] = await ask_all(
        request.context.runtime, channels, ReportChannel, attrgetter("channel")
    )
    answered = {each.channel: each for each in reports}
    # In the order of the connections.
    found = [answered[channel] for channel in channels if channel in answered]

    def row(report: ChannelReport) -> Row:
        return _channel_row(request, channels[report.channel], report, wanted)

    return await rows_of(request.snapshots.pace, found, row)


def _channel_row(
    request: Request, channel: _Channel, report: ChannelReport, wanted: Range | None
) -> Row:
    about, (opened, number) = request.about, channel
    counts: dict[str, Any] = report.counts
    row: Row = {
        "connection_details": _ends(opened),
        "confirm": counts["mode"] == "confirm",
        "consumer_count": counts["consumers"],
        "global_prefetch_count": counts["global_prefetch"],
        "messages_unacknowledged": counts["unacked"],
        "messages_unconfirmed": counts["unconfirmed"],
        "name": channel_name(opened, number),
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
        row |= request.statistics.of_channel(counted, wanted)
    return row


async def _channels(request: Request) -> Answer:
    return await listed(request, await _channel_rows(request, _seen(request)))


async def _channels_of_connection(request: Request) -> Answer:
    return await listed(request, await _channel_rows(request, [_find(request)[1]]))


async def _one_channel(request: Request) -> Answer:
    name = request.names["channel"]
    for opened in request.context.open_connections.values():
        for number, channel in open_channels(opened).items():
            if channel_name(opened, number) == name:
                return await _shown_channel(request, _Channel(opened, number), channel)
    raise not_found()


async def _shown_channel(request: Request, channel: _Channel, asked: Ref) -> Answer:
    if not _may_see(request, channel.opened):
        raise not_authorised("User not authorised to access object")
    wanted = request.ranges().messages
    reports = await ask_all(request.context.runtime, [asked], ReportChannel, attrgetter("channel"))
    if not reports:
        # It has gone.
        raise not_found()
    row = _channel_row(request, channel, reports[0], wanted)
    row |= _breakdown(request, channel.opened.channel_counts.get(channel.number), wanted)
    consumers = await consumer_rows(request, tuple(request.context.vhosts.queues()))
    row["consumer_details"] = [
        each for each in consumers if each["channel_details"].get("name") == row["name"]
    ]
    return Answer(200, shown(request, row))


def _breakdown(request: Request, counted: ChannelCounts | None, wanted: Range | None) -> Row:
    """What a channel published to which exchange, and got from which queue."""
    if counted is None:
        return {"deliveries": [], "publishes": []}
    statistics, vhost = request.statistics, counted.vhost
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
    ends = _ends(opened)
    return {
        **ends,
        "connection_name": ends["name"],
        "name": channel_name(opened, number),
        "node": about.node_name,
        "number": number,
        "user": opened.access.user,
    }


# --- Consumers


def tag_of(consumer: Consumer) -> str:
    """The consumer tag as text."""
    return consumer.consumer_tag[1:].decode("utf-8", "surrogateescape")


async def consumer_rows(request: Request, queues: Iterable[QueueDefinition]) -> list[Row]:
    """The consumers of these queues, in slices; `queues` are not to change meanwhile."""
    rows: list[Row] = []

    def steps() -> Generator[None, None, None]:
        channels: dict[Ref, _Channel] = {}
        for opened in tuple(request.context.open_connections.values()):
            for number, channel in open_channels(opened).items():
                channels[channel] = _Channel(opened, number)
            yield
        for queue in queues:
            for consumer in () if queue.rules is None else tuple(queue.rules.consumers.all()):
                found = channels.get(consumer.channel)
                details = {} if found is None else _channel_details(request.about, *found)
                rows.append(_consumer_row(queue, consumer, details))
                yield
            yield

    await request.snapshots.pace.carry_out(steps())
    return rows


def _consumer_row(queue: QueueDefinition, consumer: Consumer, channel: Row) -> Row:
    status = "up"
    if queue.rules is not None and queue.rules.consumers.single_active is not None:
        is_active = queue.rules.consumers.single_active is consumer
        status = "single_active" if is_active else "waiting"
    return {
        "ack_required": not consumer.no_ack,
        "active": status != "waiting",
        "activity_status": status,
        "arguments": {"x-priority": consumer.priority} if consumer.priority else {},
        "channel_details": channel,
        "consumer_tag": tag_of(consumer),
        "exclusive": consumer.exclusive,
        "prefetch_count": max(consumer.prefetch, 0),
        "queue": {"name": queue.name, "vhost": queue.vhost},
    }


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
    return await listed(request, await consumer_rows(request, queues), ("consumer_tag",))


_CONNECTION: Final = "/api/connections/{connection}"
_OF_USER: Final = "/api/connections/username/{username}"

ACTIONS: Final = (
    Action("GET", "/api/connections", "connections", _connections, query=(*LISTED, *RANGES)),
    Action("GET", _OF_USER, "connections", _connections_of_user, query=LISTED),
    Action("DELETE", _OF_USER, "connections close", _close_all_of_user, query=("x-reason",)),
    Action("GET", _CONNECTION, "connection", _one_connection, query=(*SHOWN, *RANGES)),
    Action("DELETE", _CONNECTION, "connection close", _close, query=("x-reason",)),
    Action(
        "GET",
        f"{_CONNECTION}/channels",
        "channels",
        _channels_of_connection,
        query=(*LISTED, *RANGES),
    ),
    Action(
        "GET",
        "/api/vhosts/{vhost}/connections",
        "connections",
        _connections,
        query=(*LISTED, *RANGES),
    ),
    Action("GET", "/api/vhosts/{vhost}/channels", "channels", _channels, query=(*LISTED, *RANGES)),
    Action("GET", "/api/channels", "channels", _channels, query=(*LISTED, *RANGES)),
    Action("GET", "/api/channels/{channel}", "channel", _one_channel, query=(*SHOWN, *RANGES)),
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
