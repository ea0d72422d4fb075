"""Reading, as a data source of Spark's calls it: queues as streams, and queues as they are now.

    readStream   StreamReader, stream_source.py    acked once Spark has committed the batch
                 SpooledReader, spooled_source.py  with spoolLocation: acked once it is on a disk
    read         BatchReader, batch_source.py      looked at and put back (peek), or taken (drain)

All check options and schema here, in the planner, before anything is connected to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ..options import AFTER_COMMIT, OptionError, ReadOptions, read_options
from ..schema import check_read_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from .batch_source import BatchReader
    from .received import FetchLimits
    from .stream_source import StreamReader


# What says nothing to a batch, and what says nothing to a stream.
_OF_STREAMS: Final = (
    "prefetch",
    "maxRecordsPerTrigger",
    "maxBytesPerTrigger",
    "pollTimeoutMs",
    "spoolLocation",
)
_OF_BATCHES: Final = ("limit",)
# A stream goes on when a queue has gone silent, a batch fails: it is more patient.
BATCH_IDLE_TIMEOUT_MS: Final = 10_000


def stream_reader(given: Mapping[str, str], schema: StructType) -> StreamReader:
    """Make what a streaming query reads with; an error if options or schema cannot be."""
    from .stream_source import StreamReader

    options = _checked(given, schema, _OF_BATCHES)
    if options.ack_mode not in (None, AFTER_COMMIT):
        raise OptionError(
            f"the option ackMode: a stream acks after the commit; {options.ack_mode} "
            "is for batches (spark.read)"
        )
    if options.spool_location is not None:
        from .spooled_source import spooled_reader

        return spooled_reader(options, options.spool_location)
    return StreamReader(options)


def batch_reader(
    given: Mapping[str, str], schema: StructType, limits: FetchLimits | None = None
) -> BatchReader:
    """Make what a batch job reads with; an error if options or schema cannot be."""
    from .batch_source import BatchReader
    from .received import FETCH_LIMITS

    options = _checked(
        given,
        schema,
        _OF_STREAMS,
        # A batch that has less than there was is a wrong answer, not a late one.
        idle_timeout_ms=BATCH_IDLE_TIMEOUT_MS,
        fail_on_unreachable=True,
    )
    if options.ack_mode == AFTER_COMMIT:
        raise OptionError(
            "the option ackMode: Spark does not say when a batch job has committed; "
            "readStream with trigger(availableNow=True) acks after the commit, "
            "ackMode=peek leaves the messages in the queue, ackMode=drain takes them"
        )
    return BatchReader(options, limits or FETCH_LIMITS)


def _checked(
    given: Mapping[str, str], schema: StructType, idle: tuple[str, ...], **defaults: object
) -> ReadOptions:
    options = read_options(given, idle, **defaults)
    check_read_schema(schema)
    return options
