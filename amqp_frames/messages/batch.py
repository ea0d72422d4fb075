"""The unit of the hot path: what one channel published in one socket read.

A Batch keeps the wire bytes as they came and says where each message lies in packed columns,
so that no object, dict or string is made per message. Everything behind the decoder speaks of
messages as indexes into a batch; the bytes pass through to the journal and to consumers.

The codec fills a batch (this folder: decoder, excerpts, copies) and changes nothing of it once it
has handed it on. What the broker learns of a batch afterwards has a slot and one writer each:

    number, durable   the publisher that routes it; recovery for a batch that the journal kept
    ttls_ms           the publisher, before that
    journal_place     the journal
    received_ns       the reader; who publishes dead letters
    arrived           whoever reads a batch back from the disk, or copies it to another queue
    traced            the trace

`tests/broker/test_batches_stay.py` watches every assignment in a running broker.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TypeAlias

from .arrivals import NOT_KNOWN, Arrived

# Ascending message numbers within one batch.
Indexes = range | array  # type: ignore[type-arg]


# Above every time to live: none.
TTL_NONE = 2**64 - 1

# Starts, headers, ends, keys and persistent.
Columns: TypeAlias = "tuple[array[int], array[int], array[int], array[int], bytearray]"


class Batch:
    """Consecutive publishes of one channel, as bytes and columns.

    For message k: its method frame starts at `starts[k]`, its header frame at `headers[k]`, and
    its last frame ends before `ends[k]` (offsets into `wire`). `distinct[keys[k]]` holds its
    exchange and routing key (short strings) and the octet of its bits (mandatory, immediate),
    as on the wire. `persistent[k]` is 1 if its delivery_mode is 2.
    """

    __slots__ = (
        "arrived",
        "channel_number",
        "contiguous",
        "distinct",
        "durable",
        "ends",
        "excerpted",
        "flagged",
        "frame_bytes_max",
        "headers",
        "journal_place",
        "keys",
        "number",
        "persistent",
        "received_ns",
        "starts",
        "traced",
        "ttls_ms",
        "wholes",
        "wire",
        "wire_bytes",
    )

    def __init__(self, wire: bytes, channel_number: int, columns: Columns | None = None) -> None:
        self.wire = wire
        # The channel number inside the frames; recovery may mix several: then -1.
        self.channel_number = channel_number
        if columns is None:
            columns = (array("I"), array("I"), array("I"), array("I"), bytearray())
        self.starts, self.headers, self.ends, self.keys, self.persistent = columns
        self.distinct: list[bytes] = []
        # Do the messages follow each other without a gap?
        self.contiguous = True
        # The largest frame, payload and overhead, decides whether bytes may pass through.
        self.frame_bytes_max = 0
        # Indexes of messages whose header carries a property that the broker must look at.
        self.flagged: list[int] | None = None
        # Bytes of wire that the messages take up, without the bytes between them.
        self.wire_bytes = 0
        # First index and end of messages that a queue takes all or refuses all, as one publish;
        # they ascend. None, as with AMQP: each message is on its own.
        self.wholes: Sequence[tuple[int, int]] | None = None
        # The numbers that these messages had before they were copied out of a larger batch, if so.
        self.excerpted: Indexes | None = None

        # --- Learned after decoding

        # Per message how long it may live in a queue, in milliseconds, if any says so in its
        # `expiration`; TTL_NONE for those that do not.
        self.ttls_ms: array[int] | None = None
        # Its number in the broker since the start of the process.
        self.number = 0
        # Indexes of the persistent messages that reached a durable queue; None means all.
        self.durable: Indexes | None = None
        # Where the journal has the messages.
        self.journal_place: object | None = None
        # Indexes of the messages whose hops are traced; None: of none.
        self.traced: Indexes | None = None
        # When the reader got the bytes, or the dead letters were made, by the trace's clock; 0 if
        # it is neither.
        self.received_ns = 0
        # When its messages arrived, by the wall clock, if they were read back from the disk or are
        # copies.
        self.arrived: Arrived = NOT_KNOWN

    def __len__(self) -> int:
        return len(self.starts)

    def body_bytes(self, index: int) -> int:
        """The body size that the message's content header announces, in bytes."""
        header = self.headers[index]
        return int.from_bytes(self.wire[header + 11 : header + 19], "big")
