"""Large writes past the page cache: the same bytes in the file, whatever the file system knows."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest
from leveret.storage import files as direct_writes
from leveret.storage.files import (
    BLOCK_BYTES,
    DIRECT_BYTES_MIN,
    STAGING_BYTES,
    Buffer,
    OperatingSystemFiles,
    write_all,
)


def random_buffers(random: Random, total: int) -> list[Buffer]:
    """Buffers of all sizes, so many bytes together."""
    buffers: list[Buffer] = []
    while total:
        size = min(total, random.choice([0, 1, 100, BLOCK_BYTES, 250_000]))
        buffers.append(memoryview(random.randbytes(size)) if size % 2 else random.randbytes(size))
        total -= size
    return buffers


@pytest.mark.parametrize("seed", range(5))
def test_large_and_small_writes_in_turns_leave_what_was_written(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    files = OperatingSystemFiles()
    path = str(tmp_path / "file")
    handle = files.create(path)
    written = b""
    for size in (10, DIRECT_BYTES_MIN, 1, 3 * DIRECT_BYTES_MIN + 7, STAGING_BYTES + 99_999, 5000):
        # Zeros ahead, as the journal's small commits leave them: they are written over.
        files.write(handle, len(written), [bytes(20_000)])
        buffers = random_buffers(random, size)
        whole = b"".join(buffers)
        assert write_all(files, handle, len(written), buffers) == size
        written += whole
        files.sync_data(handle)
    files.close(handle)
    assert (tmp_path / "file").read_bytes()[: len(written)] == written


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        ("open", errno.EINVAL),
        ("pwrite", errno.EINVAL),
        # No file descriptor is left for them.
        ("open", errno.EMFILE),
        ("memfd_create", errno.ENFILE),
    ],
)
def test_blocks_that_cannot_be_written_directly_go_through_the_page_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, error: int
) -> None:
    real = getattr(os, refused)
    refusals = []

    def refuse(first: object, second: object, *rest: object) -> object:
        if refused != "open" or (isinstance(second, int) and second & os.O_DIRECT):
            refusals.append(refused)
            raise OSError(error, "refused")
        return real(first, second, *rest)

    monkeypatch.setattr(direct_writes.os, refused, refuse)
    files = OperatingSystemFiles()
    handle = files.create(str(tmp_path / "file"))
    content = os.urandom(2 * DIRECT_BYTES_MIN + 3)
    assert write_all(files, handle, 0, [content]) == len(content)
    files.close(handle)
    assert refusals
    assert (tmp_path / "file").read_bytes() == content


def test_an_error_of_the_disk_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> int:
        raise OSError(errno.EIO, "input/output error")

    files = OperatingSystemFiles()
    handle = files.create(str(tmp_path / "file"))
    monkeypatch.setattr(direct_writes.os, "pwrite", fail)
    with pytest.raises(OSError, match="input/output error"):
        write_all(files, handle, 0, [bytes(DIRECT_BYTES_MIN)])
    files.close(handle)
