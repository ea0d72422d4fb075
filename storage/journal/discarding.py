"""The files of a journal's directory that go: removed, or set aside where they are damaged.

A file that cannot be removed stays, because nobody needs it; it is tried again with the next ones,
and at the next start.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Set
from typing import Final

from ..files import Files
from .log import Undropped
from .segment_files import ASIDE, REWRITTEN, segment_path, set_aside
from .segment_index import index_path, is_index_name

# So many damaged segments are kept; of more, the oldest are removed.
ASIDE_FILES_MAX: Final = 16


class Discarding:
    """The files of one directory that go."""

    def __init__(
        self,
        files: Files,
        directory: str,
        found: Mapping[int, str],
        damaged: Set[int],
        leftovers: Iterable[str],
        in_the_way: Iterable[str],
    ) -> None:
        """`found` says how files are called that were there at the start; some are `damaged`.

        Of those that do not count, leftovers are to be removed, others are in the way.
        """
        self._files = files
        self._directory = directory
        self._found = found
        self._damaged = damaged
        self._leftovers = leftovers
        self._in_the_way = in_the_way
        # Segments whose removal failed.
        self._failed: list[int] = []

    def name_of(self, number: int) -> str:
        """The name of the segment's file."""
        return self._found.get(number) or os.path.basename(segment_path("", number))

    def discard(self, numbers: Iterable[int]) -> list[Undropped]:
        """Remove the files of these segments, and those that could not be removed before.

        Damaged ones are set aside. Returns those that stay.
        """
        going, self._failed = [*numbers, *self._failed], []
        undropped = []
        for number in going:
            name = self.name_of(number)
            error = self._remove_file(name, is_to_stay=number in self._damaged)
            self.discard_index(number)
            if error is not None:
                self._failed.append(number)
                undropped.append(Undropped(number, name, error))
        return undropped

    def discard_index(self, number: int) -> None:
        """Remove the index of a segment that goes or changes.

        It is of no use without its segment as it was: if it stays, a start does not believe it.
        """
        self._remove_file(os.path.basename(index_path("", number)), is_to_stay=False)

    def clear(self) -> list[Undropped]:
        """At the start: remove files that do not count, and set those aside that are in the way."""
        going = [(name, False) for name in (*self._leftovers, *self._unfinished())]
        going += [(name, True) for name in self._in_the_way]
        going += [(name, False) for name in self._stray_indexes()]
        results = [(name, self._remove_file(name, is_to_stay)) for name, is_to_stay in going]
        results += [(name, self._remove_file(name, False)) for name in self._too_old()]
        return [Undropped(0, name, error) for name, error in results if error is not None]

    def _stray_indexes(self) -> list[str]:
        """Indexes of segments that are not here, and halves of some."""
        of_segments = {os.path.basename(index_path("", number)) for number in self._found}
        names = self._files.list_directory(self._directory)
        return [name for name in names if is_index_name(name) and name not in of_segments]

    def _unfinished(self) -> list[str]:
        names = self._files.list_directory(self._directory)
        return sorted(name for name in names if name.endswith(REWRITTEN))

    def _too_old(self) -> list[str]:
        names = self._files.list_directory(self._directory)
        return sorted(name for name in names if ASIDE in name)[:-ASIDE_FILES_MAX]

    def _remove_file(self, name: str, is_to_stay: bool) -> OSError | None:
        try:
            if is_to_stay:
                set_aside(self._files, self._directory, name)
            else:
                self._files.remove(os.path.join(self._directory, name))
        except FileNotFoundError:
            # Somebody else has removed it.
            return None
        except OSError as error:
            return error
        return None
