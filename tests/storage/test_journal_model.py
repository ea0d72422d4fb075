"""The journal against a model, through kills and power cuts at any moment.

What the model demands of every start, and of the start after that:
- an entry whose append was synced, and that nobody settled, is there, its bytes and its deadline
  unaltered;
- an entry whose settle or queue's end was synced is not there;
- what was not synced may have happened or not; a kill, unlike a power cut, loses nothing written;
- attempts lie between those synced and those asked for;
- an entry is due when the last synced record has it, or a later one;
- nothing else is there, ids ascend, and numbers to come lie above all that were used;
- a window remembers what was synced, and never an identity whose message is lost;
- a crash alone is never reported as damage.
Hypothesis prints the steps, and a blob to replay them, of any run that fails.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from compactions import compacted_in_pieces
from crashing_files import CrashingFiles, PowerCut
from examples import examples
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from leveret.amqp_frames.messages.batch import Batch
from leveret.storage.journal.journal import CompactionRules, Journal
from leveret.storage.journal.opening import open_journal
from leveret.storage.journal.recovery import Recovered
from leveret.storage.journal.segment_files import segment_numbers, segment_path
from model_entry import BUFFERED, SYNCED, WRITTEN, Entry, Found, check_queue
from model_windows import Windows, identities_of
from publishes import batch_of, kept, some_of

DIRECTORY = "/journal"
randoms = st.randoms(use_true_random=False)
small = st.integers(0, 40)


class JournalAgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.files = CrashingFiles()
        self.queues: dict[int, dict[int, Entry]] = {1: {}, 2: {}, 3: {}}
        self.next_queue_id = 4
        self.next_ids: dict[int, int] = {1: 1, 2: 1, 3: 1}
        self.batches: list[Batch] = []
        self.segment_bytes_max = 0
        self.next_batch_number_synced = 1
        self.must_sync = False
        self.windows = Windows()
        self.journal: Journal

    @initialize(
        segment_bytes_max=st.sampled_from((700, 700, 3000)),
        live_share_max=st.sampled_from((0.3, 0.7, 1.0)),
    )
    def first_start(self, segment_bytes_max: int, live_share_max: float) -> None:
        self.segment_bytes_max = segment_bytes_max
        # Headers are a large part of segments that are so small.
        self.compaction = CompactionRules(live_share_max, 0, 4.0)
        self.open()

    # Steps.

    @rule(random=randoms, size=st.sampled_from((1, 1, 2, 5)), bytes_max=st.sampled_from((3, 200)))
    def publish(self, random: Random, size: int, bytes_max: int) -> None:
        """A new batch, to a few queues."""
        bodies = [random.randbytes(random.randrange(bytes_max)) for _ in range(size)]
        batch = batch_of(bodies, self.next_batch_number)
        self.next_batch_number += 1
        if random.random() < 0.5:
            batch.durable = some_of(random, range(size))
        for queue_id in random.sample(sorted(self.queues), random.randint(1, 2)):
            self.append(queue_id, batch, random)
        self.batches = [*self.batches[-10:], batch]

    @rule(random=randoms)
    def publish_again(self, random: Random) -> None:
        """An old batch, maybe read back, maybe settled long ago, to another queue."""
        if self.batches:
            self.append(random.choice(sorted(self.queues)), random.choice(self.batches), random)

    def append(self, queue_id: int, batch: Batch, random: Random) -> None:
        stored = range(len(batch)) if batch.durable is None else batch.durable
        indexes = stored if random.random() < 0.5 else some_of(random, stored)
        first = self.next_ids[queue_id] + random.choice((0, 0, 0, 3))
        count = len(indexes)
        ids: range | array[int] = range(first, first + count)
        if random.random() < 0.3:
            ids = array("Q", sorted(random.sample(range(first, first + 2 * count), count)))
        self.next_ids[queue_id] = ids[-1] + 1
        expiring = random.choice((0, random.randrange(1, 2**48), None))
        each = array("Q", [random.choice((0, 5, 2**48)) for _ in ids])
        deadlines = each if expiring is None else expiring
        # Only some queues have a window.
        identities = identities_of(ids) if queue_id % 2 else None
        due_ms = random.choice((0, 0, 7))
        later = array("Q", [random.choice((0, 8, 2**50)) for _ in ids])
        due_times = later if random.random() < 0.2 else due_ms
        self.journal.append(queue_id, batch, indexes, ids, deadlines, identities, due_times)
        self.must_sync = True
        for position, (index, entry_id) in enumerate(zip(indexes, ids, strict=True)):
            deadline = each[position] if expiring is None else expiring
            entry = self.queues[queue_id][entry_id] = Entry(kept(batch, index), deadline)
            entry.due_times = [
                (due_times if isinstance(due_times, int) else due_times[position], BUFFERED)
            ]
        if identities is not None:
            self.windows.remember(queue_id, {key: self.queues[queue_id][key] for key in ids})

    @rule(random=randoms, synced=st.sampled_from((False, False, True)), oldest=st.booleans())
    def settle(self, random: Random, synced: bool, oldest: bool) -> None:
        queue_id = random.choice(sorted(self.queues))
        ranges = self.some_ranges(queue_id, random, oldest)
        self.journal.settle(queue_id, ranges, synced)
        self.mark_settled(queue_id, ranges)
        self.must_sync |= synced

    @rule(random=randoms)
    def purge(self, random: Random) -> None:
        """All of a queue up to some entry, and nothing may bring it back."""
        queue_id = random.choice(sorted(self.queues))
        ranges = [(0, random.randrange(self.next_ids[queue_id]))]
        self.journal.settle(queue_id, ranges, sync=True)
        self.mark_settled(queue_id, ranges)
        self.must_sync = True

    @rule(random=randoms, oldest=st.booleans())
    def deliver(self, random: Random, oldest: bool) -> None:
        queue_id = random.choice(sorted(self.queues))
        ranges = self.some_ranges(queue_id, random, oldest)
        self.journal.delivered(queue_id, ranges)
        for entry_id, entry in self.queues[queue_id].items():
            for first, last in ranges:
                if entry.settled is None and first <= entry_id <= last:
                    entry.delivered.append(BUFFERED)
                    entry.due_times.append((0, BUFFERED))

    @rule(random=randoms, oldest=st.booleans())
    def defer(self, random: Random, oldest: bool) -> None:
        queue_id = random.choice(sorted(self.queues))
        ranges = [
            (*each, random.randrange(9, 99)) for each in self.some_ranges(queue_id, random, oldest)
        ]
        self.journal.deferred(queue_id, ranges)
        for entry_id, entry in self.queues[queue_id].items():
            for first, last, due_ms in ranges:
                if entry.settled is None and first <= entry_id <= last:
                    entry.due_times.append((due_ms, BUFFERED))

    @rule(random=randoms)
    def drop_queue(self, random: Random) -> None:
        """A queue goes from the catalog, then from the journal; a new one comes."""
        queue_id = random.choice(sorted(self.queues))
        del self.queues[queue_id]
        self.journal.drop_queue(queue_id)
        self.queues[self.next_queue_id] = {}
        self.next_ids[self.next_queue_id] = 1
        self.next_queue_id += 1

    @rule()
    def commit(self) -> None:
        result = self.journal.commit()
        assert result.synced == self.must_sync
        self.must_sync = False
        self.reach(SYNCED if result.synced else WRITTEN)
        if result.synced:
            self.next_batch_number_synced = self.next_batch_number

    @rule(random=randoms, reclaim=st.booleans())
    def commit_while_more_comes(self, random: Random, reclaim: bool) -> None:
        """As the disk's thread does: what is handed over meanwhile goes with the next commit."""
        commit = self.journal.begin_commit(reclaim)
        if commit is None:
            assert not self.must_sync
            return
        self.reach(SYNCED if self.must_sync else WRITTEN)
        next_batch_number, must_sync = self.next_batch_number, self.must_sync
        self.must_sync = False
        self.publish(random, random.choice((1, 5)), 200)
        self.publish_again(random)
        self.settle(random, synced=False, oldest=True)
        self.deliver(random, oldest=True)
        self.defer(random, oldest=True)
        result = commit.run()
        assert result.synced >= must_sync
        self.journal.install(commit)
        if result.synced:
            self.next_batch_number_synced = next_batch_number
        if random.random() < 0.5:
            self.commit()
        commit.discard()

    @rule()
    def commit_and_reclaim(self) -> None:
        self.commit()
        self.journal.reclaim()

    @rule()
    def kill(self) -> None:
        self.files.kill()
        self.recover(WRITTEN)

    @rule(random=randoms)
    def cut_power(self, random: Random) -> None:
        self.files.cut_power(random)
        self.recover(SYNCED)

    @rule(random=randoms, operations=st.integers(1, 12), again=st.integers(0, 8))
    def cut_power_at_work(self, random: Random, operations: int, again: int) -> None:
        """The power goes during a commit or a reclaim, and maybe during the start after it."""
        self.files.operations_left = operations
        with suppress(PowerCut):
            self.commit_and_reclaim()
        self.files.cut_power(random)
        if again:
            self.files.capacity_bytes = None
            self.files.operations_left = again
            with suppress(PowerCut):
                open_journal(DIRECTORY, self.files, self.queues.keys(), self.segment_bytes_max)
            self.files.cut_power(random)
        self.recover(SYNCED)

    @rule(random=randoms, batches=st.integers(1, 4), bytes_max=st.sampled_from((3, 100)))
    def cut_power_before_the_sync(self, random: Random, batches: int, bytes_max: int) -> None:
        """All was written: any of its pages may be there."""
        for _ in range(batches):
            self.publish(random, random.choice((1, 3)), bytes_max)
            if random.random() < 0.5:
                self.settle(random, synced=False, oldest=True)
        self.files.operations_left = 2
        with suppress(PowerCut):
            self.commit()
        self.files.cut_power(random)
        self.recover(SYNCED)

    @rule(random=randoms)
    def forget_identities(self, random: Random) -> None:
        """A window forgets its oldest."""
        queue_id = random.choice(sorted(self.queues))
        self.forget(queue_id, random.randrange(self.next_ids[queue_id] + 1))

    def forget(self, queue_id: int, below: int) -> None:
        self.journal.forget_identities(queue_id, below)
        self.windows.forget(queue_id, below)

    @rule()
    def settle_everything(self) -> None:
        """Then nothing needs a segment, but the open one."""
        for queue_id, next_id in self.next_ids.items():
            if queue_id in self.queues:
                self.journal.settle(queue_id, [(1, next_id)])
                self.mark_settled(queue_id, [(1, next_id)])
                self.forget(queue_id, next_id)
        self.commit_and_reclaim()
        # A replacement may have taken its segment's place only now, and its record a new segment.
        self.journal.reclaim()
        self.journal.reclaim()
        assert len(segment_numbers(self.files, DIRECTORY)) == 1

    @invariant()
    def segments_are_no_larger_than_they_may(self) -> None:
        for number in segment_numbers(self.files, DIRECTORY):
            path = segment_path(DIRECTORY, number)
            # A record alone in its segment may be larger: here, one batch with its entries.
            assert self.files.size(path) <= self.segment_bytes_max + 2000, path

    @rule(random=randoms, is_ended=st.booleans())
    def compact(self, random: Random, is_ended: bool) -> None:
        """A segment is rewritten while all else goes on; the next reclaim installs it."""
        self.compact_among(random, [self.publish, self.settle, self.deliver, self.defer])
        if is_ended:
            self.commit_and_reclaim()

    @rule(random=randoms, operations=st.integers(1, 25))
    def cut_power_while_compacting(self, random: Random, operations: int) -> None:
        """The power goes at any operation of the rewriting, or when it takes its place."""
        self.files.operations_left = operations
        with suppress(PowerCut):
            self.compact_among(random, [])
            self.commit_and_reclaim()
        self.files.cut_power(random)
        self.recover(SYNCED)

    def compact_among(self, random: Random, others: list[Callable[..., None]]) -> None:
        for piece in compacted_in_pieces(self.journal):
            del piece
            if others and random.random() < 0.3:
                other = random.choice(others)
                if other == self.publish:
                    self.publish(random, 2, 200)
                elif other == self.settle:
                    self.settle(random, synced=False, oldest=random.random() < 0.5)
                else:
                    other(random, oldest=random.random() < 0.5)
            if others and random.random() < 0.1:
                self.commit_and_reclaim()

    # What they are made of.

    def some_ranges(self, queue_id: int, random: Random, oldest: bool) -> list[tuple[int, int]]:
        next_id = self.next_ids[queue_id]
        live = [key for key, entry in self.queues[queue_id].items() if entry.settled is None]
        if oldest and live:
            return [(live[0], live[0] + random.randrange(6))]
        ranges = []
        position = random.randrange(next_id)
        for _ in range(random.randint(1, 3)):
            last = position + random.randrange(4)
            ranges.append((position, last))
            position = last + 1 + random.randrange(4)
        return ranges

    def mark_settled(self, queue_id: int, ranges: list[tuple[int, int]]) -> None:
        for entry_id, entry in self.queues[queue_id].items():
            if entry.settled is None and any(first <= entry_id <= last for first, last in ranges):
                entry.settled = BUFFERED

    def reach(self, level: int) -> None:
        """All that was handed over has got so far."""
        for entries in self.queues.values():
            for entry in entries.values():
                entry.reach(level)

    def open(self) -> Recovered:
        self.journal, recovered = open_journal(
            DIRECTORY,
            self.files,
            self.queues.keys(),
            self.segment_bytes_max,
            compaction=self.compaction,
        )
        self.next_batch_number = recovered.next_batch_number
        self.must_sync = False
        return recovered

    def recover(self, certain: int) -> None:
        """Start, check against the model, start again, find the same; go on from there."""
        recovered = self.open()
        events = {line.event for line in recovered.report}
        assert events <= {"truncated", "torn", "dropped"}, recovered.report
        found = self.check(recovered, certain)
        self.files.kill()
        again = self.open()
        assert {line.event for line in again.report} <= {"dropped"}, again.report
        assert self.check(again, certain) == found
        self.batches = [run.batch for _, run in again.messages_of(set(again.queues))][-10:]
        for queue_id, entries in found.items():
            next_id = again.next_entry_ids[queue_id]
            assert next_id > max(entries, default=0)
            self.next_ids[queue_id] = next_id
            due_times = due_times_in(again, queue_id)
            live = self.queues[queue_id] = {
                entry_id: Entry(
                    *(wire, deadline, SYNCED, None, [SYNCED] * attempts),
                    due_times=[(due_times[entry_id], SYNCED)],
                )
                for entry_id, (wire, attempts, deadline) in entries.items()
            }
            self.windows.restart(queue_id, again, live)

    def check(self, recovered: Recovered, certain: int) -> dict[int, dict[int, Found]]:
        assert recovered.next_batch_number >= self.next_batch_number_synced
        found: dict[int, dict[int, Found]] = {queue_id: {} for queue_id in self.queues}
        for queue_id in recovered.queues:
            for run in recovered.messages(queue_id):
                assert run.batch.number < recovered.next_batch_number
                for position, index in enumerate(run.indexes):
                    entry_id = run.first_entry_id + position
                    assert entry_id > max(found[queue_id], default=0)
                    several = run.deadlines
                    deadline = several if isinstance(several, int) else several[position]
                    found[queue_id][entry_id] = kept(run.batch, index), run.attempts, deadline
        for queue_id, entries in self.queues.items():
            check_queue(entries, found[queue_id], certain)
            for entry_id, due_ms in due_times_in(recovered, queue_id).items():
                assert due_ms in entries[entry_id].may_be_due(certain)
            self.windows.check(queue_id, recovered, set(found[queue_id]), certain)
        return found


def due_times_in(recovered: Recovered, queue_id: int) -> dict[int, int]:
    """Until when a start finds the entries of a queue deferred, by their ids."""
    return {
        run.first_entry_id + position: run.due_times
        if isinstance(run.due_times, int)
        else run.due_times[position]
        for run in recovered.messages(queue_id)
        for position in range(len(run.indexes))
    }


SETTINGS = settings(
    max_examples=examples(100),
    stateful_step_count=40,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_the_journal_keeps_to_the_model_through_crashes() -> None:
    run_state_machine_as_test(JournalAgainstModel, settings=SETTINGS)


@pytest.mark.soak
def test_the_journal_keeps_to_the_model_through_many_more_crashes() -> None:
    run_state_machine_as_test(JournalAgainstModel, settings=settings(SETTINGS, max_examples=5_000))
