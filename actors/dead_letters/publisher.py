"""Publishes what queues drop to their dead-letter exchanges, like a channel in confirm mode.

The rules are core/dead_letters/letters.py's. Queues are told Publish and answer Confirm or Reject,
as they answer a channel; once all of them have a dead letter, the queue that it came from is told
to settle the original: the dead letter is safe before the original goes. Parent: the node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ...amqp_frames.messages.batch import Batch
from ...core.dead_letters.letters import Dead, DeadLetterRounds, DeadLetters, Stranded
from ...core.definitions import QueueDefinition
from ...core.exchanges.exchange import Steps
from ...core.queue.span import ranges_of
from ..messages import (
    AlarmCleared,
    Confirm,
    DeadLettersSafe,
    Publish,
    PublishDead,
    Ref,
    Reject,
    RouteMore,
    WakeAt,
    Woken,
)
from ..node_context import NodeContext
from ..runtime.runtime import LoopActor, tell
from ..tracing.dead_letters import DeadLetterTracing

# How often the actor looks whether the queue is still there.
LOOK_SECONDS: Final = 1.0
_LOOK: Final = "look for stranded letters"


class StrandedLetters:
    """Originals that wait until their failed queue is deleted. `actor` is woken to look.

    A queue that has failed is down until the node starts again, and a start brings the originals
    back by itself; but a client that deletes the queue, and declares it anew, need not wait for a
    start. Then each original is routed again, to all queues of its key: a queue that has the dead
    letter already may get it twice.
    """

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
        deleted = {target for target in targets if table_of(target) is None}
        if deleted:
            kept, self._kept = self._kept, []
            self._batches.clear()
            self._kept_bytes = 0
            self.add([each for each in kept if each.target not in deleted])
            for each in kept:
                if each.target in deleted and table_of(each.source) is not None:
                    yield each.source, each.dead
        self._wait()

    def _wait(self) -> None:
        if self._kept and not self._is_waiting:
            self._is_waiting = True
            when = self._context.runtime.scheduler.time() + LOOK_SECONDS
            tell(self._context.ticker, WakeAt(when, self._actor, _LOOK))


class DeadLetterPublisher(LoopActor):
    """One for the node."""

    def __init__(self, context: NodeContext) -> None:
        super().__init__()
        self._context = context
        self._letters = DeadLetters(context.vhosts.tables.get, context.next_batch_number)
        self._tracing = DeadLetterTracing(context.trace)
        self._waiting: deque[tuple[QueueDefinition, Dead]] = deque()
        self.waiting_count = 0
        self._rounds = DeadLetterRounds()
        self._stranded = StrandedLetters(context, self.actor_ref)
        self._is_scheduled = False
        # The round at hand, if there was no time for all of its routing.
        self._routing: Steps[bool] | None = None
        # The journal is about to close.
        self._has_ended = False

    def on_receive(self, message: object) -> None:
        """Take dead messages, the answers of queues, a wake-up, RouteMore, or None: go on with the
        waiting letters."""
        letters = self._letters
        if isinstance(message, PublishDead):
            # First, because the queue will report these refusals, too, and that report is no
            # answer any more.
            refused = [dead for dead in message.dead if not dead[0].first_entry_id]
            if refused:
                letters.refused(message.queue, refused)
            for dead in message.dead:
                self._waiting.append((message.queue, dead))
                self.waiting_count += len(dead[0].indexes)
            if not self._is_scheduled:
                self._publish_some()
        elif isinstance(message, Confirm):
            for batch, indexes in message.items:
                confirmed = letters.confirm(message.queue, batch, indexes)
                if self._tracing.owed:
                    self._tracing.confirmed(batch, confirmed)
        elif isinstance(message, Reject):
            for batch, indexes in message.items:
                if message.is_for_now:
                    self._wait_for_room(message.queue, batch, indexes)
                else:
                    self._rejected(message.queue, batch, indexes)
        elif isinstance(message, Woken):
            self._stranded.woken()
            self._retry_freed()
        elif isinstance(message, AlarmCleared):
            self._publish_waiting()
        elif isinstance(message, RouteMore):
            self._route_more()
        elif message is None:
            self._is_scheduled = False
            self._publish_some()

    def end(self) -> None:
        """Publish nothing from now on: the originals stay in their queues' journal, for a start.

        A letter that is published now might be written when its original cannot be settled any
        more, and both would be there after the start.
        """
        self._has_ended = True

    def is_drained(self) -> bool:
        """Is every dead letter safe, and its original on its way to be settled?

        Those that wait for room on the disk wait in their queues' journal, too, for a start.
        """
        is_waiting = self._waiting and not self._context.is_disk_full
        return not (is_waiting or self._routing is not None or len(self._letters))

    def on_idle(self) -> None:
        """Have the safe originals settled, one tell for each queue."""
        if self._letters.answered:
            self._tracing.answered_for(self._letters.answered)
        safe = self._tracing.safe
        if self._letters.settled:
            for source, entry_ids in self._letters.settled.items():
                traced = safe.pop(source, ())
                tell(source.handle, DeadLettersSafe(ranges_of(entry_ids), traced))
            self._letters.settled.clear()
        while safe:
            # Those that the journal does not know.
            source, transient = safe.popitem()
            tell(source.handle, DeadLettersSafe((), transient))
        while self._letters.cycles:
            vhost, name, target = self._letters.cycles.pop()
            self.runtime.log.warning(
                "queue.dead_letter_cycle", vhost=vhost, queue=name, target=target
            )

    def _publish_some(self) -> None:
        """Publish the waiting letters up to a bound; the rest when the event loop has been
        round."""
        if self._context.is_disk_full or self._has_ended:
            return
        steps = self._round()
        try:
            next(steps)
        except StopIteration:
            # None of them had to be routed in steps.
            self._round_is_over()
            return
        self._is_scheduled = True
        self._routing = steps
        turns = self._context.routing_turns
        if turns.begin(steps, self.actor_ref, self._rounds.size):
            self._round_is_over()
        else:
            self._rounds.ended(self.waiting_count)

    def _route_more(self) -> None:
        if self._routing is None or self._has_ended:
            return
        turns = self._context.routing_turns
        if turns.go_on(self._routing, self.actor_ref, self._rounds.size):
            self._round_is_over()
        else:
            self._rounds.ended(self.waiting_count)

    def _round_is_over(self) -> None:
        self._routing = None
        self._rounds.ended(self.waiting_count)
        self._is_scheduled = bool(self._waiting)
        if self._is_scheduled:
            self.runtime.scheduler.call_soon(self._go_on)

    def _round(self) -> Steps[bool]:
        """Publish a round of the waiting letters, in the steps of their routing."""
        waiting = self._waiting
        room, room_bytes = self._rounds.messages_max, self._rounds.bytes_max
        while waiting and room > 0 and room_bytes > 0:
            source = waiting[0][0]
            dead: list[Dead] = []
            dead_count = 0
            while waiting and room > 0 and room_bytes > 0 and waiting[0][0] is source:
                span, reason = waiting.popleft()[1]
                count, size_bytes = len(span.indexes), span.wire_bytes()
                fitting = max(1, min(room, room_bytes * count // size_bytes))
                if fitting < count:
                    waiting.appendleft((source, (span.part(fitting, count), reason)))
                    span = span.part(0, fitting)
                    count, size_bytes = fitting, span.wire_bytes()
                dead_count += count
                room -= count
                room_bytes -= size_bytes
                dead.append((span, reason))
            yield from self._publish(source, dead)
            self.waiting_count -= dead_count
        return True

    def _go_on(self) -> None:
        self.runtime.tell_now(self.actor_ref, None)

    def _publish(self, source: QueueDefinition, dead: list[Dead]) -> Steps[None]:
        # State before effects: what queues owe is noted before they are told.
        origins = self._tracing.wants_origins(dead) if self._context.trace.is_on else None
        now_seconds = self.runtime.wall_clock.now_seconds()
        letters = yield from self._letters.publish(source, dead, now_seconds, origins)
        if origins is not None:
            self._tracing.published(source, letters, origins)
        if letters is None:
            return
        # A message arrives anew where its dead letter goes.
        letters.batch.received_ns = self._context.trace.now_ns()
        for queue, indexes in letters.by_queue.items():
            delays_ms = letters.delays.get(queue, 0)
            if not tell(queue.handle, Publish(self.actor_ref, letters.batch, indexes, delays_ms)):
                self._rejected(queue, letters.batch, indexes)

    def _wait_for_room(self, queue: QueueDefinition, batch: Any, indexes: Any) -> None:
        """The disk has none for these: their originals stay, and are dead anew when it has."""
        self._tracing.failed(batch, self._letters.failed(queue, batch, indexes))
        for stranded in self._letters.stranded:
            self._waiting.append((stranded.source, stranded.dead))
            self.waiting_count += len(stranded.dead[0])
        self._letters.stranded.clear()
        self._publish_waiting()

    def _rejected(self, queue: QueueDefinition, batch: Any, indexes: Any) -> None:
        """A queue will not have these: it is full or deleted, or it has failed."""
        has_failed = (
            not queue.handle.is_alive() and self._context.vhosts.table_of(queue) is not None
        )
        letters, tracing = self._letters, self._tracing
        if has_failed:
            tracing.failed(batch, letters.failed(queue, batch, indexes))
        else:
            tracing.rejected(batch, letters.confirm(queue, batch, indexes))
        self._stranded.add(self._letters.stranded)
        self._letters.stranded.clear()

    def _retry_freed(self) -> None:
        """Make dead letters anew of messages stranded by a queue that is deleted."""
        for source, dead in self._stranded.freed():
            self._waiting.append((source, dead))
            self.waiting_count += len(dead[0])
        self._publish_waiting()

    def _publish_waiting(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._publish_some()

    def on_failure(self, *exception: Any) -> None:
        """Its originals would be neither here nor there until a restart: the node ends."""
        self._context.on_fatal("dead letter publisher", exception[1])
