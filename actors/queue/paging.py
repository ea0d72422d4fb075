"""How much memory one queue's messages hold: counted in the node's budget, paged out, read again.

The rules say which rows can be paged and which are wanted (core/queue/paging.py). The node's budget
says how much a queue is to keep. This part tells the page reader and the journal; both answer the
queue's actor, with EntriesSpilled and EntriesRead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...core.definitions import QueueDefinition
from ...core.queue.rules import MessageQueue
from ...core.queue.span import EntryRange
from ...storage.journal.ledger import ranges_without
from ...storage.journal.reading import ReadRow
from ..messages import (
    DropSpilled,
    EntriesSpilled,
    LookAtMemory,
    PageOut,
    ReadEntries,
    ReadSpilled,
    Ref,
    SpillEntries,
)
from ..node_context import NodeContext
from ..runtime.runtime import tell
from ..tracing.queue import QueueTracing

# Less is not worth telling the budget: a queue that is consumed at once holds a message or two.
COUNTED_BYTES_MIN: Final = 4 * 1024
# Bytes of messages that one queue has read at once, and as many that it reads ahead of consumers:
# one part in so many of the budget, up to the setting read_ahead_bytes_max. So little, and nothing
# ahead, while all hold too much.
READ_PART: Final = 64
READ_BYTES_MIN: Final = 16 * 1024
# Bytes of messages that are read at once, and not kept, to know their sizes: such a part of the
# budget, so much at most.
SIZED_PART: Final = 16
SIZED_BYTES_MAX: Final = 4 * 1024 * 1024


class QueuePaging:
    """One queue's; its actor asks `count_held` and `read_wanted` at the end of each turn."""

    def __init__(
        self,
        context: NodeContext,
        definition: QueueDefinition,
        messages: MessageQueue,
        actor: Ref,
        tracing: QueueTracing,
        synced_below: Callable[[int], int],
    ) -> None:
        """`synced_below` says of the next entry id below which id the journal has all entries."""
        self._context = context
        self._queue_id = definition.queue_id
        self._messages = messages
        self._actor = actor
        self._tracing = tracing
        self._synced_below = synced_below
        # The node's budget counts so much for it; it was last to keep so much at its head.
        self._counted_bytes = 0
        self._kept_bytes = 0
        # It has paged, and no consumer has wanted that since: to read ahead would be in vain, for
        # as long as others hold so much that it must page again.
        self._has_paged = False
        # It was to page rows that the disk does not have yet.
        self.awaits_sync = False
        self._is_spilling = False
        # Has the spill ever been told of it?
        self.has_spilled = False

    def count_held(self) -> None:
        """Tell the node's budget how much the queue holds; have the fullest queues page."""
        held_bytes, counted_bytes = self._messages.held_bytes, self._counted_bytes
        if held_bytes == counted_bytes:
            return
        if held_bytes and -COUNTED_BYTES_MIN < held_bytes - counted_bytes < COUNTED_BYTES_MIN:
            # Empty ones always: what thousands of them held no more would be missed elsewhere.
            return
        self._counted_bytes = held_bytes
        budget = self._context.memory_budget
        budget.change(self._actor, held_bytes)
        self._look_at_memory()
        if budget.used_bytes > budget.relief_bytes:
            for queue_ref, kept_bytes in budget.relieve():
                tell(queue_ref, PageOut(kept_bytes))

    def release(self) -> None:
        """The queue has ended, and holds nothing in memory any more."""
        self._context.memory_budget.change(self._actor, 0)
        self._look_at_memory()

    def _look_at_memory(self) -> None:
        """Say so when all queues hold too much although they page, or no longer do."""
        used_bytes = self._context.memory_budget.used_bytes
        if self._context.memory_level.look(used_bytes):
            tell(self._context.memory_watch, LookAtMemory(used_bytes))

    def relieve(self, kept_bytes: int) -> None:
        """All queues hold too much: page, but for so much at the head."""
        self._has_paged = True
        self._page_out(kept_bytes)

    def synced(self) -> None:
        """The journal has synced something for a queue that `awaits_sync`: page it.

        Nothing else may come to ask for it again: publishers wait while queues hold too much.
        """
        self.awaits_sync = False
        budget = self._context.memory_budget
        if budget.used_bytes > budget.budget_bytes:
            self._page_out(self._kept_bytes)

    def spilled(self, message: EntriesSpilled) -> None:
        """The spill has written rows, or has failed to."""
        self._is_spilling = False
        if not message.failed:
            self._page_out(self._kept_bytes, message.ranges)

    def _page_out(self, kept_bytes: int, spilled: Sequence[EntryRange] = ()) -> None:
        """Page, and have rows spilled that are on no disk yet; `spilled`: the spill has these."""
        self._kept_bytes = kept_bytes
        messages = self._messages
        synced_below = self._synced_below(messages.next_entry_id)
        self.awaits_sync = synced_below < messages.next_entry_id
        note_traced = self._tracing.paged if self._context.trace.is_on else None
        unspilled, used = messages.page_out(kept_bytes, synced_below, spilled, note_traced)
        if spilled:
            unused = ranges_without(spilled, sorted(used))
            if unused:
                self.drop_spilled(unused)
        if unspilled and not self._is_spilling:
            self._is_spilling = self.has_spilled = True
            rows = [ReadRow(each.batch, each.indexes, each.first_entry_id) for each in unspilled]
            tell(self._context.page_reader, SpillEntries(self._actor, self._queue_id, rows))

    def drop_spilled(self, ranges: Sequence[EntryRange] | None) -> None:
        """The spill need not have these any more; None: nothing of the queue."""
        ascending = None if ranges is None else sorted(ranges)
        tell(self._context.page_reader, DropSpilled(self._queue_id, ascending))

    def read_wanted(self) -> None:
        """Have read what the rules want: little, and nothing ahead, while memory is short.

        The journal was told before what the queue has delivered and settled.
        """
        if self._context.is_stopping:
            return
        budget = self._context.memory_budget
        is_short = budget.used_bytes > budget.budget_bytes
        if self._messages.wants_head:
            self._has_paged = False
        bytes_max = READ_BYTES_MIN
        if not is_short:
            bytes_max = min(self._context.read_ahead_bytes_max, budget.budget_bytes // READ_PART)
        wanted = self._messages.wanted(0 if is_short or self._has_paged else bytes_max)
        if wanted is None:
            return
        only_sizes = wanted.is_sizing
        if only_sizes:
            bytes_max = min(SIZED_BYTES_MAX, budget.budget_bytes // SIZED_PART)
        if wanted.is_spilled:
            asked = ReadSpilled(self._actor, self._queue_id, wanted.ranges, bytes_max, only_sizes)
            tell(self._context.page_reader, asked)
        else:
            stored = ReadEntries(self._actor, self._queue_id, wanted.ranges, bytes_max, only_sizes)
            tell(self._context.journal, stored)
