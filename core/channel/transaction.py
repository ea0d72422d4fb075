"""The publishes and acknowledgements of a channel in tx mode since its last commit or rollback.

No queue knows of them. They are bounded: publishes count with their wire bytes and the cost of
keeping a batch, acknowledgements with the cost of keeping one, so that neither many small
messages nor many acks can fill the memory. All transactions of one connection have that much
between them, however many channels it opens.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final, NamedTuple

from ...amqp_frames.constants import PRECONDITION_FAILED
from ...amqp_frames.errors import SoftError
from ..publishing.publisher import Held
from ..queue.in_flight import Delivery

# About what a batch takes up in memory beside its wire bytes, and what a row of acks does.
BATCH_BYTES: Final = 4096
PART_BYTES: Final = 256

# A delivery and the positions in it, end exclusive, that an ack speaks of.
Part = tuple[Delivery, int, int]


class Outcome(Enum):
    """How the client settles a message; the values are the trace's words."""

    ACKED = "acked"
    # For good: it may become a dead letter.
    REJECTED = "rejected"
    # Undone: its queue delivers it again.
    RETURNED = "given back"


class HeldAcks(NamedTuple):
    """Acknowledgements that wait for the commit.

    `delay_ms`: for how long returned messages are deferred; None: as their queue has it.
    """

    outcome: Outcome
    parts: list[Part]
    delay_ms: int | None = None


class TransactionMemory:
    """Counts the bytes that the transactions of one connection hold together."""

    __slots__ = ("_bytes_max", "used_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.used_bytes = 0

    def reserve(self, byte_count: int) -> None:
        """Count bytes that a transaction holds; 406 if all of them together are too many."""
        self.used_bytes += byte_count
        if self.used_bytes > self._bytes_max:
            limit = self._bytes_max
            text = f"transaction size of the connection is larger than configured max size {limit}"
            raise SoftError(PRECONDITION_FAILED, text)

    def free(self, byte_count: int) -> None:
        """Count bytes that a transaction holds no longer."""
        self.used_bytes -= byte_count
        assert self.used_bytes >= 0


class Transaction:
    """Publishes and acknowledgements that wait for a commit.

    Its owner clears it when it ends, whatever ends it: the memory is its connection's.
    """

    def __init__(self, memory: TransactionMemory) -> None:
        self._memory = memory
        self._held_bytes = 0
        self.publishes: deque[Held] = deque()
        # Of all that it held, routed or not.
        self.publish_count = 0
        self.acks: list[HeldAcks] = []

    def hold_publishes(self, held: Held) -> None:
        """A batch waits for the commit; 406 if the transaction is too large with it."""
        self.publishes.append(held)
        self.publish_count += len(held.batch)
        self._count(BATCH_BYTES + held.batch.wire_bytes)

    def hold_acks(self, held: HeldAcks) -> None:
        """Acknowledgements wait; 406 likewise."""
        self.acks.append(held)
        self._count(PART_BYTES * len(held.parts))

    def _count(self, byte_count: int) -> None:
        # Count first, because a refused batch, too, is held until the channel lets go of all.
        self._held_bytes += byte_count
        self._memory.reserve(byte_count)

    def clear(self) -> None:
        """Begin anew."""
        self._memory.free(self._held_bytes)
        self._held_bytes = self.publish_count = 0
        self.publishes.clear()
        self.acks.clear()
