"""Follows a directory's trace while a broker writes it: whole lines, over rotations and restarts.

The writer ends a file before it begins the next, whose name sorts behind it. So a file at whose end
there is nothing more, while there is a newer one, is done; a line that was torn there stays out. A
file that was compressed between two looks is read in that form.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

SUFFIX = ".jsonl"
READ_BYTES_MAX = 1 << 20


class TraceTail:
    """The lines that are added to the trace in `directory`, which need not be there yet."""

    def __init__(
        self,
        directory: Path,
        from_begin: bool = False,
        on_damage: Callable[[Path, Exception], None] | None = None,
    ) -> None:
        self._directory = directory
        # Told of a packed file whose rest cannot be read, and is left out.
        self._on_damage = on_damage
        self._file: IO[bytes] | None = None
        # The name, without .gz, of the file that is read, or was read last.
        self._name = ""
        self._torn = b""
        if not from_begin:
            self._skip()

    def lines(self) -> list[bytes]:
        """The new lines, a few thousand at most; empty if there are none."""
        while True:
            if self._file is None and not self._open_next():
                return []
            assert self._file is not None
            # Checked first, because the following read is then the rest if there is a newer file.
            has_newer = bool(self._newer())
            data = self._read(self._file)
            if data is None:
                self.close()
            elif data:
                *whole, self._torn = (self._torn + data).split(b"\n")
                if whole:
                    return whole
            elif has_newer:
                self.close()
            else:
                return []

    def _read(self, file: IO[bytes]) -> bytes | None:
        """None if the bytes cannot be unpacked."""
        try:
            return file.read(READ_BYTES_MAX)
        except (EOFError, gzip.BadGzipFile, zlib.error) as fault:
            if self._on_damage is not None:
                self._on_damage(self._directory / self._name, fault)
            return None

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._torn = b""

    def _skip(self) -> None:
        """Begin behind the present lines."""
        names = self._newer()
        if names:
            self._name = names[-1]
            path = self._directory / self._name
            if path.exists():
                self._file = path.open("rb")
                self._file.seek(0, 2)

    def _newer(self) -> list[str]:
        # Others are on their way to be compressed.
        names = {path.name.removesuffix(".gz") for path in self._directory.glob("trace-*")}
        return sorted(name for name in names if name.endswith(SUFFIX) and name > self._name)

    def _open_next(self) -> bool:
        for name in self._newer():
            self._name = name
            path = self._directory / name
            for opened in (path, path.with_name(name + ".gz")):
                # Plain as long as it is there: beside it the other is not whole yet.
                try:
                    self._file = _open(opened)
                except FileNotFoundError:
                    continue
                return True
        return False


def _open(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")
