"""The seed of a random run, and brokers as processes that end with their test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from broker_process import BrokerProcess


@pytest.fixture
def tmp_path(disk_directory: Path) -> Path:
    """A directory on a disk, not in memory, so that a sync reaches a device."""
    return disk_directory


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Start brokers on one data directory, one after the other; what still runs is killed."""
    started: list[BrokerProcess] = []

    def start(*before: str, **settings: object) -> BrokerProcess:
        started.append(BrokerProcess(tmp_path, *before, **settings))
        return started[-1]

    yield start
    for broker in started:
        broker.kill()
