"""Brokers that trace what they do, and clients of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import leveret
from wire import Client


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
