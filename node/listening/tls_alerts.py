"""The server's side of a TLS handshake that tells the client why it failed.

OpenSSL puts an alert behind a handshake that failed ("certificate expired", "unknown CA"), but the
event loops, asyncio's and uvloop's, close the socket without sending it, so that the client sees
an end of stream and its user looks for the fault in the network. `AlertingContext` makes handshakes
that hold the failure back for one step: the event loop then sends the alert as it sends any other
octets of a handshake. `refusal` learns of the failure; its owner ends the socket.

This module knows no socket and no log: `tls_server.py` has both.
"""

from __future__ import annotations

import asyncio
import ssl
from contextvars import ContextVar
from typing import Any

# Set by the task that hands a socket to the event loop. The event loop runs a socket's callbacks in
# the context of that task, so this names the failure of the one handshake that a callback drives.
refusal: ContextVar[asyncio.Future[ssl.SSLError]] = ContextVar("refusal")


class AlertingHandshake(ssl.SSLObject):
    """One connection's TLS. After its handshake it is an `ssl.SSLObject` without a difference."""

    # Octets that the client has sent and OpenSSL has not read.
    incoming: ssl.MemoryBIO
    _has_failed = False

    def do_handshake(self) -> None:
        """Go on with the handshake; a failure becomes `refusal`'s result and is not raised.

        Raises SSLWantReadError in its place, because the event loop then sends the octets
        that OpenSSL has written: the alert. Without `refusal` it raises the failure, as
        `ssl.SSLObject` does.
        """
        if not self._has_failed:
            try:
                super().do_handshake()
                return
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                refused = refusal.get(None)
                if refused is None:
                    raise
                self._has_failed = True
                if not refused.done():
                    refused.set_result(error)
        # The client may send more until it reads the alert. Nobody will look at it.
        self.incoming.read()
        raise ssl.SSLWantReadError


class AlertingContext(ssl.SSLContext):
    """A context whose handshakes are `AlertingHandshake`s."""

    sslobject_class = AlertingHandshake

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **others: Any
    ) -> AlertingHandshake:
        """Begin TLS over these two buffers."""
        made = super().wrap_bio(incoming, outgoing, *arguments, **others)
        assert isinstance(made, AlertingHandshake)
        made.incoming = incoming
        return made
