"""A broker starts on the data directory of every earlier version and keeps all that is in it."""

from __future__ import annotations

from pathlib import Path

import leveret
import pytest
import shop
from earlier_directories import FORMAT_VERSIONS, unpack


@pytest.mark.parametrize("format_version", FORMAT_VERSIONS)
def test_all_that_an_earlier_version_held_is_there_after_two_starts(
    format_version: int, tmp_path: Path
) -> None:
    data = unpack(format_version, tmp_path)
    for is_last in (False, True):
        with leveret.Broker(data_dir=data, port=0, log_level="error") as broker:
            if is_last:
                shop.check(broker.host, broker.port, format_version)
