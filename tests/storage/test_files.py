"""The real disk: what `OperatingSystemFiles` does, and the journal on it, seen by strace."""

from __future__ import annotations

import errno
import os
import pickle
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from leveret.storage import files as descriptors
from leveret.storage.files import (
    VECTORS_MAX,
    Buffer,
    FileLockedError,
    OperatingSystemFiles,
    write_all,
)
from leveret.storage.journal.opening import open_journal
from publishes import batch_of, message


@pytest.fixture
def files() -> OperatingSystemFiles:
    return OperatingSystemFiles()


def test_bytes_are_written_where_they_belong_and_read_back(
    files: OperatingSystemFiles, tmp_path: Path
) -> None:
    path = str(tmp_path / "file")
    handle = files.create(path)
    assert files.write(handle, 0, [b"abc", memoryview(b"defg")]) == 7
    assert files.write(handle, 2, [b"XY"]) == 2
    files.sync_data(handle)
    files.close(handle)
    assert files.size(path) == 7
    assert files.read(path, 1, 100) == b"bXYefg"
    assert files.read(path, 7, 1) == b""
    files.truncate(path, 3)
    assert (tmp_path / "file").read_bytes() == b"abX"
    with pytest.raises(FileExistsError):
        files.create(path)


def test_names_are_made_listed_renamed_and_removed(
    files: OperatingSystemFiles, tmp_path: Path
) -> None:
    directory = str(tmp_path / "a" / "b")
    files.make_directory(directory)
    files.make_directory(directory)
    for name in "xy":
        files.close(files.create(f"{directory}/{name}"))
    files.rename(f"{directory}/x", f"{directory}/y")
    files.sync_directory(directory)
    assert files.list_directory(directory) == ["y"]
    files.remove(f"{directory}/y")
    assert files.list_directory(directory) == []


def test_a_lock_is_one_holder_s_until_it_is_closed(
    files: OperatingSystemFiles, tmp_path: Path
) -> None:
    path = str(tmp_path / "lock")
    handle = files.lock(path)
    with pytest.raises(FileLockedError):
        files.lock(path)
    files.close(handle)
    files.close(files.lock(path))


@pytest.mark.parametrize("count", [1, VECTORS_MAX, VECTORS_MAX + 1, 3 * VECTORS_MAX + 5])
def test_any_number_of_buffers_is_written_in_order(
    files: OperatingSystemFiles, tmp_path: Path, count: int
) -> None:
    buffers: list[Buffer] = [b"%d;" % number for number in range(count)]
    whole = b"".join(buffers)
    path = str(tmp_path / "file")
    handle = files.create(path)
    assert write_all(files, handle, 0, buffers) == len(whole)
    files.close(handle)
    assert files.read(path, 0, len(whole) + 1) == whole


def test_writes_that_stop_short_go_on_where_they_stopped(tmp_path: Path) -> None:
    class FewBytes(OperatingSystemFiles):
        def write(self, handle: int, offset: int, buffers: list[Buffer]) -> int:
            return super().write(handle, offset, [b"".join(buffers)[:7]])

    files = FewBytes()
    path = str(tmp_path / "file")
    handle = files.create(path)
    buffers: list[Buffer] = [b"", b"0123456789", b"", memoryview(b"abcdefg"), b"x", b""]
    assert write_all(files, handle, 0, buffers) == 18
    files.close(handle)
    assert files.read(path, 0, 99) == b"0123456789abcdefgx"


def test_a_write_goes_to_its_offset_wherever_the_one_before_ended(
    files: OperatingSystemFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "file")
    handle = files.create(path)
    assert files.write(handle, 2, [b"cd"]) == 2
    assert files.write(handle, 4, [b"ef"]) == 2
    assert files.write(handle, 0, [b"a", b"b"]) == 2
    assert files.write(handle, 2, [b"CD"]) == 2
    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", failing(errno.EIO))
        with pytest.raises(OSError, match="Input/output error"):
            files.write(handle, 4, [b"EF"])
    # As a write does that has failed in its midst.
    os.lseek(handle, 1, os.SEEK_CUR)
    assert files.write(handle, 4, [b"EF"]) == 2
    files.truncate(path, 4)
    assert files.write(handle, 4, [b"gh"]) == 2
    assert files.read(path, 0, 10) == b"abCDgh"
    # Another file gets its number.
    files.close(handle)
    other = files.create(str(tmp_path / "other"))
    assert other == handle
    assert files.write(other, 0, [b"1"]) == 1
    assert files.read(str(tmp_path / "other"), 0, 10) == b"1"
    files.close(other)


def test_a_write_that_takes_nothing_is_an_error(tmp_path: Path) -> None:
    class Full(OperatingSystemFiles):
        def write(self, handle: int, offset: int, buffers: list[Buffer]) -> int:
            return 0

    with pytest.raises(OSError, match="took nothing"):
        write_all(Full(), 3, 0, [b"a"])


def test_a_journal_of_many_segments_comes_back_from_the_disk(tmp_path: Path) -> None:
    directory = str(tmp_path / "journal")
    journal, _ = open_journal(directory, known_queue_ids={1}, segment_bytes_max=5_000)
    sent = []
    for number in range(1, 60):
        batch = batch_of([b"%d" % number * 50, b"second"], number)
        journal.append(1, batch, range(2), range(number * 2, number * 2 + 2))
        sent += [message(batch, 0), message(batch, 1)]
        if number % 3 == 0:
            journal.commit()
    journal.settle(1, [(2, 61)])
    journal.close()
    for _ in range(2):
        journal, recovered = open_journal(directory, known_queue_ids={1})
        assert recovered.report == []
        found = [message(run.batch, i) for run in recovered.messages(1) for i in run.indexes]
        assert found == sent[60:]
        journal.close()
    sizes = [file.stat().st_size for file in (tmp_path / "journal").iterdir()]
    assert max(sizes) <= 5_000


