"""Which closed segments are being read, and so stay on the disk as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class Pins:
    """Counts the readers of each segment, and the removal of a segment waits for them."""

    def __init__(self) -> None:
        self._readers: Counter[int] = Counter()
        self._waiting: set[int] = set()

    def pin(self, segments: Iterable[int]) -> None:
        """Somebody reads these."""
        self._readers.update(segments)

    def unpin(self, segments: Iterable[int]) -> list[int]:
        """Somebody reads these no more; returns those whose removal waited for that, ascending."""
        readers = self._readers
        for number in segments:
            readers[number] -= 1
            if not readers[number]:
                del readers[number]
        free = sorted(number for number in self._waiting if number not in readers)
        self._waiting.difference_update(free)
        return free

    def is_pinned(self, segment: int) -> bool:
        """Does anybody read it?"""
        return segment in self._readers

    def keep(self, going: Iterable[int]) -> list[int]:
        """Of the segments that are to go, those that can go now; the others wait."""
        free = []
        for number in going:
            if number in self._readers:
                self._waiting.add(number)
            else:
                free.append(number)
        return free
