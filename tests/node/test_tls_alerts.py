"""A handshake that fails sends TLS's alert, on each event loop and with each version of TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import structlog
import uvloop
from certificates import Certificates
from leveret.configuration import Configuration
from leveret.core.connection.waiting_peers import Crowds
from leveret.listening.tls import tls_context
from leveret.listening.tls_server import TlsServer
from timeouts import TIMEOUT_SECONDS

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.SelectorEventLoop,
}
Log = structlog.testing.CapturingLogger


def serve(
    certificates: Certificates,
    loop: str,
    client: Callable[[int, Log], Awaitable[None]],
    close_timeout_seconds: float = 30,
) -> list[Any]:
    """Run a client against a TLS port that requires certificates; what was logged."""
    log = Log()
    listener: Any = None  # No handshake of these tests gets so far.
    settings: dict[str, Any] = certificates.settings("required")

    async def main() -> None:
        context = tls_context(Configuration(**settings))
        assert context is not None
        server = TlsServer(
            listener,
            context,
            log,  # type: ignore[arg-type]
            crowds=Crowds(),
            handshakes_max=10,
            file_descriptors_kept=0,
            handshake_timeout_seconds=30,
            close_timeout_seconds=close_timeout_seconds,
        )
        await server.open("127.0.0.1", 0)
        try:
            await asyncio.wait_for(client(server.port, log), TIMEOUT_SECONDS)
        finally:
            server.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())
    return log.calls


def send_for_ever(client: socket.socket) -> None:
    while True:
        client.sendall(bytes(1000))


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_client_reads_why_its_certificate_is_refused(
    certificates: Certificates, loop: str, version: str
) -> None:
    context = certificates.client(certificates.expired())
    context.maximum_version = ssl.TLSVersion[version]

    def connect(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as plain:
            client = context.wrap_socket(plain, server_hostname="127.0.0.1")
            # With TLS 1.3 the client has shaken hands and speaks. It reads the alert all the same,
            # because what it sends does not reset the connection.
            client.sendall(b"AMQP\0\0\x09\x01" * 10_000)
            client.recv(1)

    async def client(port: int, log: Log) -> None:
        with pytest.raises(ssl.SSLError, match="certificate expired"):
            await asyncio.to_thread(connect, port)

    [refused] = serve(certificates, loop, client)
    assert refused.kwargs["reason"] == (
        "TLS handshake: client certificate: certificate has expired"
    )


@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_does_not_close_behind_the_alert_is_closed(
    certificates: Certificates, loop: str
) -> None:
    context = certificates.client(certificates.expired())
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    def connect(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS) as plain:
            kept = plain.dup()
            with pytest.raises(ssl.SSLError, match="certificate expired"):
                context.wrap_socket(plain, server_hostname="127.0.0.1")
        # Still open, by another descriptor, until the server closes and resets what is sent then.
        kept.settimeout(TIMEOUT_SECONDS)
        with kept, pytest.raises(ConnectionError):
            send_for_ever(kept)

    async def client(port: int, log: Log) -> None:
        await asyncio.to_thread(connect, port)

    [refused] = serve(certificates, loop, client, close_timeout_seconds=0.05)
    assert "expired" in refused.kwargs["reason"]
