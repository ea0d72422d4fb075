"""Data directories of every version that was ever landed: all that is in them is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from earlier_contents import described, queue_names
from earlier_directories import FORMAT_VERSIONS, held, unpack
from leveret.storage.journal.opening import open_journal


@pytest.mark.parametrize("format_version", FORMAT_VERSIONS)
def test_a_journal_of_an_earlier_format_is_read_as_its_own_version_read_it(
    format_version: int, tmp_path: Path
) -> None:
    data = unpack(format_version, tmp_path)
    names = queue_names(data)
    for _ in range(2):
        journal, recovered = open_journal(str(data / "journal"), known_queue_ids=names.keys())
        assert described(recovered, names) == held(format_version)
        journal.abandon()
