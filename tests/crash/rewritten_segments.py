"""Which segments of a journal were rewritten, as seen from outside: the same name, another file."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


class RewrittenSegments:
    """Look now and then; `count` is how many were seen to be other files than before.

    A segment that was rewritten and removed between two looks is not seen.
    """

    def __init__(self, data: Path) -> None:
        self._journal = data / "journal"
        self._files: dict[str, int] = {}
        self.count = 0

    def look(self) -> None:
        """Compare with the last look."""
        files: dict[str, int] = {}
        for segment in self._journal.glob("*.journal"):
            # A broker that runs may have removed it.
            with suppress(FileNotFoundError):
                files[segment.name] = segment.stat().st_ino
        self.count += sum(self._files.get(name, inode) != inode for name, inode in files.items())
        self._files = files
