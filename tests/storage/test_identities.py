"""Identities for dedup windows: with their message or not at all, and longer than it."""

from __future__ import annotations

from array import array
from contextlib import suppress
from random import Random

import pytest
from crashing_files import CrashingFiles, PowerCut
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journals import DIRECTORY, contents, events, opened
from leveret.storage.entries_record import EntriesRecord, encode_entries
from leveret.storage.identities_record import identities_bytes, in_records
from leveret.storage.identity_runs import IDENTITY_BYTES, NO_IDENTITY, Identities, IdentityRun
from leveret.storage.journal import Journal
from leveret.storage.records import HEAD, decode_record, encode_identities
from leveret.storage.recovery import Recovered
from leveret.storage.segment_files import segment_numbers
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


# --- The records


@given(count=st.integers(1, 5), until_ms=st.integers(0, 2**64 - 1), deadline=st.booleans())
def test_identities_of_an_entries_record_come_back(
    count: int, until_ms: int, deadline: bool
) -> None:
    some = Identities(bytes(range(IDENTITY_BYTES)) * count, until_ms)
    ids, deadlines = range(7, 7 + count), array("Q", [3] * count) if deadline else 0
    record = encode_entries(1, 2, range(count), ids, 9, deadlines, some)
    decoded = decode_record(record, HEAD.size, len(record))
    assert isinstance(decoded, EntriesRecord)
    assert decoded.identities == some
    assert list(decoded.entry_ids) == list(ids)


@given(
    sizes=st.lists(st.integers(1, 9000), min_size=1, max_size=20),
    queue_id=st.integers(0, 2**64 - 1),
)
def test_runs_come_back_in_records_of_a_bounded_size(sizes: list[int], queue_id: int) -> None:
    runs = [
        IdentityRun(3, at, at + size, at * 5, bytearray(Random(at).randbytes(16 * size)))
        for at, size in enumerate(sizes)
    ]
    found: list[IdentityRun] = []
    for together in in_records(runs):
        record = encode_identities(queue_id, together, 9)
        assert len(record) == identities_bytes(together) < 256 * 1024 + 9000 * 16 + 1000
        decoded = decode_record(record, HEAD.size, len(record))
        assert decoded.queue_id == queue_id  # type: ignore[union-attr]
        found += decoded.runs  # type: ignore[union-attr]
    fields = ("first_entry_id", "last_entry_id", "until_ms", "identities")
    assert [[getattr(run, name) for name in fields] for run in found] == [
        [getattr(run, name) for name in fields] for run in runs
    ]


def test_a_record_that_ends_early_is_refused() -> None:
    record = encode_identities(1, [IdentityRun(1, 1, 2, 0, bytearray(32))], 9)
    for end in range(HEAD.size + 1, len(record)):
        with pytest.raises(ValueError):
            decode_record(record[:end], HEAD.size, end)


# --- In a journal


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


def test_what_windows_have_forgotten_keeps_no_segment_and_no_memory() -> None:
    files = CrashingFiles()
    journal, _ = opened(files, segment_bytes_max=1 << 20)
    for first in range(1, 20_001, 50):
        publish(journal, range(first, first + 50))
        journal.commit()
        journal.settle(1, [(first, first + 49)])
        journal.commit()
        journal.forget_identities(1, first)
        journal.reclaim()
    remembered = journal._ledger.remembered
    # One run, forgotten as a whole: 64 KiB of 16 octets each.
    assert sum(remembered.bytes_in.values()) <= 2 * 64 * 1024 + 50 * 16
    assert len(segment_numbers(files, DIRECTORY)) <= 2


def test_a_segment_of_which_much_is_identities_waits_until_its_window_has_forgotten_them() -> None:
    """So a window that is larger than a segment is not written again and again."""
    files = CrashingFiles()
    journal, _ = opened(files, segment_bytes_max=2000)
    written = 0
    for first in range(1, 2001, 5):
        publish(journal, range(first, first + 5))
        written += journal.commit().bytes
        journal.settle(1, [(first, first + 4)])
        journal.commit()
        journal.reclaim()
        journal.forget_identities(1, first - 1000)
    # Of 1,000 to 1,200 identities 16 octets each; segments stay of which that is a quarter.
    assert len(segment_numbers(files, DIRECTORY)) * 2000 < 1200 * 16 * 5
    assert sum(1 for name, _ in files.history if name == "remove") > 100
    files.kill()
    _, recovered = opened(files, segment_bytes_max=2000)
    assert kept(recovered)[-1000:] == named(range(1001, 2001))


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
    assert not journal._ledger.remembered.queues.get(1)


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


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
            assert set(events(recovered.report)) <= {"truncated"}
            found = [int.from_bytes(each, "big") for each in kept(recovered)]
            assert found == sorted(set(found))
            # All that was synced and is not forgotten, and of what was not synced a first part.
            highest = max([synced, *found])
            assert set(range(max(floor, 1), highest + 1)) <= set(found)
            assert highest <= appended
            # With the message or not at all.
            assert {entry_id for _, entry_id in contents(recovered)} <= {
                *found,
                *range(floor),
            }
            assert recovered.next_entry_ids[1] > max(found, default=0)
            next_id = recovered.next_entry_ids[1]
            appended = synced = next_id - 1
            settled, floor = min(settled, appended), min(floor, next_id)
