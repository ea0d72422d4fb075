"""How many messages of a batch were published to which exchange.

Exchanges are named as keys of a batch begin: by a short string as on the wire. Nearly always a
batch has one exchange, and no message is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ...amqp_frames.messages.batch import Batch


def exchange_of(key: bytes) -> bytes:
    """The exchange of a batch's distinct key."""
    return key[: 1 + key[0]]


def exchange_name(exchange: bytes) -> str:
    """Its name as text."""
    return exchange[1:].decode("utf-8", "surrogateescape")


def exchange_key(name: str) -> bytes:
    """The inverse of `exchange_name`."""
    octets = name.encode("utf-8", "surrogateescape")
    return bytes([len(octets)]) + octets


def single_exchange(batch: Batch) -> bytes | None:
    """The exchange of all messages of the batch; None if they have several."""
    distinct = batch.distinct
    exchange = exchange_of(distinct[0])
    if len(distinct) > 1:
        for key in distinct:
            if not key.startswith(exchange):
                return None
    return exchange


def count_by_exchange(batch: Batch, indexes: Sequence[int]) -> Mapping[bytes, int]:
    """How many of these messages each exchange got."""
    exchange = single_exchange(batch)
    if exchange is not None:
        return {exchange: len(indexes)}
    counts: dict[bytes, int] = {}
    for number, count in Counter(map(batch.keys.__getitem__, indexes)).items():
        exchange = exchange_of(batch.distinct[number])
        counts[exchange] = counts.get(exchange, 0) + count
    return counts
