"""The eight octets that a client begins with: what it wants to speak."""

from __future__ import annotations

from ..amqp_frames.constants import PROTOCOL_HEADER

# Asks for 0-9; near enough to 0-9-1 that RabbitMQ takes it for it.
_HEADER_0_9 = b"AMQP\x01\x01\x00\x09"
# How TLS's handshake begins.
_TLS_RECORD = b"\x16\x03"


def refusal(header: bytes) -> str | None:
    """Why a connection that begins so is refused, for the log; None if it is not."""
    if header.startswith((PROTOCOL_HEADER, _HEADER_0_9)):
        return None
    return "TLS on the plain port" if header.startswith(_TLS_RECORD) else "bad protocol header"
