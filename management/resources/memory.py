"""The node's memory by purpose, in the shape that tools made for RabbitMQ read.

The parts are those that Leveret counts, under the names of RabbitMQ's that come nearest; parts of
Erlang's virtual machine are 0. Everything that is not counted is `other_system`, so that the parts
add up to the resident memory of the process, unless messages that queues count are swapped out.
"""

from __future__ import annotations

import resource
import sys
from typing import Final

from ..listing import shown
from ..request import SHOWN, Action, Answer, Request, Tag
from ..rows import Row

# RabbitMQ's, in its order.
_PARTS: Final = (
    "connection_readers",
    "connection_writers",
    "connection_channels",
    "connection_other",
    "queue_procs",
    "queue_slave_procs",
    "quorum_queue_procs",
    "quorum_queue_dlx_procs",
    "stream_queue_procs",
    "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs",
    "plugins",
    "other_proc",
    "metrics",
    "mgmt_db",
    "mnesia",
    "quorum_ets",
    "other_ets",
    "binary",
    "msg_index",
    "code",
    "atom",
    "other_system",
    "allocated_unused",
    "reserved_unallocated",
)


def _resident_bytes() -> int:
    """Of the process: now where the kernel says so, as Linux does, else at most since its start."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def _parts(request: Request, resident_bytes: int) -> dict[str, int]:
    context = request.context
    counted = {
        "connection_readers": context.node_window.used_bytes,
        "connection_writers": context.node_outlet.used_bytes,
        "queue_procs": context.memory_budget.used_bytes,
        "mnesia": context.vhost_users.route_memory.used_bytes,
        "binary": context.shared_runs.kept_bytes,
    }
    other = max(resident_bytes - sum(counted.values()), 0)
    return dict.fromkeys(_PARTS, 0) | counted | {"other_system": other}


async def _memory(request: Request) -> Answer:
    """In bytes."""
    request.check_node()
    resident_bytes = _resident_bytes()
    # RabbitMQ's three ways of measuring. Here there is one.
    total = dict.fromkeys(("erlang", "rss", "allocated"), resident_bytes)
    row: Row = {**_parts(request, resident_bytes), "strategy": "rss", "total": total}
    return Answer(200, shown(request, {"memory": row}))


async def _relative(request: Request) -> Answer:
    """In parts of a hundred; as in RabbitMQ, whatever is there is one at least."""
    request.check_node()
    parts = _parts(request, _resident_bytes())
    whole = sum(parts.values())
    shares = {
        name: max(round(100 * part_bytes / whole), 1) if part_bytes else 0
        for name, part_bytes in parts.items()
    }
    return Answer(200, shown(request, {"memory": {"total": 100, **shares}}))


_MEMORY: Final = "/api/nodes/{node}/memory"

ACTIONS: Final = (
    Action("GET", _MEMORY, "memory", _memory, Tag.MONITORING, query=SHOWN),
    Action("GET", f"{_MEMORY}/relative", "memory", _relative, Tag.MONITORING, query=SHOWN),
)
