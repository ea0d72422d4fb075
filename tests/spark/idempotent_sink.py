"""A sink that skips the batch ids it has written, as Delta's does; for foreachBatch."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class IdempotentSink:
    """A file for each batch, whole or not at all; importable by a driver of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(exist_ok=True)
        # What was asked for again, and had the rows that it had.
        self.replayed: list[int] = []

    def write(self, batch: DataFrame, number: int) -> bool:
        """Write a batch if it is new; one that is not must have the same rows in the same order."""
        found = batch.select("body", "_seq", "redelivered").collect()
        rows = [[int(row.body), row._seq, row.redelivered] for row in found]
        path = self._directory / f"{number}.json"
        if path.exists():
            if json.loads(path.read_text()) != rows:
                raise RuntimeError(f"batch {number} does not have the rows that it had")
            self.replayed.append(number)
            return False
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(rows))
        partial.rename(path)
        return True

    def rows(self) -> list[tuple[int, bool]]:
        """The number of each row written, and whether it was redelivered, in the batches' order."""
        batches = sorted(self._directory.glob("*.json"), key=lambda path: int(path.stem))
        return [(row[0], row[2]) for path in batches for row in json.loads(path.read_text())]

    def seen(self) -> Counter[int]:
        """How often each number has been written."""
        return Counter(number for number, _ in self.rows())
