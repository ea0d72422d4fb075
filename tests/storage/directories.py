"""Whole data directories, catalog and journal, without a broker's actors around them."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from leveret.storage.catalog import AddQueue, Catalog, QueueRow, RemoveQueue
from leveret.storage.data_directory import DataDirectory
from leveret.storage.files import Files, OperatingSystemFiles
from leveret.storage.journal.journal import Journal
from leveret.storage.stores import Stores
from publishes import batch_of, kept

Contents = dict[tuple[int, int], bytes]


class QuickFiles(OperatingSystemFiles):
    """The machine's disk without waiting for it: what these tests crash is a process."""

    def sync_data(self, handle: int) -> None:
        pass

    def sync_directory(self, directory: str) -> None:
        pass

    def truncate(self, path: str, length: int) -> None:
        os.truncate(path, length)


class Started:
    """A directory that was started on, as a node does it; `contents` is what was found."""

    def __init__(
        self,
        path: Path,
        files: Files | None = None,
        *,
        drops_unmatched: bool = False,
        segment_bytes_max: int = 1 << 20,
        seed: int = 1,
    ) -> None:
        self.files = files or QuickFiles()
        self._directory = DataDirectory.open(path, self.files)
        self.catalog: Catalog | None = None
        self.journal: Journal | None = None
        try:
            new_id = Random(seed).randbytes(16)
            stores = Stores(self._directory, self.files, new_id, drops_unmatched)
            boot_number = self._directory.begin(stores.boot_number_min)
            self.catalog = stores.open_catalog()
            self.journal = stores.begin_journal(self.catalog, boot_number, segment_bytes_max)
        except BaseException:
            self.kill()
            raise
        self.directory_id = self.catalog.directory_id
        self.recovered = stores.recovered
        self.report = stores.recovered.report

    @property
    def contents(self) -> Contents:
        return {
            (queue_id, run.first_entry_id + position): kept(run.batch, index)
            for queue_id in self.recovered.queues
            for run in self.recovered.messages(queue_id)
            for position, index in enumerate(run.indexes)
        }

    def declare(self, *names: str) -> list[int]:
        """New queues; their ids."""
        assert self.catalog is not None
        ids = []
        for name in names:
            queue_id = self.catalog.next_queue_id
            row = QueueRow(queue_id, "/", name, True, False, b"\0\0\0\0")
            self.catalog.apply([AddQueue(row)])
            ids.append(queue_id)
        return ids

    def delete(self, queue_id: int) -> None:
        assert self.catalog is not None
        self.catalog.apply([RemoveQueue(queue_id)])

    def publish(self, queue_id: int, first_entry_id: int, *bodies: bytes) -> Contents:
        """One batch in one commit."""
        assert self.journal is not None
        number = 1000 * queue_id + first_entry_id
        batch = batch_of(bodies, number)
        count = len(bodies)
        ids = range(first_entry_id, first_entry_id + count)
        self.journal.append(queue_id, batch, range(count), ids)
        self.journal.commit()
        return {(queue_id, first_entry_id + i): kept(batch, i) for i in range(count)}

    def stop(self) -> None:
        """As a node stops."""
        if self.journal is not None:
            self.journal.close()
        if self.catalog is not None:
            self.catalog.close()
        self._directory.close()

    def kill(self) -> None:
        """The process is gone; what SQLite does with an open file then is left out."""
        if self.journal is not None:
            self.journal.abandon()
        if self.catalog is not None:
            self.catalog.close()
        self._directory.close()


def snapshot(path: Path) -> dict[str, bytes]:
    """Every file below the directory, but for the lock."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != "lock"
    }
