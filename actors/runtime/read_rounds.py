"""How much the sockets bring in a round of the event loop, and how connections share it.

An event loop reads each socket that is ready before anything else has a turn. Twenty clients that
publish as fast as they can fill their sockets again meanwhile: if each read brings a mebibyte,
twenty are decoded, routed and enqueued between two looks at a lone publisher's socket, and its
confirm takes some such rounds. So a round has a size, and those that would fill it share it.

A connection that has had its share rests until the next round. How many rest says how large the
shares of the next round are. Should the round be full before all have been read, for more bring
much than before, the others have the smallest share: no connection is left out.
"""

from __future__ import annotations

from typing import Final

from ..messages import Ref, RoundOver
from .runtime import Runtime, tell

# With less, its turns would cost more than its bytes. Smaller reads are not counted.
SHARE_BYTES_MIN: Final = 4096


class ReadRounds:
    """Those of a node's event loop; `share_bytes` is what a connection may bring in this round."""

    __slots__ = (
        "_bytes_max",
        "_next_share_bytes",
        "_read_bytes",
        "_resting",
        "_runtime",
        "_share_bytes_max",
        "number",
        "share_bytes",
    )

    def __init__(self, runtime: Runtime, bytes_max: int, share_bytes_max: int) -> None:
        """Make the rounds of an event loop that brings up to `bytes_max` in each.

        `share_bytes_max` is what a single read can bring.
        """
        self._runtime = runtime
        self._bytes_max = bytes_max
        self._share_bytes_max = min(bytes_max, share_bytes_max)
        self.share_bytes = self._share_bytes_max
        # Of the next round, if nobody rests in this one.
        self._next_share_bytes = self.share_bytes
        # So that a connection knows whether what it has brought was in this round.
        self.number = 0
        self._read_bytes = 0
        self._resting: list[Ref] = []

    def received(self, byte_count: int) -> None:
        """Count a read of SHARE_BYTES_MIN or more, of any connection."""
        if not self._read_bytes:
            # Behind all sockets that are ready by now.
            self._runtime.scheduler.call_soon(self._end)
        self._read_bytes += byte_count
        if self._read_bytes >= self._bytes_max:
            self.share_bytes = SHARE_BYTES_MIN

    def rest(self, reader: Ref) -> None:
        """This connection has had its share; its reader is told when the next round begins."""
        self._resting.append(reader)

    def _end(self) -> None:
        resting, self._resting = self._resting, []
        share_bytes = self._next_share_bytes
        if resting:
            share_bytes = max(SHARE_BYTES_MIN, self._bytes_max // len(resting))
        self.share_bytes = min(share_bytes, self._share_bytes_max)
        # Those that rest by turns do not have it all at once.
        self._next_share_bytes = 2 * self.share_bytes
        self._read_bytes = 0
        self.number += 1
        for reader in resting:
            tell(reader, RoundOver())
