"""`df.write.format("amqp")` and `df.writeStream.format("amqp")`: what Spark calls when, and where.

    batch_writer, stream_writer   in the planner: options and columns are checked, before any task
    write                         in a task, again for each try: one partition, all of it confirmed
    commit, abort                 in a process of the driver's: the tallies of all partitions

A writer is pickled on its way to the tasks, so it holds options and no socket. Spark calls `commit`
of a stream again for a batch that it replays: it only logs, and says what rows came to nothing.
Neither can take back published rows.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from ...logs.configure import service_log
from ...logs.events import SPARK_SINK_ABORTED, SPARK_SINK_BATCH, SPARK_SINK_TRY_FAILED
from ..errors import PlainError, plainly
from ..options import OptionError, WriteOptions, write_options
from ..schema import check_write_schema
from .message_ids import Place
from .publishes import FinalError, PublishError
from .publishing import PartitionPublisher
from .reports import Tally, fields, total

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class WriteError(PlainError):
    """A job or micro-batch failed for good; one line for people, with the number of published
    rows."""


@dataclass
class PartitionReport(WriterCommitMessage):
    """A task's message at its end: all its rows are settled, or it failed for good."""

    place: Place
    attempt: int
    tally: Tally
    duration_s: float
    # Why the task has not settled all its rows, and no other try would.
    failure: str | None = None


def batch_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> AmqpBatchWriter:
    """Make the writer of one save(); a query that cannot be written is refused here."""
    return AmqpBatchWriter(_checked(given, schema, overwrite))


def stream_writer(
    given: Mapping[str, str], schema: StructType, overwrite: bool
) -> AmqpStreamWriter:
    """Make the writer of one micro-batch."""
    return AmqpStreamWriter(_checked(given, schema, overwrite))


def _checked(given: Mapping[str, str], schema: StructType, overwrite: bool) -> WriteOptions:
    if overwrite:
        raise OptionError(
            'nothing that is in a queue is overwritten: use mode("append"), or outputMode("append")'
        )
    options = write_options(given)
    check_write_schema(
        schema,
        options.routing_key is not None,
        options.ignore_unknown_columns,
    )
    return options


class _Writer:
    """The base of the writers of batches and streams."""

    # Is a batch known by its query and number?
    _is_of_stream = False

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        # Of this save() or micro-batch; the same for all its tasks and their tries.
        self.job = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartitionReport:
        """Publish one partition; it returns when the broker has answered for every row.

        A failure that another try would end with as well is reported, not raised: Spark would try
        the task again, four times on a cluster, and publish the partition's rows each time.
        `_commit` raises it.
        """
        context = TaskContext.get()
        assert context is not None
        place = self._place(context)
        begun = time.monotonic()
        name = f"spark {place.scope} partition {place.partition}"
        publisher = PartitionPublisher(self.options, place, name, time.sleep)
        failure = None
        with plainly():
            try:
                publisher.publish(iterator)
            except FinalError as error:
                failure = str(error)
            except BaseException as error:
                # Spark's abort hears nothing of a task that failed, or was stopped.
                is_ours = isinstance(error, PublishError)
                service_log(form="json").warning(
                    SPARK_SINK_TRY_FAILED,
                    query=place.scope,
                    batch=place.batch,
                    partition=place.partition,
                    attempt=context.attemptNumber(),
                    reason=str(error) if is_ours else type(error).__name__,
                    **fields(publisher.tally, 0),
                )
                if not is_ours:
                    raise
                raise PublishError(
                    f"{error}; {publisher.tally.confirmed} rows of this try of partition "
                    f"{place.partition} are confirmed and stay"
                ) from None
        duration_s = time.monotonic() - begun
        return PartitionReport(place, context.attemptNumber(), publisher.tally, duration_s, failure)

    def _place(self, context: TaskContext) -> Place:
        """Where this task stands; a stream's query and batch are in its local properties.

        They are also in those of a save() in foreachBatch, where they would be the same for the
        second save(), whose rows would look like repeats of the first one's.
        """
        pinned = None if self.options.dedup_scope == "auto" else self.options.dedup_scope
        partition = context.partitionId()
        if not self._is_of_stream:
            return Place(pinned or self.job, None, partition)
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:
            # A Spark that does not say: its replayed batches look new.
            return Place(pinned or self.job, None, partition)
        return Place(pinned or query, int(batch), partition)

    def _commit(self, messages: Sequence[Any], batch: int | None) -> None:
        options = self.options
        reports = _reports(messages)
        shown, tally = _summary(reports, messages, batch, options.max_returned_samples)
        failed = [report for report in reports if report.failure is not None]
        is_bad = (
            failed
            or tally.nacked
            or (tally.returned and options.on_returned != "ignore")
            or (tally.invalid and options.on_invalid != "ignore")
        )
        if options.on_returned == "ignore":
            shown.pop("samples", None)
        log = service_log(form="json")
        (log.warning if is_bad else log.info)(SPARK_SINK_BATCH, **shown)
        with plainly():
            if failed:
                raise WriteError(_failure(failed, tally))
            if tally.returned and options.on_returned == "fail":
                raise WriteError(_returned(tally, options.max_returned_samples))

    def _abort(self, messages: Sequence[Any], batch: int | None) -> None:
        shown, _tally = _summary(_reports(messages), messages, batch, 0)
        log = service_log(form="json")
        log.warning(SPARK_SINK_ABORTED, **shown)


