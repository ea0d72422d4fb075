"""Publishes on one channel of a bare socket, whose confirms are waited for."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import frames_by_hand as wire
from socket_client import SocketClient


class ConfirmedPublishes:
    """All publishes of a channel in confirm mode, while nothing else comes for the client."""

    def __init__(self, client: SocketClient, channel: int) -> None:
        self._client = client
        self._published = 0
        client.open_channel(channel, confirm=True)

    def send(self, octets: Sequence[bytes]) -> None:
        """Send these, each one publish, and return when all are confirmed."""
        first = self._published + 1
        self._published += len(octets)
        self._client.send(b"".join(octets))
        waiting = set(range(first, self._published + 1))
        while waiting:
            tag, multiple = struct.unpack(">Q?", self._client.expect(wire.ACK))
            waiting -= {each for each in waiting if each == tag or (multiple and each < tag)}
