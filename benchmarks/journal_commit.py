"""Measures the journal: commits a second on this disk, and the Python time per append.

    python benchmarks/journal_commit.py [DIRECTORY]

Batches of 220 messages of 290 wire bytes, contiguous and persistent, one queue, each settled as
its successor is appended; then batches of one message, window 1. "bare" is a write of the same
bytes and an fdatasync, nothing else: what this disk allows. In turns, medians.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from struct import pack

from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.storage.files import Buffer, OperatingSystemFiles
from leveret.storage.journal.journal import Journal
from leveret.storage.journal.opening import open_journal

ROUNDS = 5


class NoDisk(OperatingSystemFiles):
    """Takes everything and writes nothing: the rest is Python."""

    def write(self, handle: int, offset: int, buffers: Sequence[Buffer]) -> int:
        """Nothing is written."""
        del handle, offset
        return sum(map(len, buffers))

    def sync_data(self, handle: int) -> None:
        """Nothing is synced."""


def publish(wire_bytes: int) -> bytes:
    """One persistent publish of so many bytes on the wire."""
    method = pack(">BHIHHHB", 1, 1, 16, 60, 40, 0, 0) + b"\7a queue\0\xce"
    overhead = len(method) + 23 + 8
    header = pack(">BHIHHQHB", 2, 1, 15, 60, 0, wire_bytes - overhead, 0x1000, 2) + b"\xce"
    body = pack(">BHI", 3, 1, wire_bytes - overhead) + bytes(wire_bytes - overhead) + b"\xce"
    return method + header + body


def batches(count: int, messages: int) -> list[Batch]:
    """As a channel would hand them over, all decoded beforehand."""
    wire = publish(290) * messages
    made = []
    for number in range(1, count + 1):
        batch = decode_publishes(wire)
        assert len(batch) == messages
        batch.number = number
        made.append(batch)
    return made


def journal_seconds(journal: Journal, work: list[Batch], per_commit: int, settle: bool) -> float:
    """How long the journal takes; settles follow one batch behind."""
    messages = len(work[0])
    entry_id = 1
    start = time.perf_counter()
    for position in range(0, len(work), per_commit):
        for batch in work[position : position + per_commit]:
            journal.append(1, batch, range(messages), range(entry_id, entry_id + messages))
            if settle and entry_id > messages:
                journal.settle(1, [(entry_id - messages, entry_id - 1)])
            entry_id += messages
        journal.commit()
        journal.reclaim()
    return time.perf_counter() - start


def bare_seconds(path: str, work: list[Batch], per_commit: int) -> float:
    """How long writing and syncing the same bytes takes."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    start = time.perf_counter()
    for position in range(0, len(work), per_commit):
        os.writev(handle, [batch.wire for batch in work[position : position + per_commit]])
        os.fdatasync(handle)
    taken = time.perf_counter() - start
    os.close(handle)
    os.unlink(path)
    return taken


def measure(directory: str, count: int, messages: int, per_commit: int) -> tuple[float, float]:
    """Medians of seconds: bare, journal."""
    bare, journalled = [], []
    path = os.path.join(directory, "journal")
    for _ in range(ROUNDS):
        work = batches(count, messages)
        bare.append(bare_seconds(os.path.join(directory, "bare"), work, per_commit))
        journal, _ = open_journal(path, known_queue_ids={1})
        journalled.append(journal_seconds(journal, work, per_commit, settle=True))
        journal.close()
        shutil.rmtree(path)
    return statistics.median(bare), statistics.median(journalled)


def python_nanoseconds(directory: str, messages: int, settle: bool) -> float:
    """Per append (and settle), without a disk, a commit for every 8 of them."""
    figures = []
    path = os.path.join(directory, "nothing")
    for _ in range(ROUNDS):
        work = batches(4000, messages)
        journal, _ = open_journal(path, NoDisk(), {1}, segment_bytes_max=1 << 40)
        figures.append(journal_seconds(journal, work, 8, settle) / len(work) * 1e9)
        shutil.rmtree(path)
    return statistics.median(figures)


def main() -> None:
    """Print the tables."""
    directory = tempfile.mkdtemp(dir=sys.argv[1] if len(sys.argv) > 1 else ".")
    try:
        print(f"{'':34}{'bare /s':>12}{'journal /s':>12}{'ratio':>8}")
        for count, messages, per_commit, unit in (
            (800, 220, 1, "messages, 220 a commit"),
            (800, 220, 8, "messages, 8 x 220 a commit"),
            (3000, 1, 1, "commits of one message"),
        ):
            bare, journalled = measure(directory, count, messages, per_commit)
            done = count * messages
            print(
                f"{unit:34}{done / bare:12,.0f}{done / journalled:12,.0f}{bare / journalled:8.2f}"
            )
        for messages in (220, 1):
            for settle in (False, True):
                cost = python_nanoseconds(directory, messages, settle)
                what = f"append of {messages}" + (" and a settle" if settle else "")
                print(f"{what:34}{cost:12,.0f} ns, no disk, 1/8 commit")
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
