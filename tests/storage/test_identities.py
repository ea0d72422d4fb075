"""Identities for dedup windows: with their message or not at all, and longer than it."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from crashing_files import CrashingFiles, PowerCut
from examples import examples
from holding import part
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journals import DIRECTORY, contents, events, opened
from leveret.storage.journal.identity_runs import (
    IDENTITY_BYTES,
    NO_IDENTITY,
    Identities,
    RememberedIdentities,
)
from leveret.storage.journal.journal import Journal
from leveret.storage.journal.recovery import Recovered
from leveret.storage.journal.segment_files import segment_numbers, segment_path
from publishes import batch_of

Kept = list[tuple[int, bytes]]


def identity(entry_id: int) -> bytes:
    return entry_id.to_bytes(IDENTITY_BYTES, "big")


def identities(ids: range, until_ms: int = 0) -> Identities:
    return Identities(b"".join(map(identity, ids)), until_ms)


def publish(journal: Journal, ids: range, queue_id: int = 1, until_ms: int = 0) -> None:
    """A batch of its own for these entries, with an identity each."""
    batch = batch_of([b"%d" % entry_id * 9 for entry_id in ids], ids[0])
    journal.append(queue_id, batch, range(len(ids)), ids, 0, identities(ids, until_ms))


def kept(recovered: Recovered, queue_id: int = 1) -> list[bytes]:
    """All that the queue is to remember, in its order."""
    return [
        bytes(run.identities[at : at + IDENTITY_BYTES])
        for run in recovered.identities.get(queue_id, ())
        for at in range(0, len(run.identities), IDENTITY_BYTES)
    ]


def named(ids: range | list[int]) -> list[bytes]:
    return [identity(entry_id) for entry_id in ids]


def test_identities_outlive_their_messages_and_their_segment() -> None:
    files = CrashingFiles()
    journal, _ = opened(files, segment_bytes_max=3000)
    for first in range(1, 101, 5):
        publish(journal, range(first, first + 5))
        journal.commit()
        journal.settle(1, [(first, first + 4)])
        journal.commit()
        journal.reclaim()
        # The window is of 20.
        journal.forget_identities(1, first - 15)
    assert min(segment_numbers(files, DIRECTORY)) > 1
    for _ in range(3):
        files.kill()
        journal, recovered = opened(files, segment_bytes_max=3000)
        assert contents(recovered) == {}
        found = kept(recovered)
        assert found == sorted(set(found))
        assert found[-20:] == named(range(81, 101))
        # Entry ids go on above those that only identities speak of.
        assert recovered.next_entry_ids[1] == 101


def test_identities_that_windows_have_forgotten_keep_no_segment_and_no_memory() -> None:
    files = CrashingFiles()
    journal, _ = opened(files, segment_bytes_max=1 << 20)
    for first in range(1, 20_001, 50):
        publish(journal, range(first, first + 50))
        journal.commit()
        journal.settle(1, [(first, first + 49)])
        journal.commit()
        journal.forget_identities(1, first)
        journal.reclaim()
    remembered = part(journal, RememberedIdentities)
    # One run, forgotten as a whole: 64 KiB of 16 octets each.
    assert sum(remembered.bytes_in.values()) <= 2 * 64 * 1024 + 50 * 16
    assert len(segment_numbers(files, DIRECTORY)) <= 2


def test_identities_of_a_window_that_is_no_more_do_not_come_back() -> None:
    files = CrashingFiles()
    journal, _ = opened(files, segment_bytes_max=3000)

    def pass_through(first: int, last: int) -> None:
        """Publish and settle until several segments have been begun."""
        for entry_id in range(first, last, 5):
            publish(journal, range(entry_id, entry_id + 5))
            journal.commit()
            journal.settle(1, [(entry_id, entry_id + 4)])
            journal.forget_identities(1, entry_id - 15)
            journal.commit()
            journal.reclaim()

    publish(journal, range(1, 6))
    publish(journal, range(1, 6), queue_id=2)
    journal.commit()
    pass_through(6, 101)
    journal.drop_identities(1, 101)
    journal.commit()
    pass_through(101, 201)
    # The segment of that record has nothing else, when that of the first messages still has.
    for _ in range(3):
        files.kill()
        journal, recovered = opened(files, segment_bytes_max=3000)
        assert not {*named(range(1, 101))}.intersection(kept(recovered))
        assert kept(recovered)[-20:] == named(range(181, 201))
        assert kept(recovered, 2) == named(range(1, 6))
        assert len(contents(recovered)) == 10


def on_disk(files: CrashingFiles) -> int:
    """The octets of all segments."""
    numbers = segment_numbers(files, DIRECTORY)
    return sum(files.size(segment_path(DIRECTORY, number)) for number in numbers)


def test_a_window_larger_than_a_segment_keeps_segments_of_identities_alone() -> None:
    """Their messages' segments go, and nothing is written again and again."""
    files = CrashingFiles()
    journal, _ = opened(files, segment_bytes_max=1 << 16)
    written = 0
    for first in range(1, 40_001, 50):
        publish(journal, range(first, first + 50))
        messages = journal.commit()
        journal.settle(1, [(first, first + 49)])
        commit = journal.begin_commit(reclaim=True)
        assert commit is not None
        written += commit.run().bytes
        commit.discard()
        journal.forget_identities(1, first - 20_000)
    assert messages.bytes > 50 * 100
    # Of 20,000 identities 16 octets each, what is left of segments, and those of the last messages.
    assert on_disk(files) < 20_000 * 16 * 2 + 3 * (1 << 16)
    # With its message, and about once more.
    assert written < 40_000 * 16 * 1.5
    files.kill()
    _, recovered = opened(files, segment_bytes_max=1 << 16)
    assert kept(recovered)[-20_000:] == named(range(20_001, 40_001))


