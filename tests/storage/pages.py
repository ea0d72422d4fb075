"""Several queues with messages in a journal, and a plain account of what each of them holds."""

from __future__ import annotations

from array import array
from random import Random

from crashing_files import CrashingFiles
from leveret.storage.journal.journal import Journal
from leveret.storage.journal.ledger import EntryRange
from leveret.storage.journal.opening import open_journal
from leveret.storage.journal.reading import JournalReader, PageRead, ReadRow
from leveret.storage.journal.report import ReportLine
from publishes import batch_of, kept, some_of, with_arrivals

DIRECTORY = "/journal"
QUEUES = (1, 2, 3)
Messages = dict[int, bytes]


def messages_of(rows: list[ReadRow]) -> Messages:
    """By entry id; the rows must ascend and not overlap."""
    held: Messages = {}
    last = 0
    for row in rows:
        assert last < row.first_entry_id
        for position, index in enumerate(row.indexes):
            held[row.first_entry_id + position] = kept(row.batch, index)
        last = row.first_entry_id + len(row.indexes) - 1
    return held


def ids_in(ranges: list[EntryRange]) -> list[int]:
    return [entry_id for first, last in ranges for entry_id in range(first, last + 1)]


class Paged:
    """A journal that random commits have gone through."""

    def __init__(self, random: Random, segment_bytes_max: int = 4000) -> None:
        self.random = random
        self.files = CrashingFiles()
        self.journal: Journal
        self.held: dict[int, Messages] = {queue_id: {} for queue_id in QUEUES}
        self.next_ids = dict.fromkeys(QUEUES, 1)
        self.next_number = 1
        self._segment_bytes_max = segment_bytes_max
        self.open()

    def open(self) -> None:
        self.files.kill()
        self.journal, _ = open_journal(
            DIRECTORY, self.files, set(QUEUES), segment_bytes_max=self._segment_bytes_max
        )
        self.reader = self.journal.reader("queue {}".format)

    def append(self) -> None:
        """A batch for one queue or several, at once or with other commits between."""
        random = self.random
        size = random.choice((1, 1, 3, 10))
        bodies = [random.randbytes(random.choice((0, 5, 50, 400))) for _ in range(size)]
        batch = with_arrivals(batch_of(bodies, self.next_number), random)
        if random.random() < 0.2:
            batch.durable = some_of(random, range(size))
        self.next_number += 1
        durable = range(size) if batch.durable is None else batch.durable
        for queue_id in random.sample(QUEUES, random.choice((1, 1, 2, 3))):
            indexes = some_of(random, durable)
            first = self.next_ids[queue_id] + random.choice((0, 0, 0, 2))
            ids = range(first, first + len(indexes))
            if random.random() < 0.1:
                ids = array("Q", [first + 2 * place for place in range(len(indexes))])
            self.journal.append(queue_id, batch, indexes, ids)
            for entry_id, index in zip(ids, indexes, strict=True):
                self.held[queue_id][entry_id] = kept(batch, index)
            self.next_ids[queue_id] = ids[-1] + 1
            if random.random() < 0.3:
                self.journal.commit()

    def settle(self) -> None:
        random = self.random
        queue_id = random.choice(QUEUES)
        ids = list(self.held[queue_id])
        if not ids:
            return
        first = random.choice((ids[0], random.choice(ids)))
        last = first + random.choice((0, 1, 20))
        self.journal.settle(queue_id, [(first, last)])
        self.held[queue_id] = {
            each: wire for each, wire in self.held[queue_id].items() if not first <= each <= last
        }

    def steps(self, count: int) -> None:
        """So many random steps, and all of it on the disk."""
        for _ in range(count):
            step = self.random.random()
            if step < 0.6:
                self.append()
            elif step < 0.9:
                self.settle()
            elif step < 0.98:
                self.journal.reclaim()
            else:
                self.journal.commit()
                self.open()
        self.journal.commit()

    def read(
        self, queue_id: int, ranges: list[EntryRange], bytes_max: int = 1 << 20, joins: bool = True
    ) -> tuple[Messages, list[int], list[ReportLine]]:
        """Read page by page up to the end: messages, lost ids, and what was reported."""
        held: Messages = {}
        lost: list[int] = []
        report: list[ReportLine] = []
        while ranges:
            page = read_page(self.journal, self.reader, queue_id, ranges, bytes_max, joins)
            held |= messages_of(page.rows)
            lost += ids_in(page.lost)
            report += page.report
            assert page.through >= ranges[0][0]
            assert max([*held, *lost], default=0) <= page.through
            ranges = [
                (max(first, page.through + 1), last)
                for first, last in ranges
                if last > page.through
            ]
        return held, lost, report


def read_page(
    journal: Journal,
    reader: JournalReader,
    queue_id: int,
    ranges: list[EntryRange],
    bytes_max: int,
    joins: bool = True,
) -> PageRead:
    plan = journal.locate(queue_id, ranges, bytes_max)
    page = reader.read(plan, joins)
    assert journal.release(plan) == []
    return page
