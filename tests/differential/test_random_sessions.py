"""Random sessions: whatever is asked on one channel, in whatever order, is answered alike.

One channel, because what it asks and is answered has one order; no consumer, time or dead letter,
because what they set off has not. A failure prints the seed, which makes the same session again.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from both_brokers import BothBrokers
from client_frames import publish
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicGet,
    BasicNack,
    BasicRecover,
    BasicReject,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Table, table_of
from scripted_channel import Channel
from scripted_session import Session

STEPS = 80
SEEDS = range(25)
SOAK_SEEDS = range(1_000, 1_300)
A_NACK_ALONE = ("multiple=True", "multiple=False")

QUEUES = ("a", "b", "c")
EXCHANGES = ("x", "y", "amq.direct", "amq.fanout", "amq.topic", "amq.match", "missing")
TYPES = ("direct", "fanout", "topic", "headers")
KEYS = ("", "k", "k.l", "k.*", "#", "*.l")
QUEUE_ARGUMENTS: tuple[Table, ...] = tuple(
    table_of(each)
    for each in (
        {},
        {},
        {"x-max-length": 2},
        {"x-max-length": 2, "x-overflow": "reject-publish"},
        {"x-max-priority": 3},
        {"x-max-length-bytes": 5},
    )
)
HEADERS: tuple[Table, ...] = tuple(
    table_of(each)
    for each in ({}, {"h": 1}, {"h": "1"}, {"h": 1, "i": None}, {"x-match": "any", "h": 1, "i": 2})
)
COPIES: tuple[Table, ...] = tuple(
    table_of(each) for each in ({}, {"CC": ["a", "k"]}, {"BCC": ["b"]}, {"CC": "wrong"}, {"h": 1})
)


class Author:
    """Writes one session, step by step, before anybody is asked."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._makers = {
            self.declare_queue: 6,
            self.declare_exchange: 3,
            self.bind: 8,
            self.unbind: 3,
            self.delete: 2,
            self.message: 30,
            self.get: 15,
            self.settle: 12,
            self.recover: 1,
        }

    def steps(self) -> list[Method | bytes]:
        makers, weights = list(self._makers), list(self._makers.values())
        return [make() for make in self._random.choices(makers, weights, k=STEPS)]

    def transacted(self) -> list[Method | bytes]:
        """The same, with its publishes and settles in transactions, and all else between them."""
        held = (bytes, BasicAck, BasicNack, BasicReject, BasicGet)
        steps: list[Method | bytes] = []
        for step in self.steps():
            if not isinstance(step, held):
                steps.append(TxCommit())
            elif self._is(0.1):
                steps.append(TxRollback())
            steps.append(step)
        return steps

    def _is(self, chance: float) -> bool:
        return self._random.random() < chance

    def declare_queue(self) -> Method:
        return QueueDeclare(
            queue=self._random.choice(QUEUES),
            passive=self._is(0.3),
            durable=self._is(0.1),
            auto_delete=self._is(0.1),
            arguments=self._random.choice(QUEUE_ARGUMENTS),
        )

    def declare_exchange(self) -> Method:
        alternate = table_of({"alternate-exchange": self._random.choice(EXCHANGES)})
        return ExchangeDeclare(
            exchange=self._random.choice(EXCHANGES[:2]),
            type=self._random.choice(TYPES),
            auto_delete=self._is(0.2),
            internal=self._is(0.1),
            arguments=alternate if self._is(0.3) else {},
        )

    def bind(self) -> Method:
        return self._binding(QueueBind, ExchangeBind)

    def unbind(self) -> Method:
        return self._binding(QueueUnbind, ExchangeUnbind)

    def _binding(self, of_queue: type, of_exchange: type) -> Method:
        key, headers = self._random.choice(KEYS), self._random.choice(HEADERS)
        source = self._random.choice(EXCHANGES)
        # Bindings between the broker's own exchanges would outlive the session.
        target = self._random.choice(EXCHANGES[:2])
        made: Method = (
            of_exchange(destination=target, source=source, routing_key=key, arguments=headers)
            if self._is(0.25)
            else of_queue(
                queue=self._random.choice(QUEUES),
                exchange=source,
                routing_key=key,
                arguments=headers,
            )
        )
        return made

    def delete(self) -> Method:
        if self._is(0.3):
            return QueuePurge(queue=self._random.choice(QUEUES))
        if self._is(0.5):
            exchange = self._random.choice(EXCHANGES)
            return ExchangeDelete(exchange=exchange, if_unused=self._is(0.5))
        queue = self._random.choice(QUEUES)
        return QueueDelete(queue=queue, if_unused=self._is(0.3), if_empty=self._is(0.5))

    def message(self) -> bytes:
        to_queue = self._is(0.4)
        key = self._random.choice(QUEUES if to_queue else KEYS)
        headers = self._random.choice(COPIES) if self._is(0.3) else None
        priority = self._random.choice((None, None, 0, 1, 9))
        return publish(
            key,
            b"%d" % self._random.randrange(1000),
            Properties(headers=headers, priority=priority, delivery_mode=1 + self._is(0.3)),
            exchange="" if to_queue else self._random.choice(EXCHANGES[:6]),
            mandatory=self._is(0.4),
        )

    def get(self) -> Method:
        return BasicGet(queue=self._random.choice(QUEUES), no_ack=self._is(0.3))

    def settle(self) -> Method:
        tag = self._random.randrange(5)
        return self._random.choice(
            [
                BasicAck(tag, self._is(0.3)),
                BasicNack(tag, self._is(0.3), self._is(0.7)),
                BasicReject(tag, self._is(0.7)),
            ]
        )

    def recover(self) -> Method:
        return BasicRecover(True)


