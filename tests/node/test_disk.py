"""A node's reserve on its disk, and when it reports that there is room."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import structlog
from full_files import FullFiles
from leveret.configuration import Configuration
from leveret.disk import ROOM_BYTES_MIN, Disk
from leveret.storage.errors import NoSpaceError
from leveret.storage.reserve import STEPS, Purpose

STEP_BYTES = 8192
LOG = structlog.testing.CapturingLogger()


def disk_in(directory: Path, files: FullFiles, free_bytes_min: int = 0) -> Disk:
    settings = Configuration(
        data_dir=directory,
        disk_reserve_bytes=STEPS * STEP_BYTES,
        disk_free_bytes_min=free_bytes_min,
    )
    return Disk(settings, files, LOG)  # type: ignore[arg-type]


def test_what_the_reserve_has_given_up_is_no_room_for_publishes(tmp_path: Path) -> None:
    disk = disk_in(tmp_path, FullFiles())
    seek = disk.room.seek
    assert seek(1 << 30)
    assert disk.reserve.is_whole
    assert disk.reserve.release_step(Purpose.SETTLES)
    assert not seek(ROOM_BYTES_MIN + STEP_BYTES - 1)
    assert seek(ROOM_BYTES_MIN + STEP_BYTES)
    # Above the limit of the alarm it is the same.
    limited = disk_in(tmp_path, FullFiles(), free_bytes_min=1 << 30)
    assert not limited.room.seek((1 << 30) + STEP_BYTES - 1)
    assert limited.room.seek((1 << 30) + STEP_BYTES)


def test_a_disk_that_is_full_whatever_it_says_has_no_room(tmp_path: Path) -> None:
    files = FullFiles()
    disk = disk_in(tmp_path, files)
    files.room = 0
    assert not disk.room.seek(1 << 40)


def test_a_reserve_that_cannot_be_made_is_logged_once_and_missed_by_nobody(tmp_path: Path) -> None:
    class Disks(FullFiles):
        def allocate(self, path: str, length: int) -> None:
            raise OSError(errno.EFBIG, "File too large", path)

    LOG.calls.clear()
    disk = disk_in(tmp_path, Disks())
    assert disk.room.seek(1 << 40)
    assert disk.room.seek(1 << 40)
    assert [call.args for call in LOG.calls] == [("disk.no_reserve",)]


def test_a_start_has_all_of_the_reserve_and_no_more(tmp_path: Path) -> None:
    files = FullFiles()
    disk = disk_in(tmp_path, files)
    assert disk.room.seek(1 << 30)
    handle = files.create(str(tmp_path / "file"))
    files.room = 0
    with disk.room_to_start():
        assert files.write(handle, 0, [bytes(2 * STEP_BYTES)]) <= 2 * STEP_BYTES
    assert files.make_room is None
    tries: list[int] = []

    def full() -> None:
        tries.append(disk.reserve.size_bytes)
        raise NoSpaceError("catalog.sqlite")

    with pytest.raises(NoSpaceError):
        disk.begin(full)
    assert tries[0] > tries[-1] == 0
    files.close(handle)


def test_what_stops_first_leaves_a_quarter_more_than_the_alarm_wants(tmp_path: Path) -> None:
    files = FullFiles()
    disk = disk_in(tmp_path, files, free_bytes_min=4 << 20)
    files.room = (5 << 20) + 100
    disk.require_room(100)
    with pytest.raises(OSError, match="only 5242980 bytes are free, of which 5242880 are for mes"):
        disk.require_room(101)
    # Also where no limit is set.
    unlimited = disk_in(tmp_path, files)
    files.room = ROOM_BYTES_MIN * 5 // 4
    unlimited.require_room(0)
    with pytest.raises(OSError, match="are for messages"):
        unlimited.require_room(1)