class AmqpBatchWriter(_Writer, DataSourceArrowWriter):
    """Of one save()."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks have ended well."""
        self._commit(messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A task has failed for good, or `commit` has; published rows stay."""
        self._abort(messages, None)


class AmqpStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Of one micro-batch."""

    _is_of_stream = True

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """All tasks of this batch have ended well; Spark may say so again."""
        self._commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """The batch has failed, or the query was stopped in it."""
        self._abort(messages, batchId)


def _reports(messages: Sequence[Any]) -> list[PartitionReport]:
    """Those of the partitions that ended; None among the messages is one that did not."""
    return [message for message in messages if isinstance(message, PartitionReport)]


def _summary(
    reports: list[PartitionReport],
    messages: Sequence[Any],
    batch: int | None,
    samples_max: int,
) -> tuple[dict[str, Any], Tally]:
    """The figures of a batch for the log."""
    tally = total(report.tally for report in reports)
    shown: dict[str, Any] = {"query": reports[0].place.scope if reports else None, "batch": batch}
    shown["partitions"] = len(reports)
    if failed := sum(report.failure is not None for report in reports):
        shown["partitions_failed"] = failed
    if len(reports) < len(messages):
        # Tries that were not killed log their publishes in the workers' logs.
        shown["partitions_missing"] = len(messages) - len(reports)
    shown["tries"] = sum(report.attempt + 1 for report in reports)
    shown["slowest_s"] = round(max((report.duration_s for report in reports), default=0.0), 3)
    known = fields(tally, samples_max)
    if not reports:
        # Nothing is known of any of them, which is not nothing.
        known = dict.fromkeys(known)
    return shown | known, tally


def _failure(failed: list[PartitionReport], tally: Tally) -> str:
    first, *others = failed
    text = f"{first.failure}; {tally.confirmed} of the job's rows are confirmed and stay"
    return f"{text}; partitions that failed: {len(failed)}" if others else text


def _returned(tally: Tally, samples_max: int) -> str:
    text = (
        f"{tally.returned} of {tally.rows} rows were returned by the broker, {tally.confirmed} are "
        "published and stay (onReturned=fail)"
    )
    samples = [
        f"row {each.row}, message id {each.message_id}: {each.code} {each.text}, exchange "
        f"{each.exchange!r}, routing key {each.routing_key!r}"
        for each in tally.samples[:samples_max]
    ]
    return f"{text}; {'; '.join(samples)}" if samples else text
