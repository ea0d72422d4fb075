"""The identity of a publish: its headers x-dedup-producer and x-dedup-id.

Only for queues that keep a window of them. The identity of a message is a digest of both values
with their types, so producers may name themselves and their messages as they like: what counts is
that the same octets come again. A message that has only one of the two headers has no identity. Of
a name that comes twice the first stands, as everywhere in a field table.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from ..values.field_table import HAS_LENGTH, SIZES
from .batch import Batch, Indexes

# Octets of a digest: two of 10^12 different identities are alike once in 10^12 times.
DIGEST_BYTES: Final = 15

# Header names as on the wire.
_PRODUCER: Final = b"\x10x-dedup-producer"
_ID: Final = b"\x0ax-dedup-id"

_HEADERS_HIGH: Final = 0x20
_CONTENT_TYPE_HIGH: Final = 0x80
_CONTENT_ENCODING_HIGH: Final = 0x40


class IdentityReader:
    """Reads identities where messages lie; it remembers how the last message was laid out."""

    __slots__ = ("_id_bytes", "_prefix", "_producer")

    def __init__(self) -> None:
        # Of the last message with an identity whose producer stood before its id: the octets from
        # its flags up to the first of the id's value, type, producer and all.
        self._prefix = b""
        self._producer = b""
        self._id_bytes = 0

    def digests(self, batch: Batch, indexes: Indexes) -> list[bytes]:
        """One for each message, b"" where it has no identity."""
        wire, headers = batch.wire, batch.headers
        found: list[bytes] = []
        for index in indexes:
            flags_at = headers[index] + 19
            if self._prefix and wire.startswith(self._prefix, flags_at):
                id_at = flags_at + len(self._prefix)
                identity = self._producer + wire[id_at : id_at + self._id_bytes]
            else:
                identity = self._read(wire, flags_at)
            found.append(blake2b(identity, digest_size=DIGEST_BYTES).digest() if identity else b"")
        return found

    def _read(self, wire: bytes, flags_at: int) -> bytes:
        """Both values with their types, the producer's first; b"" if one is missing.

        The properties are sound: they were when they came (amqp_frames/properties.py draws them).
        """
        flags = wire[flags_at]
        if not flags & _HEADERS_HIGH:
            return b""
        position = flags_at + 2
        if flags & _CONTENT_TYPE_HIGH:
            position += 1 + wire[position]
        if flags & _CONTENT_ENCODING_HIGH:
            position += 1 + wire[position]
        end = position + 4 + int.from_bytes(wire[position : position + 4], "big")
        position += 4
        producer = identity = b""
        id_at = 0
        while position < end and not (producer and identity):
            tag_at = position + 1 + wire[position]
            value_end = _value_end(wire, tag_at)
            if not producer and wire.startswith(_PRODUCER, position):
                producer = wire[tag_at:value_end]
            elif not identity and wire.startswith(_ID, position):
                identity = wire[tag_at:value_end]
                id_at = tag_at + 5
            position = value_end
        if not (producer and identity):
            return b""
        if id_at == position - len(identity) + 5 and SIZES[identity[0]] == HAS_LENGTH:
            # The id's type and length are in the prefix, and in what its digest is made of.
            self._prefix = wire[flags_at:id_at]
            self._producer = producer + identity[:5]
            self._id_bytes = len(identity) - 5
        return producer + identity


def _value_end(wire: bytes, tag_at: int) -> int:
    """Where the value ends whose tag is there."""
    size = SIZES[wire[tag_at]]
    if size < HAS_LENGTH:
        return tag_at + size
    return tag_at + 5 + int.from_bytes(wire[tag_at + 1 : tag_at + 5], "big")
