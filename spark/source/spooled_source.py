"""A stream's source with `spoolLocation`: batches that can be read again in another process.

As stream_source.py, but a range is acked as soon as it is on the driver's disk, and read from
there:

    latestOffset(start)     remove what start has passed, but the newest range; a range that is in
                            the spool behind start (the driver was killed) is the next one; else cut
                            one, write it to the spool, fsync, and only then ack it
    partitions(start, end)  the rows of the range's file, in any process, the same in the same order

So a batch that Spark runs again has the rows it had, and a sink that skips the batch ids it knows
has every range exactly once. Messages whose ack the broker did not take (the driver was killed
between fsync and ack, the connection went) are delivered again and are in a later range, too:
nothing in AMQP 0-9-1 shows for certain that a delivery is a repeat, and dropping a new message
would lose it.

Offsets carry the spool's id: {"n": 120000, "spool": "9f2c..."}. An offset without it was logged
without a spool: the batch that it ends was not acked before its commit, and is empty when it is
run again, as in stream_source.py.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

from ...logs.configure import service_log
from ...logs.events import SPARK_SOURCE_SPOOL_RESUMED, SPARK_SOURCE_SPOOL_TORN
from ...storage.files import Files
from ..errors import plainly
from ..options import OptionError, ReadOptions
from ..spool.spool import LOCK_NAME, Spool, SpoolError, SpoolTakenError
from ..spool.spool_files import DriverFiles
from ..spool.spool_mark import Mark
from .received import arrow_file, sliced_file
from .stream_source import OFFSET, SPOOL, Offset, StreamReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit


# A source's process outlives its driver that was killed by the question it is answering.
LOCK_WAIT_S: Final = 5.0
LOCK_POLL_S: Final = 0.05


def spooled_reader(options: ReadOptions, directory: str) -> SpooledReader:
    """Make the reader; OptionError if the directory cannot be made, or written to."""
    files = DriverFiles()
    try:
        files.make_directory(directory)
        files.check_writable(f"{directory}/{LOCK_NAME}")
    except OSError as error:
        raise OptionError(f"the option spoolLocation: {directory}: {error.strerror}") from None
    return SpooledReader(options, directory, files)


class SpooledReader(StreamReader):
    """The source of one run of a streaming query that has a spool."""

    # Processed messages are acked already, so all held messages are on their way to the next batch.
    _batches_held = 1

    def __init__(self, options: ReadOptions, directory: str, files: Files) -> None:
        super().__init__(options)
        # Pickled before it is used: nothing is locked until Spark asks.
        self._directory = directory
        self._files = files
        self._spool: Spool | None = None

    @plainly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note how many messages there are; the ranges in the spool come on top."""
        # Before messages are taken that another query, which has the spool, could process.
        self._opened()
        super().prepareForTriggerAvailableNow()

    @plainly()
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Say where the next batch ends, once it is in the spool and acked."""
        number = start[OFFSET]
        spool = self.joined(number, start.get(SPOOL))
        spool.passed(number)
        end = spool.end_behind(number)
        if end is None:
            end = self._cut(number, limit)
            if end == number:
                # Equal to Spark's own, with or without an id: there is nothing new.
                return start
            self._keep(spool, number, end)
        return {OFFSET: end, SPOOL: spool.name}

    def _keep(self, spool: Spool, start: int, end: int) -> None:
        consumers = self.consume()
        with consumers.changed:
            known = consumers.ranges.rows(start, end)
        assert known is not None
        assert known[0] == start, "ranges join"
        spool.write(start, end, arrow_file(*known))
        # Fsync before ack: only now may the broker forget them. Should it not take the ack, it
        # delivers them again, and they are in a later range, too.
        self.passed(end)

    @plainly()
    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Give the rows of a range, the same in every process."""
        low, high = start[OFFSET], end[OFFSET]
        if low == high:
            return []
        if SPOOL not in end:
            return super().partitions(start, end)
        content = self.joined(low, end[SPOOL]).read(low, high)
        slices: list[InputPartition] = []
        try:
            slices += sliced_file(content, self._slices_max)
        except ValueError as error:
            raise SpoolError(
                f"the messages from {low} to {high} in the spool {self._directory}: {error}; "
                "run this batch with the version that wrote them"
            ) from None
        return slices

    @plainly()
    def commit(self, end: Offset) -> None:
        """Remove the committed ranges."""
        if self._spool is not None and self._spool.is_joined:
            self._spool.passed(end[OFFSET])

    def stop(self) -> None:
        """Close the connections and give the spool's lock back."""
        super().stop()
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def joined(self, start: int, name: str | None) -> Spool:
        """Give the spool, which belongs to the checkpoint that Spark goes on with."""
        spool = self._opened()
        if not spool.is_joined:
            queues, vhost = self._options.queue, self._options.brokers.vhost
            spool.join(start, name, Mark(secrets.token_hex(8), start, queues, vhost))
            end = spool.end_behind(start)
            if end is not None:
                # Damage is told before Spark logs that there is a batch.
                spool.read(start, end)
                self._warn(SPARK_SOURCE_SPOOL_RESUMED, start=start, end=end)
        return spool

    def _opened(self) -> Spool:
        """Give the spool, which nobody else has."""
        if self._spool is None:
            spool = Spool(self._directory, self._files)
            patience_ends_s = time.monotonic() + LOCK_WAIT_S
            while True:
                try:
                    torn = spool.open()
                    break
                except SpoolTakenError:
                    if time.monotonic() > patience_ends_s:
                        raise
                    time.sleep(LOCK_POLL_S)
            for name in torn:
                self._warn(SPARK_SOURCE_SPOOL_TORN, file=name)
            self._spool = spool
        return self._spool

    def _warn(self, event: str, **known: object) -> None:
        service_log("warning", "json").warning(event, spool=self._directory, **known)
