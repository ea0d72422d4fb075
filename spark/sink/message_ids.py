"""Ids that are the same when a row is published again, so that a broker can tell a repeat.

    content    the digest of the row, of its partition, batch and query, and of how many rows like
               it came before. Rows of a shuffled partition come in another order when its task is
               tried again, so their place must not count: with place as id a broker that drops
               repeats could drop one row and keep another twice. Content errs to repeats only.
    position   the place in the partition: for inputs whose order never changes; costs no memory.
    none       new at each try; only to know which row a return is of.

All are 32 hexadecimal digits.
"""

from __future__ import annotations

import uuid
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

DIGEST_BYTES: Final = 16
# Eight octets of a digest are remembered for each row: some 60 octets of memory.
_KEY_DIGITS: Final = 16


class Place(NamedTuple):
    """Where rows stand: the same for every try to publish them."""

    # The stream's query, the batch job, or what the option dedupScope says.
    scope: str
    # The micro-batch; None: a batch job.
    batch: int | None
    partition: int


class MessageIds(Protocol):
    """Gives each row of a partition its id; rows are asked for in their order, once."""

    def next(self, head: bytes, body: bytes) -> str:
        """The id of the next row: `head` is everything that is published except the body."""


class ContentIds:
    """Ids from the content of the row."""

    def __init__(self, place: Place) -> None:
        self._place = blake2b(repr(tuple(place)).encode(), digest_size=DIGEST_BYTES)
        self._heads: dict[bytes, blake2b] = {}
        self._heads_bytes = 0
        self._seen: set[int] = set()
        self._repeats: dict[str, int] = {}

    def next(self, head: bytes, body: bytes) -> str:
        """The same for the n-th row with this content, wherever it stands."""
        begun = self._heads.get(head)
        if begun is None:
            begun = self._begin(head)
        digest = begun.copy()
        digest.update(body)
        identity = digest.hexdigest()
        key = int(identity[:_KEY_DIGITS], 16)
        if key not in self._seen:
            self._seen.add(key)
            return identity
        # The n-th of its kind; n is that of the whole digest, the short one may meet by chance.
        ordinal = self._repeats[identity] = self._repeats.get(identity, 0) + 1
        digest.update(b"\0again" + ordinal.to_bytes(8, "big"))
        return digest.hexdigest()

    def _begin(self, head: bytes) -> blake2b:
        if len(self._heads) >= HEADS_MAX or self._heads_bytes > HEADS_BYTES_MAX:
            self._heads.clear()
            self._heads_bytes = 0
        self._heads_bytes += len(head)
        begun = self._place.copy()
        # The length parts head from body.
        begun.update(len(head).to_bytes(8, "big") + head)
        self._heads[head] = begun
        return begun


# So many different heads (routing and properties) are remembered, or so many octets of them.
HEADS_MAX: Final = 4096
HEADS_BYTES_MAX: Final = 8 << 20


class PositionIds:
    """By the place in the partition."""

    def __init__(self, place: Place) -> None:
        self._place = blake2b(repr(tuple(place)).encode(), digest_size=DIGEST_BYTES)
        self._next = 0

    def next(self, _head: bytes, _body: bytes) -> str:
        """The same for the n-th row."""
        digest = self._place.copy()
        digest.update(self._next.to_bytes(8, "big"))
        self._next += 1
        return digest.hexdigest()


class NewIds:
    """New ones."""

    def __init__(self) -> None:
        self._prefix = uuid.uuid4().hex[:20]
        self._next = 0

    def next(self, _head: bytes, _body: bytes) -> str:
        """Never given before."""
        self._next += 1
        return f"{self._prefix}{self._next:012x}"


def message_ids(way: str, place: Place) -> MessageIds:
    """The source of message ids that the option dedup asks for."""
    if way == "content":
        return ContentIds(place)
    return PositionIds(place) if way == "position" else NewIds()
