"""The tx mode of a channel: publishes and acknowledgements wait for tx.commit or tx.rollback.

A commit routes all held publishes; their returns go out meanwhile. When every queue has confirmed,
so that the persistent messages are on disk, the acknowledgements return to the queues and the
commit is answered. If one queue takes its publishes and another refuses its own, the first queue
keeps them: a transaction is whole within one queue only, as in RabbitMQ. The channel holds back all
input behind a commit until the commit is answered (waiting.py).

`transaction.py` keeps the held publishes and acknowledgements, and bounds them.
"""

from __future__ import annotations

from typing import NamedTuple

from ...amqp_frames.constants import PRECONDITION_FAILED
from ...amqp_frames.errors import SoftError
from ...amqp_frames.messages.batch import Batch
from ...amqp_frames.messages.copies import with_properties
from ...amqp_frames.methods import Method, TxCommit, TxCommitOk, TxRollbackOk
from ..connection.publish_window import WindowShare
from ..publishing.delivery_commands import has_only_commands
from ..publishing.properties import PUBLISH
from ..publishing.publisher import Held, Publisher, Routed
from .outstanding import Outstanding, Returned
from .transaction import BATCH_BYTES, HeldAcks, Outcome, Transaction, TransactionMemory
from .waiting import State, Waiting


class TransactionEnd(NamedTuple):
    """The effects of a commit or a rollback, in order; an error ends the channel instead."""

    # For the trace: the event, how many publishes the transaction held, its acknowledgements, and
    # why it has failed.
    event: str
    publish_count: int
    acks: list[HeldAcks]
    reason: str
    # What the queues get back.
    returned: list[tuple[Outcome, Returned]]
    answer: Method | None
    error: SoftError | None = None


class TxMode:
    """A channel is in tx mode from here on; one transaction follows the other.

    `window` counts the publishes that a commit passes on until the queues have absorbed them;
    `memory` bounds the held publishes and acknowledgements.
    """

    def __init__(
        self,
        publisher: Publisher,
        outstanding: Outstanding,
        waiting: Waiting,
        window: WindowShare,
        memory: TransactionMemory,
    ) -> None:
        self._publisher = publisher
        self._outstanding = outstanding
        self._waiting = waiting
        self._window = window
        self._held = Transaction(memory)
        self._has_failed = False
        # Why a part of the commit was refused, if that is not the queue's own doing.
        self.why_refused = ""
        publisher.transactional = True
        outstanding.transaction = self._held
        outstanding.timeouts.is_transactional = True

    def publish(self, batch: Batch) -> None:
        """Hold these publishes; AmqpError for a mistake now, not at the commit."""
        if len(batch.wire) > 2 * batch.wire_bytes + BATCH_BYTES:
            # A copy: few messages must not keep a whole read in memory.
            batch = with_properties(batch, {})
        held = self._publisher.hold(batch)
        if has_only_commands(batch):
            # Carried out, or held as acknowledgements; there is nothing to route.
            return
        try:
            self._held.hold_publishes(held)
        except SoftError as error:
            error.class_id, error.method_id = PUBLISH
            raise

    def commit(self) -> None:
        """Begin a commit; AmqpError, and none of it, if one of its publishes has no route."""
        for held in self._held.publishes:
            self._publisher.check_held(held)
        self._waiting.commit()

    def next_publishes(self) -> Held | None:
        """The batch of the commit that is to be routed next; None if all are."""
        publishes = self._held.publishes
        if not publishes:
            return None
        held = publishes.popleft()
        # Given back when it was held; from here on it is the queues' to absorb.
        self._window.add(held.batch.wire_bytes)
        return held

    def routed(self, routed: Routed) -> None:
        """The queues have been told a batch of the commit."""
        # Its exchange may have gone between two turns.
        self._has_failed = self._has_failed or routed.error is not None

    def is_told(self) -> bool:
        """Have all publishes of the commit been passed on to their queues?"""
        return not self._held.publishes

    def finish(self) -> TransactionEnd | None:
        """End a commit of which nothing is owed any more; None while something is.

        Fsync before ack: the queues settle acknowledged messages only now, so that a message that
        a transaction passes on from one queue to another is on the disk in one of them at all
        times. 406 if a queue has refused a part; then nothing is settled.
        """
        unconfirmed = self._publisher.unconfirmed
        is_told = self._waiting.state is State.COMMIT and self.is_told()
        if not is_told or unconfirmed.smallest():
            return None
        has_failed = self._has_failed or bool(unconfirmed.rejected)
        unconfirmed.confirmed.clear()
        unconfirmed.rejected.clear()
        self._has_failed = False
        self._waiting.committed()
        count, acks = self._held.publish_count, list(self._held.acks)
        if has_failed:
            # In RabbitMQ's words, which clients look for, and then in ours.
            text = "partial tx completion" + (self.why_refused and f", {self.why_refused}")
            error = SoftError(PRECONDITION_FAILED, text, TxCommit.class_id, TxCommit.method_id)
            return TransactionEnd("transaction.failed", count, acks, text, [], None, error)
        returned = [
            (held.outcome, self._outstanding.return_parts(held.parts, held.delay_ms))
            for held in acks
        ]
        self._outstanding.timeouts.transaction_ended(is_rolled_back=False)
        self._held.clear()
        return TransactionEnd("transaction.committed", count, acks, "", returned, TxCommitOk())

    def rollback(self) -> TransactionEnd:
        """Forget the held publishes; the acknowledged messages are unacknowledged again."""
        count, acks = self._held.publish_count, list(self._held.acks)
        for held in acks:
            self._outstanding.hold_again(held.parts)
        self._outstanding.timeouts.transaction_ended(is_rolled_back=True)
        self._held.clear()
        return TransactionEnd("transaction.rolled_back", count, acks, "", [], TxRollbackOk())

    def release(self) -> None:
        """The channel has ended: forget its transaction, so that others can use the memory."""
        self._held.clear()
