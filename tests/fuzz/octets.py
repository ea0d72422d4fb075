"""Octets that a fuzzer made up, as numbers and pieces; behind their end all is zero or empty."""

from __future__ import annotations


class Octets:
    """A cursor over an input."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def are_left(self) -> bool:
        """Is there more to read?"""
        return self._at < len(self._data)

    def number(self, octets: int = 1) -> int:
        """The number in the next octets, the lowest first."""
        return int.from_bytes(self.piece(octets), "little")

    def below(self, limit: int) -> int:
        """A number below the limit, which is at most 256."""
        return self.number() % limit

    def piece(self, count: int) -> bytes:
        """The next octets, so many if there are."""
        piece = self._data[self._at : self._at + count]
        self._at += len(piece)
        return piece

    def rest(self) -> bytes:
        """All that is left."""
        return self.piece(len(self._data))
