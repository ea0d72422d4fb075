"""The requests about a running broker's trace: on, off, status. All answer with the status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ...logs.trace.parsing import ASKED_FOR
from ...logs.trace.trace import Trace, TraceError, TraceFilter
from ..node_context import NodeContext

Arguments = Mapping[str, object]


def _on(context: NodeContext, arguments: Arguments) -> dict[str, object]:
    rate = arguments.get("rate", 1.0)
    if not isinstance(rate, (int, float)) or isinstance(rate, bool):
        raise TraceError("'rate' must be a number")
    names = {name: _texts(arguments, name) for name in ("queues", "users", "connections")}
    there = {queue.name for queue in context.vhosts.queues()}
    for queue in names["queues"]:
        if queue not in there:
            raise TraceError(f"there is no queue '{queue}'")
    chosen = TraceFilter.with_rate(rate, **names)
    try:
        context.trace.start(chosen, ASKED_FOR)
    except OSError as fault:
        context.trace.stop()
        raise TraceError(f"the trace cannot be written: {fault.strerror}") from None
    return _status(context, arguments)


def _off(context: NodeContext, arguments: Arguments) -> dict[str, object]:
    context.trace.stop()
    return _status(context, arguments)


def _status(context: NodeContext, _arguments: Arguments) -> dict[str, object]:
    trace: Trace = context.trace
    return {
        "is_on": trace.is_on,
        "one_of": trace.filter.every,
        "queues": sorted(trace.filter.queues),
        "users": sorted(trace.filter.users),
        "connections": sorted(trace.filter.connections),
        "boot": trace.boot_id,
        "waiting_bytes": 0 if trace.ring is None else trace.ring.waiting_bytes,
        "waiting_bytes_max": 0 if trace.ring is None else trace.ring.capacity_bytes,
        "dropped": trace.loss.count,
        "error": trace.error,
    }


def _texts(arguments: Arguments, name: str) -> list[str]:
    values = arguments.get(name, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TraceError(f"'{name}' must be a list of strings")
    return values


TRACE_REQUESTS: Final[dict[str, Callable[[NodeContext, Arguments], dict[str, object]]]] = {
    "trace on": _on,
    "trace off": _off,
    "trace status": _status,
}
