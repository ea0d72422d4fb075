"""The dead letters that a deleted queue still owes: their messages are read after it has gone.

Messages that left the queue for its dead-letter exchange before the delete become dead letters like
any others, also those whose bytes are on the disk only. The queue itself goes at once. This
actor has these bytes read, hands them to the publisher of dead letters, and only then has the
journal drop the queue. A crash before that loses them, as it may lose any message of a
deleted queue; a stop of the node waits for them (`NodeContext.last_letters`).
"""

from __future__ import annotations

from typing import Any, Final

from ...core.definitions import QueueDefinition
from ...core.queue.dying import DyingRows
from ...core.queue.paging import Wanted
from ..messages import (
    DropQueue,
    DropSpilled,
    EntriesRead,
    PublishDead,
    QueueFailed,
    ReadEntries,
    ReadSpilled,
)
from ..node_context import NodeContext
from ..runtime.runtime import LoopActor, tell
from ..tracing.queue import QueueTracing
from .missing_entries import report_missing

# Little is read at once, because nothing else in the node counts these bytes.
READ_BYTES: Final = 64 * 1024
READ_COUNT_MAX: Final = 8_192


class LastLetters(LoopActor):
    """Reads the messages of `rows`, of which there is one at least. Only a stop waits for it."""

    def __init__(
        self,
        context: NodeContext,
        queue: QueueDefinition,
        rows: DyingRows,
        tracing: QueueTracing,
        has_spilled: bool,
    ) -> None:
        """`has_spilled`: the spill has been told of this queue."""
        super().__init__()
        self._context = context
        self._queue = queue
        self._rows = rows
        self._tracing = tracing
        self._has_spilled = has_spilled
        # The entries that are being read.
        self._wanted: Wanted | None = None

    def on_start(self) -> None:
        """Begin to read."""
        self._context.last_letters.add(self.actor_ref)
        self._read()

    def on_receive(self, message: object) -> None:
        """Publish the messages read, and go on until nothing is left."""
        assert isinstance(message, EntriesRead)
        assert self._wanted is not None
        letters, missing = self._rows.fill(self._wanted.read_through(message.through), message.rows)
        lost = [(span.first_entry_id, span.first_entry_id + len(span) - 1) for span in missing]
        report_missing(self.runtime.log, self._queue, lost, message.lost)
        if letters:
            if self._context.trace.is_on:
                self._tracing.died(letters, 0, are_settled=False)
            tell(self._context.dead_letters, PublishDead(self._queue, letters))
        if self._rows:
            self._read()
        else:
            self.stop()

    def _read(self) -> None:
        self._wanted = self._rows.wanted(READ_COUNT_MAX)
        queue_id, ranges = self._queue.queue_id, self._wanted.ranges
        if self._wanted.is_spilled:
            spilled = ReadSpilled(self.actor_ref, queue_id, ranges, READ_BYTES)
            tell(self._context.page_reader, spilled)
        else:
            stored = ReadEntries(self.actor_ref, queue_id, ranges, READ_BYTES)
            tell(self._context.journal, stored)

    def on_stop(self) -> None:
        """Nothing of the queue is needed any more."""
        self._context.last_letters.discard(self.actor_ref)
        if self._has_spilled:
            tell(self._context.page_reader, DropSpilled(self._queue.queue_id, None))
        if self._queue.durable:
            tell(self._context.journal, DropQueue(self._queue.queue_id))

    def on_failure(self, *_exception: Any) -> None:
        """The same, and the failure is logged as that of the queue."""
        self.on_stop()
        tell(self._context.broker, QueueFailed(self._queue))
