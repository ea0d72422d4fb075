"""The data source `amqp`: what Spark calls, and where it goes.

    write, writeStream   spark/sink/sink.py
    read, readStream     spark/source/source.py, spark/source/batch_source.py,
    spark/source/stream_source.py

Spark makes one of these in its planner for every job and calls the methods by keyword. Each checks
options and schema, so that mistakes are reported before any task begins. What they return is
pickled and sent to the workers: it holds no socket and no thread. The modules behind are loaded
only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from .errors import plainly
from .schema import read_schema
from .source.source import batch_reader, stream_reader

if TYPE_CHECKING:
    from .sink.sink import AmqpBatchWriter, AmqpStreamWriter
    from .source.batch_source import BatchReader
    from .source.stream_source import StreamReader

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
        with plainly():
            return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Make what a streaming query reads with."""
        with plainly():
            return stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> AmqpBatchWriter:
        """Make what writes one DataFrame."""
        from .sink.sink import batch_writer

        with plainly():
            return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> AmqpStreamWriter:  # noqa: N802
        """Make what writes one micro-batch."""
        from .sink.sink import stream_writer

        with plainly():
            return stream_writer(self.options, schema, overwrite)
