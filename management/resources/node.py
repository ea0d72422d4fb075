"""The node as a whole: overview, nodes, and the name of the user that asks."""

from __future__ import annotations

import os
import resource as limits_of_process
import time
from typing import Final

from ...core.alarms import Resource
from ...core.exchanges.table import TYPES
from ...core.statistics.journal_figures import JournalFigures
from ...core.statistics.sampling import GAUGES
from ..cluster_name import CLUSTER_NAME, cluster_name
from ..listing import listed, shown
from ..request import (
    LISTED,
    RANGES,
    SHOWN,
    Action,
    Answer,
    Request,
    Tag,
    bad_request,
    object_with,
)
from ..rows import Row
from ..sampler import gauges
from .accounts import change
from .topology import queue_totals

# Those of RabbitMQ 3.10 whose meaning there is here.
_FEATURE_FLAGS: Final = (
    "drop_unroutable_metric",
    "empty_basic_get_metric",
    "implicit_default_bindings",
    "quorum_queue",
    "user_limits",
    "virtual_host_metadata",
)


def _exchange_types() -> list[Row]:
    return [{"name": name, "description": "", "enabled": True} for name in sorted(TYPES)]


def _contexts(request: Request) -> list[Row]:
    return [
        {
            "node": request.about.node_name,
            "description": "RabbitMQ Management",
            "path": "/",
            "ip": each.address,
            "port": str(each.port),
        }
        for each in request.about.listeners
        if each.protocol == "http"
    ]


async def _overview(request: Request) -> Answer:
    about, context = request.about, request.context
    seen = [each for each in context.vhosts if request.may_see(each.vhost)]
    totals = await queue_totals(request, seen)
    opened = context.open_connections.values()
    ranges = request.ranges()
    rates = request.statistics.of_vhosts(seen, ranges)
    message_stats = rates.pop("message_stats", {})
    if message_stats and request.is_monitor():
        # Of all vhosts.
        message_stats |= request.statistics.on_disk(ranges.messages)
    row: Row = {
        "churn_rates": request.statistics.churn(ranges.messages),
        "message_stats": message_stats,
        "cluster_name": cluster_name(context.accounts, about),
        "contexts": _contexts(request),
        "disable_stats": False,
        "enable_queue_totals": False,
        # There is none; clients expect texts.
        "erlang_full_version": "",
        "erlang_version": "",
        "exchange_types": _exchange_types(),
        # Of the broker itself, whatever its product is called.
        "leveret_version": about.version,
        "listeners": [
            {
                "node": about.node_name,
                "protocol": each.protocol,
                "ip_address": each.address,
                "port": each.port,
            }
            for each in about.listeners
        ],
        "management_version": about.server_version,
        "node": about.node_name,
        "object_totals": {
            "channels": sum(len(each.channels) for each in opened),
            "connections": len(opened),
            "consumers": totals["consumers"],
            "exchanges": sum(len(each.table.exchanges()) for each in seen),
            "queues": sum(len(each.table.queues()) for each in seen),
        },
        "product_name": about.product,
        "product_version": about.server_version,
        "queue_totals": {
            **{name: count for name, count in totals.items() if name != "consumers"},
            **rates,
        },
        "rabbitmq_version": about.server_version,
        "rates_mode": "detailed",
        # The histories of all objects reach back as far, in seconds.
        "sample_retention_policies": {
            kind: [request.statistics.retained_seconds()]
            for kind in ("global", "basic", "detailed")
        },
        "statistics_db_event_queue": 0,
    }
    return Answer(200, shown(request, row))


async def _cluster_name(request: Request) -> Answer:
    return Answer(200, {"name": cluster_name(request.context.accounts, request.about)})


async def _put_cluster_name(request: Request) -> Answer:
    name = request.json("name")["name"]
    if not isinstance(name, str):
        raise bad_request("a cluster's name must be a text")
    await change(request, "global parameter set", {"name": CLUSTER_NAME, "value": name})
    return Answer(204)


def _io_times(journal: JournalFigures) -> Row:
    """The means since the start, in milliseconds; 0 of nothing."""
    sync_count = sum(journal.sync_seconds.counts)
    return {
        "io_sync_avg_time": 1000 * journal.sync_seconds.total / max(sync_count, 1),
        "io_write_avg_time": 1000 * journal.write_seconds / max(journal.writes, 1),
    }


