"""Events of a trace as tests write them: of one boot, one channel and one queue, if not said."""

from __future__ import annotations

from typing import Any

from leveret.logs.reading.check import TraceCheck
from leveret.logs.trace.parsing import Line, defect

CHANNEL = {"connection": "127.0.0.1:1", "channel": 1}


def line(event: str, **fields: Any) -> Line:
    stamp = {"t_ns": 1, "time": "2026-01-02T03:04:05.678901+00:00", "boot": "boot"}
    return {"event": event, "actor": "actor", **stamp, **fields}


def assembled(batch: int, first: int, last: int) -> Line:
    places = [[0, last - first]]
    numbers = {"seq_no": [[first, last]], "messages": places}
    return line("command.assembled", batch=batch, **CHANNEL, **numbers)


def routed(batch: int, *queues: str, last: int = 0) -> Line:
    route = {"exchange": "", "routing_key": "key", "queues": list(queues)}
    return line("message.routed", batch=batch, messages=[[0, last]], **CHANNEL, **route)


def sent(first: int, last: int, event: str = "confirm.sent") -> Line:
    return line(event, seq_no=[[first, last]], **CHANNEL)


_ALSO: dict[str, dict[str, Any]] = {
    "message.delivered": {**CHANNEL, "delivery_tag": [[1, 1]], "attempt": 1},
    "message.recovered": {"attempt": 0},
    "message.settled": {"reason": "acked"},
    "message.requeued": {"reason": "given back"},
    "message.deferred": {"until": "2026-01-02T04:04:05.678901+00:00", "attempt": 1},
    "message.due": {"attempt": 1},
    "message.rejected": {"reason": "rejected"},
    "message.expired": {"reason": "expired"},
    "message.evicted": {"reason": "maxlen"},
    "confirm.rejected": {"reason": "the queue is full"},
}


def of_queue(event: str, batch: int, queue: str = "queue", last: int = 0, **fields: Any) -> Line:
    also = {**_ALSO.get(event, {}), **fields}
    return line(event, batch=batch, queue=queue, messages=[[0, last]], **also)


STARTED = line("trace.started", one_of=1, queues=[], format=2, reason="configured")
STOPPED = line("trace.stopped")


def checked(*lines: Line) -> TraceCheck:
    for each in lines:
        assert not defect(each)
    check = TraceCheck()
    check.feed(lines)
    return check


def faults(*lines: Line) -> list[str]:
    return checked(*lines).faults
