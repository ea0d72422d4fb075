"""The reserve on the disk: who gets of it, what is left to whom, and when it grows."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from leveret.storage.files import OperatingSystemFiles
from leveret.storage.reserve import STEPS, Purpose, Reserve

STEP_BYTES = 64 * 1024
BYTES_MAX = STEPS * STEP_BYTES


class Disk(OperatingSystemFiles):
    """Has so much room beside the reserve, and fails when it is told to."""

    def __init__(self, free: int = 10 * BYTES_MAX) -> None:
        super().__init__()
        self.room = free
        self.failing: OSError | None = None

    def allocate(self, path: str, length: int) -> None:
        more = length - (os.path.getsize(path) if os.path.exists(path) else 0)
        super().allocate(path, length)
        if self.failing is not None:
            raise self.failing
        self.room -= more


@pytest.fixture
def disk() -> Disk:
    return Disk()


def allocated_bytes(directory: Path) -> int:
    return (directory / "reserve").stat().st_blocks * 512


def test_the_reserve_takes_up_room_and_releases_it_step_by_step(disk: Disk, tmp_path: Path) -> None:
    reserve = Reserve(disk, str(tmp_path), BYTES_MAX)
    assert not reserve.is_whole
    reserve.refill(disk.room, 0)
    assert reserve.is_whole
    assert allocated_bytes(tmp_path) >= BYTES_MAX
    assert reserve.release_step(Purpose.START)
    assert not reserve.is_whole
    assert allocated_bytes(tmp_path) <= BYTES_MAX - STEP_BYTES + 4096
    # Another process takes over what this one has left.
    again = Reserve(disk, str(tmp_path), BYTES_MAX)
    assert again.size_bytes == BYTES_MAX - STEP_BYTES
    again.refill(disk.room, 0)
    assert again.is_whole


def test_each_purpose_leaves_its_part_to_those_that_matter_more(disk: Disk, tmp_path: Path) -> None:
    reserve = Reserve(disk, str(tmp_path), BYTES_MAX)
    reserve.refill(disk.room, 0)
    given = []
    for purpose in (Purpose.CATALOG, Purpose.SETTLES, Purpose.REMOVAL, Purpose.START):
        count = 0
        while reserve.release_step(purpose):
            count += 1
        given.append(count)
    assert given == [2, 3, 1, 2]
    assert reserve.size_bytes == 0


@pytest.mark.parametrize(
    ("free_steps", "steps"), [(0, 0), (11, 0), (12, 1), (13, 2), (18, 7), (19, 8), (40, 8)]
)
def test_the_reserve_grows_only_into_room_above_the_alarm_s_limit(
    free_steps: int, steps: int, tmp_path: Path
) -> None:
    disk = Disk(free_steps * STEP_BYTES)
    reserve = Reserve(disk, str(tmp_path), BYTES_MAX)
    assert reserve.refill(disk.room, 10 * STEP_BYTES)
    assert reserve.size_bytes == steps * STEP_BYTES
    assert reserve.is_whole == (steps == STEPS)
    # So it is no cause for an alarm.
    assert disk.room >= min(10, free_steps) * STEP_BYTES


def test_a_disk_that_is_full_in_the_middle_of_its_growth_leaves_it_as_it_was(
    disk: Disk, tmp_path: Path
) -> None:
    reserve = Reserve(disk, str(tmp_path), BYTES_MAX)
    disk.failing = OSError(errno.ENOSPC, "No space left on device")
    assert not reserve.refill(disk.room, 0)
    assert reserve.size_bytes == 0 == (tmp_path / "reserve").stat().st_size
    disk.failing = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output error"):
        reserve.refill(disk.room, 0)
    assert reserve.size_bytes == 0


def test_a_lower_setting_gives_back_what_is_too_much_and_none_all(
    disk: Disk, tmp_path: Path
) -> None:
    Reserve(disk, str(tmp_path), BYTES_MAX).refill(disk.room, 0)
    lower = Reserve(disk, str(tmp_path), BYTES_MAX // 2)
    lower.refill(disk.room, 0)
    assert lower.is_whole
    assert (tmp_path / "reserve").stat().st_size == BYTES_MAX // 2
    none = Reserve(disk, str(tmp_path), 0)
    none.refill(disk.room, 0)
    assert none.is_whole
    assert not none.release_step(Purpose.START)
    assert (tmp_path / "reserve").stat().st_size == 0
