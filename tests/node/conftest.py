"""Shared by the tests of HTTP control."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import leveret
import pytest
from asking_http import port
from timeouts import TIMEOUT_SECONDS


@pytest.fixture
def socket_to(broker: leveret.Broker) -> Iterator[Callable[[], socket.socket]]:
    """Connects to the HTTP port; the sockets are closed at the end."""
    with ExitStack() as stack:

        def connected() -> socket.socket:
            return stack.enter_context(
                socket.create_connection(("127.0.0.1", port(broker)), timeout=TIMEOUT_SECONDS)
            )

        yield connected
