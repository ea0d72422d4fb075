"""The directory of the restart benchmark holds as many messages as it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from leveret.storage.data_directory import DataDirectory
from leveret.storage.files import OperatingSystemFiles
from leveret.storage.stores import Stores

from benchmarks.restart_time import BODY_BYTES, QUEUES, fill


@pytest.mark.parametrize("batch_messages", [1, 50])
def test_a_filled_directory_has_the_messages(tmp_path: Path, batch_messages: int) -> None:
    journal_bytes = fill(tmp_path, 1_000, batch_messages, True)
    assert journal_bytes > 1_000 * BODY_BYTES
    files = OperatingSystemFiles()
    directory = DataDirectory.open(tmp_path, files)
    queues = Stores(directory, files, bytes(16)).recovered.queues
    directory.close()
    assert [each.entries for each in queues.values()] == [1_000 // QUEUES] * QUEUES
    assert [each.runs for each in queues.values()] == [1] * QUEUES