def carry_out(channel: Channel, step: Method | bytes) -> None:
    """Send it, and write down all that comes of it."""
    if isinstance(step, bytes):
        channel.ask(ConfirmSelect())
        channel.send(step)
        channel.published()
    elif isinstance(step, BasicAck | BasicNack | BasicReject):
        channel.send(step)
        channel.settled()
    else:
        channel.ask(step)


def carry_out_transacted(channel: Channel, step: Method | bytes) -> None:
    """Send it in a transaction, and write down all that comes of it."""
    channel.ask(TxSelect())
    channel.send(step)
    if isinstance(step, bytes | BasicAck | BasicNack | BasicReject):
        channel.settled()
    elif isinstance(step, TxCommit):
        # Returns of mandatory messages stand before it.
        while channel.read().method.name not in ("tx.commit-ok", "channel.close"):
            pass
    else:
        channel.read()


def compare_session(
    both: BothBrokers, steps: list[Method | bytes], take: Callable[[Channel, Method | bytes], None]
) -> None:

    def script(session: Session) -> None:
        channel = session.channel()
        for number, step in enumerate(steps):
            session.record(f"step {number}", repr(step))
            carry_out(channel, step)

    theirs, ours = both.transcripts(script)
    # The row "a nack alone" of docs/COMPATIBILITY.md.
    theirs = [line.replace(*A_NACK_ALONE) if "basic.nack" in line else line for line in theirs]
    both.judge("random session", (theirs, ours))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_session_is_answered_alike(both: BothBrokers, seed: int) -> None:
    print(f"seed {seed}")
    compare_session(both, Author(seed).steps(), carry_out)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_session_with_transactions_is_answered_alike(both: BothBrokers, seed: int) -> None:
    print(f"seed {seed}")
    compare_session(both, Author(seed).transacted(), carry_out_transacted)


@pytest.mark.soak
@pytest.mark.parametrize("seed", SOAK_SEEDS)
def test_many_random_sessions_are_answered_alike(both: BothBrokers, seed: int) -> None:
    print(f"seed {seed}")
    compare_session(both, Author(seed).steps(), carry_out)
    compare_session(both, Author(seed).transacted(), carry_out_transacted)
