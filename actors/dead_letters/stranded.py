"""Messages that have no dead letter because its queue has failed: they wait until that is deleted.

Runs inside the actor that publishes dead letters. A queue that has failed is down until the node
starts again, and a start brings the originals back by itself; but a client that deletes the queue,
and declares it anew, need not wait for a start. Then each original is routed again, to all queues
of its key: a queue that has the dead letter already may get it twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...amqp_frames.messages.batch import Batch
from ...core.dead_letters.letters import Dead, Stranded
from ...core.definitions import QueueDefinition
from ..messages import Ref, WakeAt
from ..node_context import NodeContext
from ..runtime.runtime import tell

# How often the actor looks whether the queue is still there.
LOOK_SECONDS: Final = 1.0
_LOOK: Final = "look for stranded letters"


class StrandedLetters:
    """Originals that wait until their failed queue is deleted. `actor` is woken to look."""

    def __init__(self, context: NodeContext, actor: Ref) -> None:
        self._context = context
        self._actor = actor
        self._kept: list[Stranded] = []
        # What these keep.
        self._batches: set[Batch] = set()
        self._kept_bytes = 0
        self._is_waiting = False

    def add(self, stranded: Sequence[Stranded]) -> None:
        """Keep these, as many as there is room for; the rest waits in its journal for a start."""
        count_max = self._context.stranded_letters_max
        bytes_max = self._context.stranded_letters_bytes_max
        for each in stranded:
            # A message keeps all of its batch, which may be much larger.
            batch = each.dead[0].batch
            more_bytes = 0 if batch in self._batches else len(batch.wire)
            if len(self._kept) < count_max and self._kept_bytes + more_bytes <= bytes_max:
                self._kept.append(each)
                self._batches.add(batch)
                self._kept_bytes += more_bytes
        self._wait()

    def woken(self) -> None:
        """The ticker has rung."""
        self._is_waiting = False

    def freed(self) -> Iterator[tuple[QueueDefinition, Dead]]:
        """Take out those whose queue is no more, but for those whose source has gone, too."""
        table_of = self._context.vhosts.table_of
        targets = {each.target for each in self._kept}
        gone = {target for target in targets if table_of(target) is None}
        if gone:
            kept, self._kept = self._kept, []
            self._batches.clear()
            self._kept_bytes = 0
            self.add([each for each in kept if each.target not in gone])
            for each in kept:
                if each.target in gone and table_of(each.source) is not None:
                    yield each.source, each.dead
        self._wait()

    def _wait(self) -> None:
        if self._kept and not self._is_waiting:
            self._is_waiting = True
            when = self._context.runtime.scheduler.time() + LOOK_SECONDS
            tell(self._context.ticker, WakeAt(when, self._actor, _LOOK))
