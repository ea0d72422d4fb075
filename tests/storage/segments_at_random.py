"""Journals in which a broker has done whatever it may do, at random."""

from __future__ import annotations

from array import array
from random import Random

from crashing_files import CrashingFiles
from journals import opened
from leveret.amqp_frames.messages.batch import Batch
from leveret.storage.journal.identity_runs import NO_IDENTITY, Identities
from leveret.storage.journal.journal import Journal
from publishes import batch_of

KNOWN = {1, 2}
SEGMENT_BYTES_MAX = 1_500


class Writer:
    """Does to a journal whatever a broker may do, at random."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.files = CrashingFiles()
        self.journal = self._open()
        self.next_ids = {1: 1, 2: 1, 3: 1}
        self.number = 0
        self.batches: list[Batch] = []

    def _open(self) -> Journal:
        journal, _ = opened(self.files, KNOWN | {3}, SEGMENT_BYTES_MAX)
        return journal

    def ids(self, queue_id: int, count: int) -> range | array[int]:
        first = self.next_ids[queue_id]
        if count > 1 and not self.random.randrange(4):
            self.next_ids[queue_id] = first + 2 * count
            return array("Q", range(first, first + 2 * count, 2))
        self.next_ids[queue_id] = first + count
        return range(first, first + count)

    def step(self) -> None:
        random, journal = self.random, self.journal
        queue_id = random.choice([1, 1, 2, 3])
        last = self.next_ids[queue_id] - 1
        first = random.randint(1, max(1, last))
        ranges = [(first, min(max(1, last), first + random.randrange(6)))]
        what = random.choice(["new"] * 5 + ["old", "settle", "settle", "delivered", "deferred"])
        if what == "new":
            self.number += random.randint(1, 2)
            count = random.randint(1, 5)
            self.batches.append(batch_of([random.randbytes(30) for _ in range(count)], self.number))
            self.append(self.batches[-1], queue_id)
        elif what == "old" and self.batches:
            self.append(random.choice(self.batches[-6:]), queue_id)
        elif what == "settle":
            journal.settle(queue_id, ranges)
        elif what == "delivered":
            journal.delivered(queue_id, ranges)
        elif what == "deferred":
            journal.deferred(queue_id, [(*ranges[0], random.randint(1, 3))])
        if not random.randrange(3):
            journal.commit()
        if not random.randrange(40):
            journal.drop_identities(queue_id, last + 1)
        if not random.randrange(25):
            journal.reclaim()
        if not random.randrange(60):
            journal.close()
            self.journal = self._open()

    def append(self, batch: Batch, queue_id: int) -> None:
        random = self.random
        count = len(batch.starts)
        ids = self.ids(queue_id, count)
        deadlines = random.choice([0, 0, 7, array("Q", random.choices([0, 7, 8], k=count))])
        due_times = random.choice([0, 0, 5, array("Q", random.choices([0, 5, 6], k=count))])
        identities = None
        if queue_id == 2:
            octets = b"".join(random.choice([NO_IDENTITY, random.randbytes(16)]) for _ in ids)
            identities = Identities(octets, random.randint(0, 1))
        self.journal.append(queue_id, batch, range(count), ids, deadlines, identities, due_times)


def written_at_random(random: Random) -> CrashingFiles:
    writer = Writer(random)
    for _ in range(random.randint(20, 150)):
        writer.step()
    writer.journal.commit()
    if random.randrange(2):
        writer.journal.close()
    writer.files.kill()
    return writer.files
