"""A simulated disk for spools: the journal's own, which forgets what was not synced."""

from __future__ import annotations

from crashing_files import CrashingFiles
from leveret.spark.spool.spool import Spool
from leveret.spark.spool.spool_mark import Mark

DIRECTORY = "/spool"
A, B, C = b"a" * 100, b"b" * 90, b"c" * 80


class SpoolDisk(CrashingFiles):
    """The files of a spool, in memory."""

    def ranges(self) -> list[str]:
        return [name for name in self.list_directory(DIRECTORY) if name.endswith(".arrow")]


def mark(spool: str = "one", begins: int = 0, queues: tuple[str, ...] = ("orders",)) -> Mark:
    return Mark(spool, begins, queues, "/")


def joined(disk: SpoolDisk, start: int = 0, spool: str | None = None) -> Spool:
    """The spool as a process finds it whose query is at `start`."""
    found = Spool(DIRECTORY, disk)
    found.open()
    found.join(start, spool, mark(begins=start))
    return found


def spooled() -> SpoolDisk:
    """A disk with the ranges 0 to 10 (A) and 10 to 15 (B), left by a process that was killed."""
    disk = SpoolDisk()
    spool = joined(disk)
    spool.write(0, 10, A)
    spool.write(10, 15, B)
    disk.kill()
    return disk
