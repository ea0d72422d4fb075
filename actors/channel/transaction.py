"""The tx mode of a channel: publishes and acknowledgements wait for tx.commit or tx.rollback.

Runs inside the channel's actor. A commit routes all held publishes and sends the returns. When
every queue has confirmed, so that the persistent messages are on disk, it passes the
acknowledgements on to the queues and is answered. If one queue takes its publishes and another
refuses its own, the first queue keeps them: a transaction is whole within one queue only, as in
RabbitMQ. The channel holds back all input behind a commit until the commit is answered.
"""

from __future__ import annotations

from ...amqp_frames.constants import PRECONDITION_FAILED
from ...amqp_frames.errors import SoftError
from ...amqp_frames.messages.batch import Batch
from ...amqp_frames.messages.copies import with_properties
from ...amqp_frames.methods import TxCommit, TxCommitOk, TxRollbackOk
from ...core.channel.transaction import BATCH_BYTES, Transaction, TransactionMemory
from ...core.channel.waiting import State, Waiting
from ...core.connection.publish_window import WindowShare
from ...core.publishing.properties import PUBLISH
from ...core.publishing.publisher import Publisher, Routed
from ..messages import CommitMore, Discard, Ref, Requeue, Settle
from ..runtime.runtime import tell
from ..tracing.trace import ChannelTracing
from .client_side import ClientSide
from .deliveries import Deliveries
from .routing import ChannelRouting

# A large transaction is routed in several turns, between which others have theirs.
BATCHES_PER_TURN_MAX = 64


class ChannelTransaction:
    """The open transaction of the actor `channel`, which is in tx mode from here on.

    `window` counts the publishes that a commit passes on until the queues have absorbed them.
    """

    def __init__(
        self,
        channel: Ref,
        client: ClientSide,
        tracing: ChannelTracing,
        waiting: Waiting,
        publisher: Publisher,
        routing: ChannelRouting,
        deliveries: Deliveries,
        window: WindowShare,
        memory: TransactionMemory,
    ) -> None:
        self._channel = channel
        self._client = client
        self._tracing = tracing
        self._waiting = waiting
        self._routing = routing
        self._window = window
        self._publisher = publisher
        self._deliveries = deliveries
        self._held: Transaction[type[Settle] | type[Discard] | type[Requeue]] = Transaction(memory)
        self._has_failed = False
        # Why a part of the commit was refused, if that is not the queue's own doing.
        self.why_refused = ""
        # Of the commit at hand.
        self._publish_count = 0
        publisher.transactional = tracing.is_transactional = True
        deliveries.transaction = self._held
        deliveries.outstanding.timeouts.is_transactional = True

    def publish(self, batch: Batch) -> None:
        """Hold these publishes; the client hears of a mistake now, not at the commit."""
        if len(batch.wire) > 2 * batch.wire_bytes + BATCH_BYTES:
            # A copy: few messages must not keep a whole read in memory.
            batch = with_properties(batch, {})
        held = self._publisher.hold(batch)
        try:
            self._held.hold_publishes(held)
        except SoftError as error:
            error.class_id, error.method_id = PUBLISH
            raise

    def commit(self) -> None:
        """Begin to carry out the transaction; none of it if one of its publishes has no route."""
        for held in self._held.publishes:
            self._publisher.check_held(held)
        self._publish_count = self._held_count() if self._tracing.trace.is_on else 0
        self._waiting.commit()
        self.commit_more()

    def commit_more(self) -> None:
        """Route the next batches of the commit."""
        publishes = self._held.publishes
        for _ in range(min(BATCHES_PER_TURN_MAX, len(publishes))):
            held = publishes.popleft()
            # Given back when it was held; from here on it is the queues' to absorb.
            self._window.add(held.batch.wire_bytes)
            routed = self._routing.begin(self._publisher.route_held(held))
            if routed is None:
                return
            self._pass_on(routed)
        if publishes:
            tell(self._channel, CommitMore())

    def routed(self, routed: Routed) -> None:
        """Pass on a batch that has taken long to route, and go on with the commit."""
        self._pass_on(routed)
        self.commit_more()

    def _pass_on(self, routed: Routed) -> None:
        self._routing.tell_queues(routed)
        # Its exchange went between two turns.
        self._has_failed = self._has_failed or routed.error is not None

    def finish(self) -> bool:
        """Answer a commit of which nothing is owed any more; true if it was answered.

        Fsync before ack: the queues settle acknowledged messages only now, so that a message that
        a transaction passes on from one queue to another is on the disk in one of them at all
        times. 406 if a queue has refused a part; then nothing is settled.
        """
        unconfirmed = self._publisher.unconfirmed
        is_told = self._waiting.state is State.COMMIT and not self._held.publishes
        if not is_told or unconfirmed.smallest():
            return False
        has_failed = self._has_failed or bool(unconfirmed.rejected)
        unconfirmed.confirmed.clear()
        unconfirmed.rejected.clear()
        self._has_failed = False
        self._waiting.committed()
        if has_failed:
            ids = TxCommit.class_id, TxCommit.method_id
            # In RabbitMQ's words, which clients look for, and then in ours.
            text = "partial tx completion" + (self.why_refused and f", {self.why_refused}")
            self._tell("transaction.failed", self._publish_count, text)
            raise SoftError(PRECONDITION_FAILED, text, *ids)
        for kind, parts in self._held.acks:
            self._deliveries.report(parts, kind)
        self._deliveries.transaction_ended(is_rolled_back=False)
        self._client.write(TxCommitOk())
        self._tell("transaction.committed", self._publish_count)
        self._held.clear()
        return True

    def release(self) -> None:
        """The channel has ended: forget its transaction, so that others can use the memory."""
        self._held.clear()

    def rollback(self) -> None:
        """Forget the held publishes; the acknowledged messages are unacknowledged again."""
        for _kind, parts in self._held.acks:
            self._deliveries.outstanding.hold_again(parts)
        self._deliveries.transaction_ended(is_rolled_back=True)
        self._tell("transaction.rolled_back", self._held_count())
        self._held.clear()
        self._client.write(TxRollbackOk())

    def _held_count(self) -> int:
        return sum(len(held.batch) for held in self._held.publishes)

    def _tell(self, event: str, publishes: int, reason: str = "") -> None:
        if not self._tracing.trace.is_on:
            return
        acks = sum(high - low for _kind, parts in self._held.acks for _, low, high in parts)
        self._tracing.transaction(event, publishes, acks, reason)