def filled_with_identities(files: CrashingFiles) -> Journal:
    """Those of 40,000 messages, which have been settled, in segments of their own."""
    journal, _ = opened(files, segment_bytes_max=1 << 16)
    for first in range(1, 40_001, 50):
        publish(journal, range(first, first + 50))
        journal.commit()
        journal.settle(1, [(first, first + 49)])
        journal.commit()
        journal.reclaim()
    return journal


def test_a_segment_of_identities_keeps_no_segment_of_messages() -> None:
    """As a segment of messages that stayed would, through the settles that speak of it."""
    files = CrashingFiles()
    filled_with_identities(files)
    assert 40_000 * 16 < on_disk(files) < 40_000 * 16 * 1.2 + 3 * (1 << 16)
    for _ in range(2):
        files.kill()
        _, recovered = opened(files, segment_bytes_max=1 << 16)
        assert kept(recovered) == named(range(1, 40_001))
        assert on_disk(files) < 40_000 * 16 * 1.2 + 3 * (1 << 16)


@pytest.mark.parametrize("is_dropped", [False, True])
def test_segments_of_identities_go_when_these_are_forgotten(is_dropped: bool) -> None:
    files = CrashingFiles()
    journal = filled_with_identities(files)
    assert journal.reclaim() == 0
    before = on_disk(files)
    if is_dropped:
        journal.drop_queue(1)
    else:
        journal.forget_identities(1, 40_001)
    assert journal.reclaim() > 0
    assert on_disk(files) < before / 4


def test_starts_without_traffic_write_the_same_identities_only_while_that_frees_a_segment() -> None:
    files = CrashingFiles()
    journal, _ = opened(files, segment_bytes_max=2000)
    publish(journal, range(1, 101))
    journal.commit()
    journal.settle(1, [(1, 100)])
    journal.close()
    numbers = []
    for _ in range(6):
        journal, recovered = opened(files, segment_bytes_max=2000)
        assert kept(recovered) == named(range(1, 101))
        numbers.append(len(segment_numbers(files, DIRECTORY)))
        journal.close()
    assert max(numbers) <= 3


def test_a_crash_between_writing_them_anew_and_the_removal_doubles_none() -> None:
    files = CrashingFiles()
    for operations in range(1, 12):
        files = CrashingFiles()
        journal, _ = opened(files, segment_bytes_max=1200)
        for first in range(1, 13, 3):
            publish(journal, range(first, first + 3))
            journal.commit()
        journal.settle(1, [(1, 12)])
        journal.commit()
        files.operations_left = operations
        with suppress(PowerCut):
            journal.reclaim()
        for _ in range(2):
            files.cut_power(Random(operations))
            _, recovered = opened(files, segment_bytes_max=1200)
            assert set(events(recovered.report)) <= {"truncated"}
            assert kept(recovered) == named(range(1, 13)), operations


