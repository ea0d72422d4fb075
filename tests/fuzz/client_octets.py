"""One client of a new node: any octets that it sends, in any reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from octets import Octets
from quiet_node import QuietNode, Ref, Transport

_READ_BYTES = (1 << 20, 100, 9)
# An input says in which reads its octets come, and whether the client stays behind them.
WAYS = 2 * len(_READ_BYTES)
# A client that stays for so long has all timers behind it.
_LATER_SECONDS = 61.0

Connect = Callable[[QuietNode], tuple[Transport, Ref]]


def play(data: bytes, befores: Sequence[Sequence[bytes]], connect: Connect) -> bytes:
    """Play one input, and lose the socket; what was written to the client.

    Its first octet chooses what the broker has been sent before, the second the way.
    """
    octets = Octets(data)
    before = befores[octets.below(len(befores))]
    way = octets.below(WAYS)
    wire = octets.rest()
    node = QuietNode()
    transport, reader = connect(node)
    for each in before:
        node.feed(reader, each)
    size = _READ_BYTES[way % len(_READ_BYTES)]
    for at in range(0, len(wire), size):
        node.feed(reader, wire[at : at + size])
    if way >= len(_READ_BYTES):
        # It stays, and says nothing more.
        node.scheduler.advance(_LATER_SECONDS)
        node.settle()
    written = bytes(transport.written)
    node.lose(reader)
    return written
