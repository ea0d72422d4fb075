"""How long a broker takes to listen on a directory with many waiting messages.

The directory is filled through the catalog and the journal, as a broker would: in bulk, or every
message in a batch of its own, over some queues in turns. A second broker's worth of background work
then writes the indexes of segments, unless --without-indexes. Then a broker is started with default
settings, several times, and killed each time. "listening s" is from the start of the process to its
line that says so.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from struct import pack
from typing import Final, NamedTuple

from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.storage.catalog import AddQueue, QueueRow
from leveret.storage.data_directory import DataDirectory
from leveret.storage.files import OperatingSystemFiles
from leveret.storage.stores import Stores

from .brokers import Leveret
from .report import table

ROOT: Final = Path(__file__).resolve().parent.parent
MESSAGES: Final = 1_000_000
BODY_BYTES: Final = 1024
BULK: Final = 200
QUEUES: Final = 10
SEGMENT_BYTES_MAX: Final = 64 * 1024 * 1024
# A commit for each message would only measure the disk.
COMMIT_MESSAGES: Final = 2_000
EMPTY_TABLE: Final = b"\0\0\0\0"


def publish(body: bytes) -> bytes:
    """One persistent publish to the default exchange, as on the wire."""
    method = pack(">HHHB", 60, 40, 0, 0) + b"\1q\0"
    header = pack(">HHQHB", 60, 0, len(body), 0x1000, 2)
    frames = ((1, method), (2, header), (3, body))
    return b"".join(pack(">BHI", kind, 1, len(each)) + each + b"\xce" for kind, each in frames)


def fill(path: Path, messages: int, batch_messages: int, has_indexes: bool) -> int:
    """Fill a new directory; returns the bytes of its journal."""
    files = OperatingSystemFiles()
    directory = DataDirectory.open(path, files)
    stores = Stores(directory, files, bytes(range(16)))
    boot_number = directory.begin(stores.boot_number_min)
    catalog = stores.open_catalog()
    journal = stores.begin_journal(catalog, boot_number, SEGMENT_BYTES_MAX)
    first_id = catalog.next_queue_id
    for number in range(QUEUES):
        row = QueueRow(first_id + number, "/", f"restart {number}", True, False, EMPTY_TABLE)
        catalog.apply([AddQueue(row)])
    wire = publish(bytes(BODY_BYTES)) * batch_messages
    next_ids = [1] * QUEUES
    for number in range(messages // batch_messages):
        batch = decode_publishes(wire)
        batch.number = number + 1
        queue = number % QUEUES
        entry_id = next_ids[queue]
        next_ids[queue] += batch_messages
        ids = range(entry_id, entry_id + batch_messages)
        journal.append(first_id + queue, batch, range(batch_messages), ids)
        if batch_messages > 1 or number % COMMIT_MESSAGES == 0:
            journal.commit()
    journal.commit()
    if has_indexes:
        check = stores.background_check(files)
        check.look()
        while check.step()[0]:
            pass
    journal.close()
    catalog.close()
    directory.close()
    return sum(file.stat().st_size for file in (path / "journal").glob("*.journal"))


class Start(NamedTuple):
    """One start of a broker."""

    seconds: float
    cpu_seconds: float
    resident_bytes: int


def started(broker: Leveret) -> Start:
    """Start the broker, measure, and kill it."""
    begin = time.monotonic()
    broker.start()
    seconds = time.monotonic() - begin
    process = broker.process()
    times, resident = process.cpu_times(), process.memory_info().rss
    process.kill()
    broker.stop()
    return Start(seconds, times.user + times.system, resident)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill, start several times, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.restart_time",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=("bulk", "single"), default=("bulk", "single"))
    parser.add_argument("--without-indexes", action="store_true")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "bench")
    asked = parser.parse_args(arguments)
    lines = []
    for name in asked.only:
        asked.directory.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="restart-", dir=asked.directory))
        try:
            broker = Leveret(scratch)
            batch_messages = 1 if name == "single" else BULK
            journal_bytes = fill(
                broker.data_dir, asked.messages, batch_messages, not asked.without_indexes
            )
            for number in range(1, asked.starts + 1):
                start = started(broker)
                figures = (start.seconds, start.cpu_seconds, start.resident_bytes / 1e6)
                shown = [f"{figure:.2f}" for figure in figures]
                lines.append([name, str(asked.messages), f"{journal_bytes / 1e6:.0f}"])
                lines[-1] += [str(number), *shown]
                print(*lines[-1], flush=True)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    heads = ["published", "messages", "journal MB", "start", "listening s", "CPU s", "RSS MB"]
    print(table(heads, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
