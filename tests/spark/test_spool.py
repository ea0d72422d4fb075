"""The spool on a disk that loses what was not synced, and on one that fails."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from crashing_files import PowerCut
from leveret.spark.errors import SourceError
from leveret.spark.spool.spool import Spool, SpoolError
from spool_disk import DIRECTORY, A, B, C, SpoolDisk, joined, spooled

OPERATIONS = ("create", "write", "sync_data", "rename", "sync_directory")


def test_a_range_has_its_name_when_its_bytes_are_synced_and_counts_when_its_name_is() -> None:
    disk = SpoolDisk()
    spool = joined(disk)
    disk.history.clear()
    spool.write(0, 10, A)
    assert tuple(name for name, _ in disk.history) == OPERATIONS
    [name] = disk.ranges()
    assert name.startswith("00000000000000000000-00000000000000000010-")


def test_a_range_is_the_same_as_often_as_it_is_read_and_in_another_process() -> None:
    disk = spooled()
    spool = joined(disk, 10, "one")
    assert spool.end_behind(10) == 15
    assert spool.read(10, 15) == spool.read(10, 15) == B
    disk.kill()
    assert joined(disk, 0, "one").read(0, 10) == A


def test_a_range_goes_when_its_end_is_passed_and_there_is_a_newer_one() -> None:
    disk = spooled()
    spool = joined(disk, 0, "one")
    spool.passed(9)
    assert len(disk.ranges()) == 2
    spool.passed(10)
    assert [name[21:41] for name in disk.ranges()] == [f"{15:020d}"]
    spool.passed(15)
    assert [name[21:41] for name in disk.ranges()] == [f"{15:020d}"]
    assert spool.end_behind(15) is None
    spool.write(15, 16, C)
    spool.passed(15)
    assert [name[21:41] for name in disk.ranges()] == [f"{16:020d}"]


def test_a_passed_range_that_is_back_after_a_crash_is_removed_again() -> None:
    disk = spooled()
    before = dict(disk.names)
    joined(disk, 15, "one").passed(15)
    disk.kill()
    disk.names = before
    joined(disk, 15, "one").passed(15)
    assert len(disk.ranges()) == 1


def test_a_passed_range_that_somebody_removed_is_passed() -> None:
    disk = spooled()
    spool = joined(disk, 10, "one")
    disk.remove(f"{DIRECTORY}/{min(disk.ranges())}")
    spool.passed(10)
    assert spool.read(10, 15) == B


def write_until_the_power_goes(spool: Spool) -> dict[tuple[int, int], bytes]:
    """The bytes that `write` had returned from by then."""
    written = {}
    with suppress(PowerCut):
        for start, end, content in ((10, 15, B), (15, 16, C)):
            spool.write(start, end, content)
            written[start, end] = content
    return written


@pytest.mark.parametrize("operations", range(1, 2 * len(OPERATIONS) + 1))
def test_what_was_written_is_there_after_any_power_cut_and_what_was_not_is_whole_or_gone(
    operations: int,
) -> None:
    for seed in range(20):
        disk = SpoolDisk()
        spool = joined(disk)
        spool.write(0, 10, A)
        disk.operations_left = operations
        written = {(0, 10): A} | write_until_the_power_goes(spool)
        assert disk.operations_left <= 0
        disk.cut_power(Random(seed))
        again = joined(disk, 0, "one")
        for (start, end), content in written.items():
            assert again.read(start, end) == content
        last = max(end for _, end in written)
        further = again.end_behind(last)
        if further is not None:
            assert again.read(last, further) == {10: B, 15: C}[last]
        assert not [name for name in disk.list_directory(DIRECTORY) if name.endswith(".partial")]


@pytest.mark.parametrize("operations", range(1, 2 + len(OPERATIONS)))
def test_a_spool_that_could_not_be_begun_is_begun_again(operations: int) -> None:
    for seed in range(20):
        disk = SpoolDisk()
        disk.operations_left = operations
        with pytest.raises(PowerCut):
            joined(disk)
        disk.cut_power(Random(seed))
        joined(disk).write(0, 10, A)
        disk.cut_power(Random(seed))
        assert joined(disk, 0, "one").read(0, 10) == A


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_is_said_and_nothing_is_written_any_more(
    operation: str, number: int
) -> None:
    disk = SpoolDisk()
    spool = joined(disk)
    spool.write(0, 10, A)
    disk.failing = {operation: OSError(number, "it is full or broken")}
    with pytest.raises(SourceError, match=r"the spool /spool: it is full or broken$"):
        spool.write(10, 15, B)
    # A sync that is tried again may say yes to bytes that are lost.
    with pytest.raises(SourceError, match="the spool /spool has failed before"):
        spool.write(10, 15, B)
    disk.kill()
    again = joined(disk, 10, "one")
    if again.end_behind(10) is None:
        again.write(10, 15, B)
    assert (again.read(0, 10), again.read(10, 15)) == (A, B)


def test_a_short_write_is_gone_on_with() -> None:
    disk = SpoolDisk()
    spool = joined(disk)
    disk.write_bytes_max = 7
    spool.write(0, 10, A)
    assert spool.read(0, 10) == A


def test_a_torn_file_is_removed_and_named_and_what_is_not_the_spools_is_left_alone() -> None:
    disk = spooled()
    for name in (f"{15:020d}-{16:020d}-00000000.arrow.partial", "mine.partial", "notes.txt"):
        disk.close(disk.create(f"{DIRECTORY}/{name}"))
    disk.kill()
    spool = Spool(DIRECTORY, disk)
    assert spool.open() == [f"{15:020d}-{16:020d}-00000000.arrow.partial"]
    assert {"mine.partial", "notes.txt"} <= set(disk.list_directory(DIRECTORY))


def cut_short(disk: SpoolDisk, path: str) -> None:
    disk.truncate(path, disk.size(path) - 1)


@pytest.mark.parametrize(
    "damage",
    [
        *(lambda disk, path, at=at: disk.flip(path, at) for at in (0, 50, 89)),
        cut_short,
        lambda disk, path: disk.truncate(path, 0),
    ],
)
def test_a_damaged_range_is_an_error_that_names_it_and_deletes_nothing(
    damage: Callable[[SpoolDisk, str], None],
) -> None:
    disk = spooled()
    path = f"{DIRECTORY}/{max(disk.ranges())}"
    damage(disk, path)
    spool = joined(disk, 10, "one")
    with pytest.raises(SpoolError, match=rf"^{path} is damaged.*put back a copy of it, or go on"):
        spool.read(10, 15)
    assert len(disk.ranges()) == 2


def test_a_missing_range_is_an_error_and_not_an_empty_batch() -> None:
    disk = spooled()
    disk.remove(f"{DIRECTORY}/{max(disk.ranges())}")
    spool = joined(disk, 10, "one")
    with pytest.raises(SpoolError, match="from 10 to 15 are not in the spool /spool, and the "):
        spool.read(10, 15)


def test_a_range_of_other_offsets_is_not_given_for_the_one_asked_for() -> None:
    spool = joined(spooled(), 10, "one")
    with pytest.raises(SpoolError, match="from 10 to 14 are not in the spool"):
        spool.read(10, 14)
