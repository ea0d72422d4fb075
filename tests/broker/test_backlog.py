"""Clients that all come at once are accepted one after the other, and none has to try again."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import leveret
import pytest
from certificates import Certificates
from insides import on_loop
from leveret.listening.tls_server import BACKLOG_CONNECTIONS

CLIENTS = 300
# The kernel tries again after a second.
AT_ONCE_SECONDS = 0.9
ALLOWED = Path("/proc/sys/net/core/somaxconn")


@pytest.fixture
def settings(certificates: Certificates) -> dict[str, object]:
    return certificates.settings()


@pytest.mark.skipif(
    not ALLOWED.exists() or int(ALLOWED.read_text()) < BACKLOG_CONNECTIONS,
    reason="the system allows fewer clients to wait",
)
@pytest.mark.parametrize("port", ["port", "tls_port"])
def test_clients_may_come_faster_than_they_are_accepted(broker: leveret.Broker, port: str) -> None:
    address = broker.host, getattr(broker, port)
    with ExitStack() as stack:

        def come() -> None:
            """On the event loop, which accepts nobody meanwhile."""
            for _ in range(CLIENTS):
                stack.enter_context(socket.create_connection(address, AT_ONCE_SECONDS))

        on_loop(broker, come)