def _node_row(request: Request) -> Row:
    about, context = request.about, request.context
    fd_total = limits_of_process.getrlimit(limits_of_process.RLIMIT_NOFILE)[0]
    return {
        "applications": [
            {"name": "leveret", "description": "Leveret", "version": about.version},
            {"name": "rabbit", "description": about.product, "version": about.server_version},
        ],
        "config_files": [],
        "contexts": _contexts(request),
        "db_dir": about.data_dir,
        "disk_free_alarm": context.alarms.is_low(Resource.DISK),
        "disk_free_limit": about.disk_free_bytes_min,
        "enabled_plugins": ["rabbitmq_management"],
        "exchange_types": _exchange_types(),
        "fd_total": fd_total,
        **_io_times(context.journal_figures),
        "mem_alarm": context.alarms.is_low(Resource.MEMORY),
        "mem_limit": about.memory_alarm_bytes,
        "name": about.node_name,
        "os_pid": str(os.getpid()),
        "partitions": [],
        "processors": os.cpu_count() or 1,
        "rates_mode": "detailed",
        "running": True,
        "sockets_total": context.connections_max or fd_total,
        **dict(zip(GAUGES, gauges(context), strict=True)),
        **request.statistics.rates_of_node(),
        **request.statistics.churn(),
        "type": "disc",
        "uptime": int((time.time() - about.started_seconds) * 1000),
    }


async def _nodes(request: Request) -> Answer:
    return await listed(request, [_node_row(request)])


async def _one_node(request: Request) -> Answer:
    request.check_node()
    return Answer(200, shown(request, _node_row(request)))


async def _reset(request: Request) -> Answer:
    """Forget the samples; counts stay, as in RabbitMQ."""
    request.check_node()
    request.statistics.forget_samples()
    return Answer(204)


async def _extensions(_request: Request) -> Answer:
    """Of the web page: there is none."""
    return Answer(200, [])


async def _feature_flags(request: Request) -> Answer:
    """RabbitMQ's names of what every node of a cluster must be able to do: one node can."""
    rows = [
        {
            "name": name,
            "desc": "",
            "doc_url": "",
            "state": "enabled",
            "stability": "stable",
            "provided_by": "rabbit",
        }
        for name in _FEATURE_FLAGS
    ]
    return await listed(request, rows)


async def _enable_feature_flag(request: Request) -> Answer:
    """All that there are, are enabled."""
    if request.names["name"] not in _FEATURE_FLAGS:
        raise bad_request("unsupported")
    return Answer(204)


async def _whoami(request: Request) -> Answer:
    return Answer(200, {"name": request.user.name, "tags": list(request.user.tags)})


ACTIONS: Final = (
    Action("GET", "/api/overview", "overview", _overview, query=(*SHOWN, *RANGES)),
    Action("GET", "/api/cluster-name", "cluster name", _cluster_name),
    Action(
        "PUT",
        "/api/cluster-name",
        "cluster name set",
        _put_cluster_name,
        Tag.ADMINISTRATOR,
        body=object_with("name", name="string"),
    ),
    Action("DELETE", "/api/reset", "statistics reset", _reset, Tag.ADMINISTRATOR),
    Action("DELETE", "/api/reset/{node}", "statistics reset", _reset, Tag.ADMINISTRATOR),
    Action("GET", "/api/nodes", "nodes", _nodes, Tag.MONITORING, query=LISTED),
    Action("GET", "/api/nodes/{node}", "node", _one_node, Tag.MONITORING, query=SHOWN),
    Action(
        "GET",
        "/api/feature-flags",
        "feature flags",
        _feature_flags,
        Tag.ADMINISTRATOR,
        query=LISTED,
    ),
    Action(
        "PUT",
        "/api/feature-flags/{name}/enable",
        "feature flag enable",
        _enable_feature_flag,
        Tag.ADMINISTRATOR,
    ),
    Action("GET", "/api/extensions", "extensions", _extensions),
    Action("GET", "/api/whoami", "whoami", _whoami),
)
