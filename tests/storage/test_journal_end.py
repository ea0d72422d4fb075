"""How a journal ends: by an error of the disk, or by a close."""

from __future__ import annotations

import errno
from random import Random

import pytest
from crashing_files import CrashingFiles
from journals import contents, opened
from leveret.storage.journal.log import JournalUnusableError
from publishes import batch_of


@pytest.fixture
def files() -> CrashingFiles:
    return CrashingFiles()


@pytest.mark.parametrize("operation", ["write", "sync_data"])
def test_a_failed_commit_is_final(files: CrashingFiles, operation: str) -> None:
    journal, _ = opened(files)
    batch = batch_of([b"a"], 1)
    journal.append(1, batch, range(1), range(1, 2))
    files.failing[operation] = OSError(errno.EIO, "the disk is ill")
    with pytest.raises(OSError, match="the disk is ill"):
        journal.commit()
    for call in (
        lambda: journal.append(1, batch, range(1), range(2, 3)),
        lambda: journal.settle(1, [(1, 1)]),
        lambda: journal.delivered(1, [(1, 1)]),
        lambda: journal.drop_queue(1),
        journal.commit,
        journal.reclaim,
    ):
        with pytest.raises(JournalUnusableError, match="the disk is ill"):
            call()
    syncs = files.count("sync_data")
    journal.close()
    assert files.count("sync_data") == syncs
    assert files.handles == {}


def test_close_syncs_what_was_only_written(files: CrashingFiles) -> None:
    journal, _ = opened(files)
    journal.append(1, batch_of([b"a"], 1), range(1), range(1, 2))
    journal.commit()
    journal.settle(1, [(1, 1)])
    journal.commit()
    journal.close()
    files.cut_power(Random(0))
    assert contents(opened(files)[1]) == {}
    with pytest.raises(JournalUnusableError, match="closed"):
        journal.commit()
    journal.close()


@pytest.mark.parametrize("operation", ["truncate", "create", "sync_directory"])
def test_a_segment_that_cannot_be_begun_ends_the_journal(
    files: CrashingFiles, operation: str
) -> None:
    journal, _ = opened(files, segment_bytes_max=300)
    for number in (1, 2):
        journal.append(1, batch_of([b"a" * 100], number), range(1), range(number, number + 1))
    files.failing[operation] = OSError(errno.EIO, "the disk is broken")
    with pytest.raises(OSError, match="the disk is broken"):
        journal.commit()
    with pytest.raises(JournalUnusableError, match="the disk is broken"):
        journal.commit()
    # No handle is closed twice.
    journal.close()
    journal.close()
