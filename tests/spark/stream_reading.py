"""Spark's calls to a stream's source, made without Spark."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from leveret.spark.errors import SourceError
from leveret.spark.source.stream_source import StreamReader
from timeouts import TIMEOUT_SECONDS

ReaderOf = Callable[..., StreamReader]
FIRST = {"n": 0}


def rows(reader: StreamReader, start: dict[str, int], end: dict[str, int]) -> list[dict[str, Any]]:
    """The rows that the tasks of a batch would read."""
    return [
        row
        for partition in reader.partitions(start, end)
        for batch in reader.read(pickle.loads(pickle.dumps(partition)))
        for row in batch.to_pylist()
    ]


def next_batch(
    reader: StreamReader, start: dict[str, int], messages: int = 0
) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Ask until there is something new, as Spark does; not before so many have been delivered.

    They come as the broker sends them: what has come in time is a batch.
    """
    if messages:
        wait_for_deliveries(reader, messages)
    end_s = time.monotonic() + TIMEOUT_SECONDS
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) == start:
        assert time.monotonic() < end_s, "nothing came"
    return end, rows(reader, start, end)


def wait_for_deliveries(reader: StreamReader, messages: int) -> None:
    """Return when the reader holds so many that are in no batch yet."""
    consumers = reader.consume()
    ranges = consumers.ranges
    with consumers.changed:
        assert consumers.changed.wait_for(lambda: ranges.available >= messages, TIMEOUT_SECONDS)


def logged(capfd: pytest.CaptureFixture[str], event: str) -> list[dict[str, Any]]:
    """The log's lines of this event, since the last call."""
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    return [line for line in lines if line["event"] == event]


def ask_until_it_fails(reader: StreamReader, start: dict[str, int]) -> str:
    end_s = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < end_s:
        try:
            reader.latestOffset(start, reader.getDefaultReadLimit())
        except SourceError as error:
            return str(error)
    pytest.fail("it did not fail")


def batches(reader: StreamReader, start: dict[str, int] = FIRST) -> Iterator[list[int]]:
    """All batches until the reader says that there are no more, each committed before the next."""
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        yield [int(row["body"]) for row in rows(reader, start, end)]
        start = end
