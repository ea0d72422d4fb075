"""Transactions: what is held, what a commit does, what a rollback undoes."""

from __future__ import annotations

from both_brokers import compared
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicRecover,
    BasicReject,
    ConfirmSelect,
    QueueDeclare,
    QueueDelete,
    TxCommit,
    TxRollback,
    TxSelect,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from scripted_session import Channel, Session

DURABLE = QueueDeclare(queue="q", durable=True)
PERSISTENT = Properties(delivery_mode=2)
LOOK = QueueDeclare(queue="q", passive=True)


def in_transaction(session: Session) -> tuple[Channel, Channel]:
    """Channel 1 in tx mode with queue q, channel 2 to look from."""
    connection = session.connect()
    channel, looker = connection.channel(1), connection.channel(2)
    channel.ask(DURABLE, TxSelect())
    return channel, looker


def commits_and_rollbacks(session: Session) -> None:
    channel, looker = in_transaction(session)
    channel.publish("q", b"one", PERSISTENT)
    channel.publish("q", b"two")
    channel.settled()
    looker.ask(LOOK)
    channel.ask(TxCommit())
    looker.ask(LOOK, TxCommit())
    channel.publish("q", b"three")
    channel.ask(TxRollback(), TxSelect(), TxCommit(), TxRollback())
    looker.ask(LOOK, BasicGet(queue="q", no_ack=True), BasicGet(queue="q", no_ack=True))


def returns_at_the_commit(session: Session) -> None:
    channel, _ = in_transaction(session)
    channel.publish("nowhere", b"one", mandatory=True)
    channel.publish("nowhere", b"two")
    channel.publish("q", b"three", mandatory=True)
    channel.settled()
    channel.ask(TxCommit())
    channel.read()
    channel.publish("nowhere", b"four", mandatory=True)
    channel.ask(TxRollback(), TxCommit())


def mistakes_in_a_transaction(session: Session) -> None:
    channel, looker = in_transaction(session)
    channel.publish("q")
    channel.publish("k", exchange="missing")
    channel.read()
    looker.ask(LOOK)
    channel.ask(TxSelect(), TxSelect(), ConfirmSelect())
    channel.ask(ConfirmSelect(), TxSelect())
    channel.ask(TxRollback(), TxCommit())


def a_queue_that_goes_before_the_commit(session: Session) -> None:
    channel, looker = in_transaction(session)
    channel.publish("q", b"one", PERSISTENT, mandatory=True)
    channel.settled()
    looker.ask(QueueDelete(queue="q"))
    channel.ask(TxCommit())
    channel.read()


def a_queue_that_refuses_a_part(session: Session) -> None:
    channel, looker = in_transaction(session)
    full = {"x-max-length": Field("long", 1), "x-overflow": Field("longstr", "reject-publish")}
    looker.ask(QueueDeclare(queue="full", arguments=full))
    channel.publish("full", b"one")
    channel.publish("q", b"two", PERSISTENT)
    channel.ask(TxCommit())
    channel.publish("full", b"three")
    channel.publish("q", b"four", PERSISTENT)
    channel.publish("nowhere", b"five", mandatory=True)
    channel.ask(TxCommit())
    channel.read()
    looker.ask(LOOK, QueueDeclare(queue="full", passive=True))
    channel.ask(TxCommit())


def acknowledgements_in_a_transaction(session: Session) -> None:
    channel, looker = in_transaction(session)
    for body in (b"one", b"two", b"three", b"four"):
        channel.publish("q", body)
    channel.ask(TxCommit(), BasicConsume(queue="q", consumer_tag="c"))
    channel.read(4)
    channel.send(BasicAck(1), BasicReject(2, False), BasicNack(3, False, False))
    channel.ask(TxRollback())
    channel.send(BasicAck(3, True))
    channel.ask(TxCommit())
    channel.send(BasicAck(4))
    channel.ask(TxRollback())
    channel.ask(BasicRecover(True))
    channel.read()
    channel.send(BasicAck(5), BasicAck(5))
    channel.read()
    looker.wait_for_counts("q", 1)
    looker.ask(BasicGet(queue="q"))


def requeues_at_the_commit(session: Session) -> None:
    channel, looker = in_transaction(session)
    channel.publish("q", b"one")
    channel.ask(TxCommit(), BasicGet(queue="q"))
    channel.send(BasicNack(1, False, True))
    channel.settled()
    looker.ask(LOOK)
    channel.ask(TxCommit())
    looker.wait_for_counts("q", 1)
    looker.ask(BasicGet(queue="q", no_ack=True))


test_commits_and_rollbacks = compared(commits_and_rollbacks)
test_returns_at_the_commit = compared(returns_at_the_commit)
test_mistakes_in_a_transaction = compared(mistakes_in_a_transaction)
test_a_queue_that_goes_before_the_commit = compared(a_queue_that_goes_before_the_commit)
test_a_queue_that_refuses_a_part = compared(a_queue_that_refuses_a_part)
test_acknowledgements_in_a_transaction = compared(acknowledgements_in_a_transaction)
test_requeues_at_the_commit = compared(requeues_at_the_commit)
