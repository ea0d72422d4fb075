"""How far a start has read the journal: in the log, or shown by whoever starts the node."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
from collections.abc import Callable
from pathlib import Path

from leveret.configuration import Configuration
from leveret.logs.configure import service_log
from leveret.machine import Machine
from leveret.node import Node
from leveret.storage.journal.clean_reading import PIECE_BYTES
from leveret.storage.journal.recovery import OnProgress

from benchmarks.restart_time import fill

# Some pieces, and a part of one.
MESSAGES = 4_400


def failed(actor: str, error: BaseException) -> None:
    raise AssertionError(actor) from error


def lines_of_start(
    path: Path, monotonic: Callable[[], float], on_reading: OnProgress | None = None
) -> list[tuple[int, int]]:
    """Start a node and stop it: what its log says about the reading of the journal."""
    stream = io.StringIO()
    configuration = Configuration(data_dir=path, port=0, http_listener="off")

    async def start_and_stop() -> None:
        log = service_log(form="json", stream=stream)
        node = Node(configuration, log, failed, Machine(monotonic=monotonic), on_reading=on_reading)
        await node.start()
        assert await node.stop()

    asyncio.run(start_and_stop())
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert {line["event"] for line in lines} >= {"journal.recovered", "broker.stopped"}
    (recovered,) = [line for line in lines if line["event"] == "journal.recovered"]
    assert recovered["unverified_segments"] == 0
    return [
        (line["bytes_read"], line["bytes_in_all"])
        for line in lines
        if line["event"] == "journal.reading"
    ]


def test_a_long_reading_is_logged_by_the_clock_and_a_short_one_is_not(tmp_path: Path) -> None:
    journal_bytes = fill(tmp_path, MESSAGES, 200, has_indexes=False)
    assert 4 * PIECE_BYTES < journal_bytes < 5 * PIECE_BYTES
    assert lines_of_start(tmp_path, lambda: 100.0) == []
    # Two seconds for a piece, but the first of a segment, and for the segment of the other start.
    ((bytes_read, bytes_in_all),) = lines_of_start(tmp_path, itertools.count(0, 2).__next__)
    assert 3 * PIECE_BYTES <= bytes_read < 4 * PIECE_BYTES
    assert journal_bytes <= bytes_in_all < 5 * PIECE_BYTES


def test_a_reading_that_is_shown_is_not_logged_and_ends_with_all_read(tmp_path: Path) -> None:
    journal_bytes = fill(tmp_path, MESSAGES, 200, has_indexes=False)
    shown: list[tuple[int, int]] = []
    clock = itertools.count(0, 100).__next__
    assert lines_of_start(tmp_path, clock, lambda read, of: shown.append((read, of))) == []
    read = [each for each, _ in shown]
    assert read == sorted(read)
    assert [each for each in read if each < journal_bytes] == [2 << 20, 3 << 20, 4 << 20]
    assert {in_all for _, in_all in shown} == {journal_bytes}
    assert read[-1] == journal_bytes
