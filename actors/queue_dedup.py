"""The actor of a queue with `x-dedup-window`: what it has taken before is not taken again.

A Queue that divides each publish first (core/dedup_division.py). What is new goes the way of every
publish, but the identities go to the journal in the record of the messages, and into the window
once the queue has taken them: what it rejects is not remembered. What repeats is confirmed, and
nothing else happens to it; not before what it repeats is on disk.

Dead letters pass by the window: it is the broker that moves them, once, and a message that comes
back to its queue by way of another one is not published a second time.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence, Set
from typing import Final

from ..amqp_frames.batch import Indexes
from ..amqp_frames.dedup_headers import IdentityReader
from ..core.dedup_division import Division, divide_by_identity
from ..core.dedup_window import STORED_KIND, DedupWindow
from ..core.definitions import QueueDefinition
from ..core.effects import Effects
from ..core.message_queue import MessageQueue
from ..core.ready_by_priority import ReadyByPriority
from ..storage.identity_runs import NO_IDENTITY, Identities
from .messages import Append, ForgetIdentities, Publish, WakeAt, Woken
from .node_context import NodeContext
from .queue import Queue
from .queue_by_priority import QueueByPriority
from .repeat_answers import RepeatAnswers
from .runtime import tell

# What the queue is woken with.
IDENTITIES_AGE: Final = "identities age"


class DedupQueue(Queue):
    """A Queue with a window."""

    def __init__(
        self,
        context: NodeContext,
        definition: QueueDefinition,
        messages: MessageQueue,
        window: DedupWindow,
    ) -> None:
        super().__init__(context, definition, messages)
        self._window = window
        self._reader = IdentityReader()
        self._repeat_answers = RepeatAnswers(definition, self._tracing)
        self._answers = self._repeat_answers
        # Of the publish at hand, aligned with its indexes; empty if none of it has any.
        self._identities: Sequence[bytes] = ()
        # What of these the queue has refused.
        self._rejected: Set[bytes] = frozenset()
        # The journal was told that the window remembers nothing below.
        self._floor = 0
        self._is_awaited = False

    def on_receive(self, message: object) -> None:
        """As any queue, but of publishes only what is new."""
        if isinstance(message, Publish):
            is_letter = message.channel is self._context.dead_letters
            if not (is_letter or self._is_held):
                self._publish(message)
                return
        elif isinstance(message, Woken) and message.token is IDENTITIES_AGE:
            self._is_awaited = False
            self._window.expire(_now_ms())
            return
        super().on_receive(message)

    def _publish(self, message: Publish) -> None:
        # Should anything fail, all of it is answered, as if it was still in the mailbox.
        self._at_hand = message
        self._window.expire(_now_ms())
        batch = message.batch
        division = divide_by_identity(
            self._window, self._reader, batch, message.indexes, self._definition.durable
        )
        parts = (division.repeats_stored, division.repeats_transient, division.again)
        self._held_back.extendleft(
            message._replace(indexes=part) for part in reversed(parts) if part
        )
        if division.fresh:
            self._identities = division.identities if any(division.identities) else ()
            super().on_receive(message._replace(indexes=division.fresh))
        if division.repeats_stored:
            self._at_hand = self._held_back.popleft()
            self._repeat(message, division.repeats_stored, is_stored=True)
        if division.repeats_transient:
            self._at_hand = self._held_back.popleft()
            self._repeat(message, division.repeats_transient, is_stored=False)
        if division.again:
            self._at_hand = self._held_back.popleft()
            self._repeat_fresh(message, division)
        self._identities, self._rejected = (), frozenset()
        self._at_hand = None

    def _repeat(self, message: Publish, indexes: Indexes, is_stored: bool) -> None:
        """These have been taken before."""
        if indexes:
            batch = message.batch
            self._tracing.step("message.duplicate", batch, indexes)
            self._repeat_answers.repeat(message.channel, batch, indexes, is_stored)

    def _repeat_fresh(self, message: Publish, division: Division) -> None:
        """What repeats others of the same batch fares as these did."""
        rejected, stored, transient = array("I"), array("I"), array("I")
        for index, identity in zip(division.again, division.again_identities, strict=True):
            if identity in self._rejected:
                rejected.append(index)
            elif identity.endswith(STORED_KIND):
                stored.append(index)
            else:
                transient.append(index)
        self._repeat(message, stored, is_stored=True)
        self._repeat(message, transient, is_stored=False)
        if rejected:
            self._answers.reject(message.channel, message.batch, rejected)

    def _carry_out(self, effects: Effects, publish: Publish | None = None) -> None:
        """Remember what the queue has taken, in the journal with the messages."""
        if publish is not None and self._identities:
            self._remember(effects, publish)
        super()._carry_out(effects, publish)

    def _remember(self, effects: Effects, publish: Publish) -> None:
        indexes, identities = publish.indexes, self._identities
        if effects.rejected is not None:
            refused = set(effects.rejected)
            pairs = list(zip(indexes, identities, strict=True))
            taken = [pair for pair in pairs if pair[0] not in refused]
            self._rejected = {identity for index, identity in pairs if index in refused}
            indexes = array("I", [index for index, _ in taken])
            identities = [identity for _, identity in taken]
        window, first_entry_id = self._window, self._messages.next_entry_id - len(indexes)
        until_ms = window.until_ms(_now_ms())
        if effects.appended is not None:
            self._append(effects, publish, indexes, identities, until_ms)
        window.remember(list(filter(None, identities)), first_entry_id, until_ms)

    def _append(
        self,
        effects: Effects,
        publish: Publish,
        indexes: Indexes,
        identities: Sequence[bytes],
        until_ms: int,
    ) -> None:
        """Have the stored among the taken messages appended with their identities."""
        assert effects.appended is not None
        stored, entry_ids = effects.appended
        if len(stored) != len(indexes):
            among = set(stored)
            pairs = zip(indexes, identities, strict=True)
            identities = [identity for index, identity in pairs if index in among]
        octets = b"".join([identity or NO_IDENTITY for identity in identities])
        # Fsync before confirm: these are confirmed when the journal answers, their repeats, too.
        append = Append(
            self.actor_ref,
            self._definition.queue_id,
            publish.channel,
            publish.batch,
            stored,
            entry_ids,
            effects.deadlines,
            Identities(octets, until_ms),
        )
        self._answers.owe(append)
        tell(self._journal, append)
        effects.appended = None

    def on_idle(self) -> None:
        """As any queue; tell the journal what is forgotten, and see to it that more is in time."""
        super().on_idle()
        floor = self._window.floor(self._messages.next_entry_id)
        if floor != self._floor and self._definition.durable:
            self._floor = floor
            tell(self._journal, ForgetIdentities(self._definition.queue_id, floor))
        expiry_ms = self._window.next_expiry_ms()
        if expiry_ms is not None and not self._is_awaited:
            self._is_awaited = True
            seconds = max(0, expiry_ms - _now_ms()) / 1000
            when = self._context.runtime.scheduler.time() + seconds
            tell(self._context.ticker, WakeAt(when, self.actor_ref, IDENTITIES_AGE))


class DedupQueueByPriority(QueueByPriority, DedupQueue):
    """A queue with a window and priorities: each priority's part of a batch is looked up alone."""

    def __init__(
        self,
        context: NodeContext,
        definition: QueueDefinition,
        messages: MessageQueue,
        window: DedupWindow,
    ) -> None:
        DedupQueue.__init__(self, context, definition, messages, window)
        assert isinstance(messages.ready, ReadyByPriority)
        self._divide = messages.ready.divide


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
