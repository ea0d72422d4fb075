"""The tx mode of a channel: publishes and acknowledgements wait for tx.commit or tx.rollback.

Runs inside the channel's actor, and is apart from it only to be read by itself. A commit routes
all that was published and sends the returns. When every queue has confirmed, when what is
persistent is on disk, it passes the acknowledgements on to the queues and is answered. What one
queue was told and another refused stays: a transaction is whole within one queue only, as in
RabbitMQ. What comes in behind a commit is held back until it is answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..amqp_frames.batch import Batch
from ..amqp_frames.constants import PRECONDITION_FAILED
from ..amqp_frames.errors import SoftError
from ..amqp_frames.methods import TxCommit, TxCommitOk, TxRollbackOk
from ..amqp_frames.rewritten import with_properties
from ..core.publish_properties import PUBLISH
from ..core.publisher import Publisher
from ..core.transaction import BATCH_BYTES, Transaction, TransactionMemory
from .messages import CommitMore, Discard, Requeue, Settle
from .runtime import tell

if TYPE_CHECKING:
    from .channel import Channel
    from .channel_deliveries import Deliveries

# A large transaction is routed in several turns, between which others have theirs.
BATCHES_PER_TURN_MAX = 64


class ChannelTransaction:
    """What waits on the actor `channel`, which is in tx mode from here on."""

    def __init__(
        self,
        channel: Channel,
        publisher: Publisher,
        deliveries: Deliveries,
        memory: TransactionMemory,
    ) -> None:
        self._channel = channel
        self._publisher = publisher
        self._deliveries = deliveries
        self._held: Transaction[type[Settle] | type[Discard] | type[Requeue]] = Transaction(memory)
        self._is_committing = False
        self._has_failed = False
        # Of the commit at hand.
        self._publish_count = 0
        publisher.transactional = channel.tracing.is_transactional = True
        deliveries.transaction = self._held
        deliveries.timeouts.is_transactional = True

    def publish(self, batch: Batch) -> None:
        """Hold what was published; a mistake is told now."""
        if len(batch.wire) > 2 * batch.wire_bytes() + BATCH_BYTES:
            # A copy: few messages must not keep a whole read in memory.
            batch = with_properties(batch, {})
        held = self._publisher.hold(batch)
        try:
            self._held.hold_publishes(held)
        except SoftError as error:
            error.class_id, error.method_id = PUBLISH
            raise

    def commit(self, method: TxCommit) -> None:
        """Begin to carry out what waits; nothing of it if there is no way for all of it."""
        for held in self._held.publishes:
            self._publisher.check_held(held)
        self._is_committing = True
        self._publish_count = self._held_count() if self._channel.tracing.is_on else 0
        self._channel.commands.await_answer(method)
        self.commit_more()

    def commit_more(self) -> None:
        """Route the next batches of the commit."""
        publishes = self._held.publishes
        for _ in range(min(BATCHES_PER_TURN_MAX, len(publishes))):
            held = publishes.popleft()
            # Given back when it was held; from here on it is the queues' to absorb.
            self._channel.window.take(held.batch.wire_bytes())
            routed = self._publisher.route_held(held)
            self._channel.tell_queues(routed)
            # Its exchange went between two turns.
            self._has_failed = self._has_failed or routed.error is not None
        if publishes:
            tell(self._channel.actor_ref, CommitMore())

    def finish(self) -> bool:
        """Answer a commit of which nothing is owed any more; true if it was answered.

        Fsync before ack: what was acknowledged is settled only now, so that a message that is
        passed on in a transaction is at no time on the disk in neither queue. 406 if a queue has
        refused a part; then nothing is settled.
        """
        unconfirmed = self._publisher.unconfirmed
        if not self._is_committing or self._held.publishes or unconfirmed.smallest():
            return False
        has_failed = self._has_failed or bool(unconfirmed.rejected)
        unconfirmed.confirmed.clear()
        unconfirmed.rejected.clear()
        self._is_committing = self._has_failed = False
        self._channel.commands.awaited = None
        if has_failed:
            ids = TxCommit.class_id, TxCommit.method_id
            self._tell("transaction.failed", self._publish_count, "partial tx completion")
            raise SoftError(PRECONDITION_FAILED, "partial tx completion", *ids)
        for kind, parts in self._held.acks:
            self._deliveries.give_back(parts, kind)
        self._deliveries.timeouts.transaction_ended(is_rolled_back=False)
        self._channel.write(TxCommitOk())
        self._tell("transaction.committed", self._publish_count)
        self._held.clear()
        return True

    def release(self) -> None:
        """The channel has ended: what it held is forgotten, and its memory others' to use."""
        self._held.clear()

    def rollback(self) -> None:
        """Forget what was published; what was acknowledged is unacknowledged again."""
        for _kind, parts in self._held.acks:
            self._deliveries.put_back(parts)
        self._deliveries.timeouts.transaction_ended(is_rolled_back=True)
        self._tell("transaction.rolled_back", self._held_count())
        self._held.clear()
        self._channel.write(TxRollbackOk())

    def _held_count(self) -> int:
        return sum(len(held.batch) for held in self._held.publishes)

    def _tell(self, event: str, publishes: int, reason: str = "") -> None:
        if not self._channel.tracing.is_on:
            return
        acks = sum(high - low for _kind, parts in self._held.acks for _, low, high in parts)
        self._channel.tracing.transaction(event, publishes, acks, reason)
