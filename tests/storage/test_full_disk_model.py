"""The journal against the model of test_journal_model.py, on a disk that is full now and then.

What a write that meets a full disk adds to what is demanded:
- the appends that the journal gives up are not there after any start, and no others are missing;
- what was settled or delivered is not forgotten: it is written when there is room;
- a journal that has gone back is as good as one that never met a full disk.
"""

from __future__ import annotations

from array import array
from random import Random

import pytest
from examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test
from leveret.amqp_frames.messages.batch import Batch
from leveret.storage.errors import NoSpaceError
from leveret.storage.journal.journal import Commit
from leveret.storage.journal.recovery import Recovered
from model_entry import SYNCED, WRITTEN
from test_journal_model import SETTINGS, JournalAgainstModel

randoms = st.randoms(use_true_random=False)


class FullDiskAgainstModel(JournalAgainstModel):
    def __init__(self) -> None:
        super().__init__()
        # The entries of each append of this run, by queue and first entry.
        self.appends: dict[tuple[int, int], range | array[int]] = {}
        # Is all that was settled or delivered handed to the commit at hand?
        self.is_all_handed = True
        # Then some batch numbers are on no disk.
        self.has_lost = False

    @rule(room=st.integers(0, 400))
    def fill(self, room: int) -> None:
        self.files.capacity_bytes = self.files.used_bytes + room

    @rule()
    def empty(self) -> None:
        self.files.capacity_bytes = None
        self.leave_shortage()

    def leave_shortage(self) -> None:
        # There is room now.
        if self.journal.is_short:
            self.write_held()
            commit = self.journal.begin_commit(reclaim=True)
            if self.run_commit(commit) and commit is not None:
                self.journal.install(commit)
                commit.discard()
            self.journal.end_shortage()

    def write_held(self) -> None:
        self.doubt_deliveries()
        self.journal.write_held()
        self.is_all_handed = True

    # What the machine does, where it meets a full disk.

    @rule(random=randoms, size=st.sampled_from((1, 1, 2, 5)), bytes_max=st.sampled_from((3, 200)))
    def publish(self, random: Random, size: int, bytes_max: int) -> None:
        if not self.journal.is_short:
            super().publish(random, size, bytes_max)

    @rule(random=randoms)
    def publish_again(self, random: Random) -> None:
        if not self.journal.is_short:
            super().publish_again(random)

    def append(self, queue_id: int, batch: Batch, random: Random) -> None:
        before = set(self.queues[queue_id])
        super().append(queue_id, batch, random)
        ids = sorted(set(self.queues[queue_id]) - before)
        self.appends[queue_id, ids[0]] = array("Q", ids)

    @rule()
    def commit(self) -> None:
        self.run_commit(self.journal.begin_commit())

    @rule(held=st.booleans())
    def commit_and_reclaim(self, held: bool = True) -> None:
        self.commit()
        if self.journal.is_short and held:
            self.write_held()
        commit = self.journal.begin_commit(reclaim=True)
        if self.run_commit(commit) and commit is not None:
            self.journal.install(commit)
            commit.discard()

    @rule(random=randoms, reclaim=st.booleans())
    def commit_while_more_comes(self, random: Random, reclaim: bool) -> None:
        commit = self.journal.begin_commit(reclaim)
        if commit is None:
            return
        is_all_handed, must_sync = self.is_all_handed, self.must_sync
        self.must_sync = False
        levels = self.levels()
        self.publish(random, random.choice((1, 5)), 200)
        self.publish_again(random)
        self.settle(random, synced=False, oldest=True)
        self.deliver(random, oldest=True)
        try:
            result = commit.run()
        except NoSpaceError:
            self.roll_back(commit)
            return
        assert result.synced >= must_sync
        if is_all_handed:
            self.reach_only(levels, SYNCED if result.synced else WRITTEN)
        self.journal.install(commit)
        commit.discard()

    @rule()
    def settle_everything(self) -> None:
        self.empty()
        super().settle_everything()

    def open(self) -> Recovered:
        # A start has a reserve.
        self.files.capacity_bytes = None
        self.appends = {}
        self.is_all_handed = True
        self.has_lost = False
        return super().open()

    # What they are made of.

    def doubt_deliveries(self) -> None:
        for entries in self.queues.values():
            for entry in entries.values():
                entry.doubt()

    def run_commit(self, commit: Commit | None) -> bool:
        if commit is None:
            return True
        try:
            result = commit.run()
        except NoSpaceError:
            self.roll_back(commit)
            return False
        self.must_sync = False
        if self.is_all_handed:
            self.reach(SYNCED if result.synced else WRITTEN)
        if result.synced and not self.has_lost:
            self.next_batch_number_synced = self.next_batch_number
        return True

    def roll_back(self, commit: Commit) -> None:
        lost = self.journal.roll_back(commit)
        assert lost <= self.appends.keys()
        for key, ids in self.appends.items():
            queue_id = key[0]
            entries = self.queues.get(queue_id, {})
            for entry_id in ids:
                if entry_id not in entries:
                    continue
                if key in lost:
                    del entries[entry_id]
                else:
                    # It was before this commit, or in a segment that it has filled.
                    entries[entry_id].appended = SYNCED
        self.appends = {key: ids for key, ids in self.appends.items() if key not in lost}
        self.must_sync = False
        self.is_all_handed = False
        self.has_lost = True
        self.doubt_deliveries()

    def levels(self) -> list[tuple[object, bool, int]]:
        """The state of each entry by now: was it settled, how often delivered."""
        return [
            (entry, entry.settled is not None, len(entry.delivered))
            for entries in self.queues.values()
            for entry in entries.values()
        ]

    def reach_only(self, levels: list[tuple[object, bool, int]], level: int) -> None:
        """Mark all steps by then as having got so far."""
        for each, was_settled, deliveries in levels:
            entry: object = each
            entry.appended = max(entry.appended, level)  # type: ignore[attr-defined]
            if was_settled:
                entry.settled = max(entry.settled, level)  # type: ignore[attr-defined]
            entry.delivered = [  # type: ignore[attr-defined]
                max(one, level) if number < deliveries else one
                for number, one in enumerate(entry.delivered)  # type: ignore[attr-defined]
            ]


def test_the_journal_keeps_to_the_model_on_a_disk_that_is_full_now_and_then() -> None:
    run_state_machine_as_test(
        FullDiskAgainstModel, settings=settings(SETTINGS, max_examples=examples(60))
    )


@pytest.mark.soak
def test_the_journal_keeps_to_the_model_through_many_more_full_disks() -> None:
    run_state_machine_as_test(FullDiskAgainstModel, settings=settings(SETTINGS, max_examples=5_000))
