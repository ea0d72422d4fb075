"""One epoll over many plain sockets, and the reads and writes of each of them."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Sequence
from time import perf_counter

from benchmarks.client import Client
from benchmarks.load import StalledError

STALLED_SECONDS = 15.0
_READ_BYTES = 65_536


class Poll:
    """An epoll with the function to call for each descriptor."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._turns: dict[int, Callable[[int], None]] = {}
        self._waiting_for_room: set[int] = set()

    def add(self, descriptor: int, turn: Callable[[int], None]) -> None:
        """Call `turn` with the mask of events of this descriptor."""
        self._turns[descriptor] = turn
        self._epoll.register(descriptor, select.EPOLLIN)

    def wait_for_room(self, descriptor: int, is_waiting: bool) -> None:
        """Say whether the descriptor has something left to write."""
        if is_waiting != (descriptor in self._waiting_for_room):
            self._waiting_for_room ^= {descriptor}
            room = select.EPOLLOUT if is_waiting else 0
            self._epoll.modify(descriptor, select.EPOLLIN | room)

    def turn(self, seconds: float) -> bool:
        """Wait for events, and call for each; StalledError if none comes for too long."""
        events = self._epoll.poll(min(seconds, STALLED_SECONDS))
        turns = self._turns
        for descriptor, mask in events:
            turns[descriptor](mask)
        if not events and seconds >= STALLED_SECONDS:
            raise StalledError(f"nothing came for {STALLED_SECONDS:.0f} s")
        return bool(events)

    def run_until(self, end: float) -> None:
        """Go on until then."""
        while (left := end - perf_counter()) > 0:
            self.turn(left)


def drain_samples(samples: Sequence[list[float]]) -> list[float]:
    """Take all samples out of these lists."""
    taken = [sample for each in samples for sample in each]
    for each in samples:
        each.clear()
    return taken


def plain_socket(client: Client) -> socket.socket:
    """Give a client's socket, which waits no more."""
    assert isinstance(client.socket, socket.socket), "not over TLS"
    client.socket.setblocking(False)
    return client.socket


def received(connection: socket.socket) -> bytes:
    """Read the bytes that are there; StalledError if the broker has closed the socket."""
    data = connection.recv(_READ_BYTES)
    if not data:
        raise StalledError("the broker closed the socket")
    return data


def send_all(connection: socket.socket, data: bytes) -> None:
    """Send all; a window of messages always has room in a socket's buffer."""
    sent = connection.send(data)
    if sent != len(data):
        raise StalledError(f"the socket took {sent} of {len(data)} bytes")
