"""The TLS port when the process has no file descriptor left."""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from typing import Any

import pytest
import structlog
from certificates import Certificates
from leveret.core.connection.waiting_peers import Crowds
from leveret.listening.tls_server import TlsServer
from timeouts import TIMEOUT_SECONDS


class Listener:
    """Counts connections, and takes none."""

    def __init__(self) -> None:
        self.made = asyncio.Event()

    def connection_made(self, transport: asyncio.Transport, start: object) -> None:
        self.made.set()
        transport.abort()


def test_accepting_is_tried_again_when_there_was_no_file_descriptor(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server, certificates.key)
    log = structlog.testing.CapturingLogger()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        faults = [
            OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
            ConnectionAbortedError(errno.ECONNABORTED, "gone"),
        ]
        accept = loop.sock_accept

        async def failing(listening: Any) -> Any:
            if faults:
                raise faults.pop(0)
            return await accept(listening)

        monkeypatch.setattr(loop, "sock_accept", failing)
        listener: Any = Listener()
        server = TlsServer(
            listener,
            context,
            log,  # type: ignore[arg-type]
            crowds=Crowds(),
            handshakes_max=10,
            file_descriptors_kept=0,
            handshake_timeout_seconds=5,
            close_timeout_seconds=5,
            accept_retry_seconds=0.01,
        )
        await server.open("127.0.0.1", 0)
        _reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=certificates.client(), server_hostname="127.0.0.1"
        )
        await asyncio.wait_for(listener.made.wait(), TIMEOUT_SECONDS)
        writer.transport.abort()
        server.close()

    asyncio.run(main())
    [failed] = log.calls
    assert (failed.method_name, failed.args) == ("error", ("listener.failing",))
    assert failed.kwargs["reason"] == "[Errno 24] Too many open files"