def test_entries_without_an_identity_and_queues_that_are_gone_have_none() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    batch = batch_of([b"a", b"b", b"c"], 1)
    octets = identity(5) + NO_IDENTITY + identity(7)
    journal.append(1, batch, range(3), range(5, 8), 0, Identities(octets, 0))
    journal.append(1, batch, range(3), range(8, 11), 0, Identities(NO_IDENTITY * 3, 0))
    publish(journal, range(1, 4), queue_id=2)
    journal.commit()
    files.kill()
    _, recovered = opened(files, {1})
    assert kept(recovered) == [identity(5), identity(7)]
    assert kept(recovered, 2) == []
    files.kill()
    journal, recovered = opened(files, {1, 2})
    journal.drop_queue(1)
    assert not part(journal, RememberedIdentities).queues.get(1)


def test_deadlines_come_back_with_the_identities() -> None:
    files = CrashingFiles()
    journal, _ = opened(files)
    publish(journal, range(1, 3), until_ms=1000)
    publish(journal, range(3, 5), until_ms=1000)
    publish(journal, range(5, 6), until_ms=2000)
    journal.commit()
    files.kill()
    _, recovered = opened(files)
    runs = recovered.identities[1]
    assert [(run.until_ms, len(run.identities) // 16) for run in runs] == [(1000, 4), (2000, 1)]


# --- Against a model


def identities_found(recovered: Recovered, step: str, certain: range, torn: set[int]) -> set[int]:
    """The entries whose identities a start has found: those that are certain, and maybe others."""
    told = set(events(recovered.report))
    assert told <= ({"truncated"} if step == "kill" else {"truncated", "torn"})
    found = [int.from_bytes(each, "big") for each in kept(recovered)]
    assert found == sorted(set(found))
    if "torn" not in told:
        # Of what was not synced a first part; behind a hole it may be other parts.
        certain = range(certain.start, max([certain.stop, *(each + 1 for each in found)]))
    assert set(certain) - torn <= set(found)
    # With the message or not at all.
    forgotten = range(certain.start)
    assert {entry_id for _, entry_id in contents(recovered)} <= {*found, *forgotten}
    return set(found)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(
        st.sampled_from(
            ("publish", "settle", "commit", "reclaim", "forget", "kill", "power", "cut")
        ),
        max_size=40,
    ),
    random=st.randoms(use_true_random=False),
    segment_bytes_max=st.sampled_from((500, 2000)),
)
def test_an_identity_is_there_with_its_message_and_for_as_long_as_its_window_wants_it(
    steps: list[str], random: Random, segment_bytes_max: int
) -> None:
    files = CrashingFiles()
    journal, _ = opened(files, segment_bytes_max=segment_bytes_max)
    next_id, floor, appended, synced, settled = 1, 0, 0, 0, 0
    # Not synced when the power was cut, while what was written behind them was kept.
    torn: set[int] = set()
    for step in [*steps, "kill"]:
        if step == "publish":
            count = random.randint(1, 4)
            publish(journal, range(next_id, next_id + count))
            next_id += count
            appended = next_id - 1
        elif step == "settle" and appended:
            settled = random.randint(settled, appended)
            journal.settle(1, [(1, settled)])
        elif step == "forget":
            floor = random.randint(floor, next_id)
            journal.forget_identities(1, floor)
        elif step in ("commit", "reclaim", "cut"):
            if step == "cut":
                files.operations_left = random.randint(1, 9)
            with suppress(PowerCut):
                if journal.commit().synced:
                    synced = appended
                if step != "commit":
                    journal.reclaim()
            if step == "cut":
                step = "power"
        if step in ("kill", "power"):
            if step == "kill":
                files.kill()
            else:
                files.cut_power(random)
            journal, recovered = opened(files, segment_bytes_max=segment_bytes_max)
            found = identities_found(recovered, step, range(max(floor, 1), synced + 1), torn)
            assert max(found, default=0) <= appended
            assert recovered.next_entry_ids[1] > max(found, default=0)
            next_id = recovered.next_entry_ids[1]
            appended = synced = next_id - 1
            settled, floor = min(settled, appended), min(floor, next_id)
            torn = set(range(max(floor, 1), next_id)) - found
