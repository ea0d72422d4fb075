"""The data source `amqp`: what Spark calls, and where it goes.

    write, writeStream   sink.py
    read, readStream     source.py, batch_source.py, stream_source.py

Spark makes one of these in its planner for every job and calls the methods by keyword. Each checks
options and schema, so that what is wrong is said before any task begins. What they return is
pickled and sent to the workers: it holds no socket and no thread. The modules behind are loaded
only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from .schema import read_schema
from .source import batch_reader, stream_reader

if TYPE_CHECKING:
    from .batch_source import BatchReader
    from .sink import AmqpBatchWriter, AmqpStreamWriter
    from .stream_source import StreamReader

FORMAT = "amqp"


class AmqpDataSource(DataSource):
    """AMQP 0-9-1 queues and exchanges: `format("amqp")`."""

    @classmethod
    def name(cls) -> str:
        """Give the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Give the columns that reading gives."""
        return read_schema()

    def reader(self, schema: StructType) -> BatchReader:
        """Make what a batch job reads with."""
        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Make what a streaming query reads with."""
        return stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> AmqpBatchWriter:
        """Make what writes one DataFrame."""
        from .sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> AmqpStreamWriter:  # noqa: N802
        """Make what writes one micro-batch."""
        from .sink import stream_writer

        return stream_writer(self.options, schema, overwrite)
