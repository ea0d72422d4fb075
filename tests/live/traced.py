"""Brokers that trace what they do, and clients of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import leveret
from leveret.logs.trace_events import COMMON, EVENTS
from leveret.logs.trace_kinds import KINDS, is_of_kind
from leveret.logs.trace_reader import read_trace, trace_files
from wire import Client

Line = dict[str, Any]


@contextmanager
def traced(directory: Path, **settings: object) -> Iterator[leveret.Broker]:
    """A broker that traces every message, unless the settings say otherwise."""
    chosen = {"password_hash_cost": 10, "log_level": "error", "trace_one_of": 1} | settings
    with leveret.Broker(data_dir=directory / "data", port=0, **chosen) as broker:
        yield broker


@contextmanager
def client_of(broker: leveret.Broker) -> Iterator[Client]:
    with Client(broker.host, broker.port) as connected:
        connected.log_in()
        connected.open_channel(1, confirms=True)
        yield connected


def trace_of(directory: Path) -> list[Line]:
    """All events, each checked against the table."""
    lines = list(read_trace(trace_files([directory / "data" / "traces"])))
    for line in lines:
        event = EVENTS[line["event"]]
        assert line["actor"] == event.actor
        assert set(line) <= {*COMMON, *event.fields}, line
        assert set(line) >= set(COMMON)
        assert all(is_of_kind(value, KINDS[name]) for name, value in line.items()), line
    return lines


def names(lines: list[Line]) -> list[str]:
    return [line["event"] for line in lines]
