"""Spark's calls to a batch's source, made without Spark."""

from __future__ import annotations

import pickle
from typing import Any

from leveret.spark.schema import read_schema
from leveret.spark.source.batch_source import BatchReader
from leveret.spark.source.received import FETCH_LIMITS, FetchLimits
from leveret.spark.source.source import batch_reader
from source_queue import SourceQueue


def reader(
    source: SourceQueue, /, limits: FetchLimits = FETCH_LIMITS, **options: object
) -> BatchReader:
    named = {name: str(value) for name, value in options.items()}
    # On a busy machine a broker may be silent for longer than the default's ten seconds.
    given = source.options | {"idleTimeoutMs": "30000"} | named
    del given["pollTimeoutMs"]
    return pickle.loads(pickle.dumps(batch_reader(given, read_schema(), limits)))


def rows(reader: BatchReader) -> list[dict[str, Any]]:
    return [
        row
        for partition in reader.partitions()
        for batch in reader.read(pickle.loads(pickle.dumps(partition)))
        for row in batch.to_pylist()
    ]


def numbers(reader: BatchReader) -> list[int]:
    return [int(row["body"]) for row in rows(reader)]
