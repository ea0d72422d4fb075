"""AMQP 0-9-1 for PySpark: the data source `amqp`, and reports of traces.

    pip install "leveret[spark]"

The source is found by itself where `pyspark_leveret` is installed in the ordinary way; the sure way
is `leveret.spark.register(session)`. Importing this package opens no socket, starts no thread and
loads nothing of the broker: it is imported in every Python worker, which Spark forks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .data_source import AmqpDataSource

__all__ = ["AmqpDataSource", "register"]


def register(session: SparkSession) -> None:
    """Make `format("amqp")` known to this session; also in an editable installation."""
    from .data_source import AmqpDataSource

    session.dataSource.register(AmqpDataSource)


def __getattr__(name: str) -> Any:
    if name != "AmqpDataSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Loaded when it is first asked for: options and addresses need no Spark.
    from .data_source import AmqpDataSource

    return AmqpDataSource
