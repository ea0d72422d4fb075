"""Sockets of which nobody knows yet whose they are, and which of them gives way to one more.

Anybody can connect, say nothing, and connect again. So where there is a limit of such sockets, the
older ones do not keep a new one out: the address with most of them gives up its socket that has
been silent longest. So an address with fewer sockets than others always gets its share, be it one
of a thousand.

An address that itself holds most of them gives way to itself, but not with a socket heard of just
now: when many clients return at once from one address, the first ones are served first.

While the broker has something to do for a socket it is not silent, and gives way to nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from ipaddress import ip_address
from typing import Any, Final, Generic, TypeVar

# A client says something as soon as it can: its header, its answer. So this is several round trips.
SILENT_SECONDS_MIN: Final = 0.5
# What one customer of a provider has of IPv6; he may use any address of it for any socket.
_IPV6_NETWORK_GROUPS: Final = 4

Socket = TypeVar("Socket", bound=Hashable)


def _always(_socket: object) -> bool:
    return True


class WaitingPeers(Generic[Socket]):
    """Counts sockets by address; times are seconds on any clock that does not go back."""

    def __init__(
        self, silent_seconds_min: float, is_silent: Callable[[Socket], bool] = _always
    ) -> None:
        """`silent_seconds_min`: how long one must be silent to give way to its own address.

        `is_silent` knows better of one that may have said something that nobody has heard yet.
        """
        self._silent_seconds_min = silent_seconds_min
        self._is_silent = is_silent
        self._addresses: dict[Socket, str] = {}
        # By address, those that may give way, the longest silent first, and since when each is.
        self._silent: dict[str, dict[Socket, float]] = {}
        self._counts: dict[str, int] = {}
        # By count, the addresses with so many sockets: the last entry holds those with most.
        self._with_count: list[dict[str, None]] = [{}]

    def __len__(self) -> int:
        return len(self._addresses)

    def add(self, socket: Socket, host: str, now: float) -> None:
        """A socket has come from this address."""
        address = network_of(host)
        self._addresses[socket] = address
        self._silent.setdefault(address, {})[socket] = now
        self._count(address, 1)

    def note_progress(self, socket: Socket, now: float) -> None:
        """The client has sent something, and the broker has answered it: silent from now on."""
        address = self._addresses.get(socket)
        if address is not None:
            silent = self._silent[address]
            silent.pop(socket, None)
            silent[socket] = now

    def is_served(self, socket: Socket) -> None:
        """It waits for the broker, until `note_progress`."""
        address = self._addresses.get(socket)
        if address is not None:
            self._silent[address].pop(socket, None)

    def discard(self, socket: Socket) -> None:
        """It has gone, or is known; nothing happens if it is not there."""
        address = self._addresses.pop(socket, None)
        if address is not None:
            self._silent[address].pop(socket, None)
            self._count(address, -1)

    def evict(self, host: str, now: float) -> Socket | None:
        """Take out the socket that gives way to one more from this address; None if none does."""
        address = network_of(host)
        own_count = self._counts.get(address, 0) + 1
        found = next(filter(self._is_silent, self._candidates(address, own_count, now)), None)
        if found is not None:
            self.discard(found)
        return found

    def _candidates(self, address: str, own_count: int, now: float) -> Iterator[Socket]:
        for count in range(len(self._with_count) - 1, own_count - 1, -1):
            for other in self._with_count[count]:
                if other != address:
                    yield from self._silent[other]
        for socket, heard in self._silent.get(address, {}).items():
            if now - heard < self._silent_seconds_min:
                return
            yield socket

    def _count(self, address: str, change: int) -> None:
        before = self._counts.get(address, 0)
        after = before + change
        counted = self._with_count
        if before:
            del counted[before][address]
        if after:
            self._counts[address] = after
            if after == len(counted):
                counted.append({})
            counted[after][address] = None
        else:
            del self._counts[address], self._silent[address]
        while not counted[-1] and len(counted) > 1:
            counted.pop()


class Crowds:
    """The waiting peers of all listeners, which have the file descriptors in common."""

    def __init__(self) -> None:
        self._crowds: list[tuple[WaitingPeers[Any], Callable[[Any, str], object]]] = []

    def add(self, waiting: WaitingPeers[Socket], abandon: Callable[[Socket, str], object]) -> None:
        """These give way, too: `abandon(socket, limit)` closes one of them."""
        self._crowds.append((waiting, abandon))

    def make_room(self, host: str, now: float, limit: str) -> bool:
        """Have one give way to a socket from this address: of the largest crowd that can."""
        for waiting, abandon in sorted(self._crowds, key=_size, reverse=True):
            socket = waiting.evict(host, now)
            if socket is not None:
                abandon(socket, limit)
                return True
        return False


def _size(crowd: tuple[WaitingPeers[Any], object]) -> int:
    return len(crowd[0])


def network_of(host: str) -> str:
    """The key of one address: of IPv6 the network of 64 bits or the IPv4 address mapped into it."""
    if ":" not in host:
        return host
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        return str(mapped)
    return ":".join(address.exploded.split(":")[:_IPV6_NETWORK_GROUPS])