STRACED = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from publishes import batch_of
from leveret.storage.catalog import AddQueue, Catalog, QueueRow
from leveret.storage.journal.opening import open_journal
directory = Path(sys.argv[1])
journal, _ = open_journal(str(directory / "journal"), known_queue_ids={1})
catalog = Catalog.open(directory / "catalog.sqlite")
os.write(2, b"confirm")
for number in range(1, 201):
    journal.append(1, batch_of([b"a"], number), range(1), range(number, number + 1))
    journal.commit()
    os.write(2, b"confirm")
for number in range(1, 101):
    catalog.apply([AddQueue(QueueRow(number, "/", str(number), True, False, b""))])
    os.write(2, b"confirm")
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_every_commit_of_journal_and_catalog_is_synced_before_it_returns(tmp_path: Path) -> None:
    log = tmp_path / "strace"
    command = ["strace", "-f", "-e", "trace=fdatasync,fsync,write", "-o", str(log)]
    program = [sys.executable, "-c", STRACED, str(tmp_path), str(Path(__file__).parent)]
    done = subprocess.run(command + program, capture_output=True, text=True, check=False)
    if "ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    calls = re.findall(r"(confirm|fdatasync\(\d+\) += 0)", log.read_text())
    confirms = [at for at, call in enumerate(calls) if call == "confirm"]
    assert len(confirms) == 301
    # Exactly one sync for each commit, between its confirm and the one before.
    assert [after - before - 1 for before, after in pairwise(confirms)] == [1] * 300


@pytest.mark.parametrize("scarce", [errno.EMFILE, errno.ENFILE])
def test_a_file_is_opened_when_a_descriptor_is_free_again(
    files: OperatingSystemFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scarce: int
) -> None:
    real, refusals = os.open, [scarce] * 3

    def scarcely(*arguments: Any) -> int:
        if refusals:
            raise OSError(refusals.pop(), "too many open files")
        return real(*arguments)

    monkeypatch.setattr(descriptors.os, "open", scarcely)
    files.close(files.create(str(tmp_path / "file")))
    assert not refusals
    assert (tmp_path / "file").exists()


def test_without_any_descriptor_the_error_comes_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = OperatingSystemFiles(descriptor_seconds_max=0.05)

    def never(*_arguments: Any) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(descriptors.os, "open", never)
    with pytest.raises(OSError, match="too many open files"):
        files.create(str(tmp_path / "file"))


def failing(number: int) -> Any:
    def fail(*_arguments: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("call", "operation"),
    [
        ("writev", lambda files, handle, path: files.write(handle, 0, [b"x"])),
        ("fdatasync", lambda files, handle, path: files.sync_data(handle)),
        ("pread", lambda files, handle, path: files.read(path, 0, 1)),
        ("ftruncate", lambda files, handle, path: files.truncate(path, 1)),
        ("fsync", lambda files, handle, path: files.truncate(path, 0)),
        ("fsync", lambda files, handle, path: files.allocate(path, 1)),
    ],
)
def test_an_error_names_its_file(
    files: OperatingSystemFiles,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    operation: Any,
) -> None:
    path = str(tmp_path / "file")
    handle = files.create(path)
    monkeypatch.setattr(os, call, failing(errno.EIO))
    with pytest.raises(OSError, match=re.escape(f"Input/output error: {path!r}")):
        operation(files, handle, path)


def test_a_write_and_a_creation_are_tried_again_while_room_can_be_made(
    files: OperatingSystemFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def make_room() -> bool:
        made.append("room")
        monkeypatch.undo()
        return True

    monkeypatch.setattr(os, "open", failing(errno.ENOSPC))
    files.make_room = make_room
    handle = files.create(str(tmp_path / "file"))
    monkeypatch.setattr(os, "writev", failing(errno.EDQUOT))
    assert files.write(handle, 0, [b"abc"]) == 3
    assert made == ["room", "room"]
    # Of other errors it is no cure, nor of a disk that has nothing to give up.
    monkeypatch.setattr(os, "writev", failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        files.write(handle, 0, [b"abc"])
    files.make_room = lambda: False
    monkeypatch.setattr(os, "writev", failing(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        files.write(handle, 0, [b"abc"])


@pytest.mark.parametrize("has_fallocate", [True, False])
def test_allocated_bytes_take_up_room_on_the_disk(
    files: OperatingSystemFiles,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    has_fallocate: bool,
) -> None:
    if not has_fallocate:
        monkeypatch.setattr(os, "posix_fallocate", failing(errno.EOPNOTSUPP))
    path = tmp_path / "file"
    for size in (100_000, 3_000_000):
        files.allocate(str(path), size)
        assert path.stat().st_size == size
        assert path.stat().st_blocks * 512 >= size
    files.truncate(str(path), 10)
    assert path.stat().st_blocks * 512 <= 4096


def test_files_can_be_sent_to_another_process() -> None:
    sent = pickle.loads(pickle.dumps(OperatingSystemFiles()))
    assert isinstance(sent, OperatingSystemFiles)
