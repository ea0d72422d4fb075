"""A list that tells what it costs to change it: counted, for a time depends on the machine."""

from __future__ import annotations

from typing import Any, SupportsIndex


class CountingList(list[Any]):
    """Counts the places that are moved, or written anew, when it is changed in the middle."""

    moved = 0

    def __setitem__(self, place: Any, value: Any) -> None:
        if isinstance(place, slice):
            self.moved += len(self)
        super().__setitem__(place, value)

    def __delitem__(self, place: Any) -> None:
        self.moved += len(self) if isinstance(place, slice) else len(self) - place
        super().__delitem__(place)

    def insert(self, place: SupportsIndex, value: Any) -> None:
        self.moved += len(self) - int(place)
        super().insert(place, value)

    def pop(self, place: SupportsIndex = -1) -> Any:
        self.moved += len(self) - int(place) if int(place) >= 0 else 0
        return super().pop(place)
