"""A broker that listens for NSQ, and raw clients of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import leveret
import pytest
from nsq_wire import NsqClient

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def settings() -> dict[str, object]:
    return {"nsq_port": 0}


@pytest.fixture
def nsq(broker: leveret.Broker) -> Iterator[Callable[[], NsqClient]]:
    """Makes connections that have sent the magic; closed at the end."""
    assert broker.nsq_port
    port = broker.nsq_port
    with ExitStack() as stack:
        yield lambda: stack.enter_context(NsqClient(port))
