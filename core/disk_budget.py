"""How much may be written before the disk's free space is looked at again.

A clock alone does not do: a fast publisher fills a small disk between two looks. Nor is a look
after every commit needed: a part of what there is above the limit can be written without harm.
"""

from __future__ import annotations

from typing import Final

# So near the limit every larger commit is worth a look, and a small one is not.
LOOK_BYTES_MIN: Final = 64 * 1024
# Room above the limit that may be written between two looks: one part in so many.
LOOK_PART: Final = 4


class DiskBudget:
    """Counts down the written bytes. One thread may write while another looks."""

    __slots__ = ("_free_bytes_min", "_left_bytes")

    def __init__(self, free_bytes_min: int) -> None:
        self._free_bytes_min = free_bytes_min
        self._left_bytes = LOOK_BYTES_MIN

    def looked(self, free_bytes: int) -> None:
        """So much is free now."""
        above_bytes = free_bytes - self._free_bytes_min
        self._left_bytes = max(LOOK_BYTES_MIN, above_bytes // LOOK_PART)

    def wrote(self, count: int) -> bool:
        """So many bytes were written; true, once, if it is time to look."""
        before = self._left_bytes
        self._left_bytes = before - count
        return before > 0 >= before - count
