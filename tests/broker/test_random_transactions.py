"""Random transactions against a model: what is in the queue, what is out, and what waits.

One channel in tx mode, whose every answer the model knows beforehand; another looks at the queue.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicRecover,
    BasicRecoverOk,
    BasicReturn,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
)
from transactions import transactional
from wire import PERSISTENT, TRANSIENT, Client, publish

STEPS = 400


class Session:
    """Messages are numbers in the order in which they come to the queue, or would."""

    def __init__(self, client: Client, chance: random.Random) -> None:
        self.client = client
        self.chance = chance
        self.next_body = 1
        self.next_tag = 1
        # In the queue, by place: the message and whether it was out before.
        self.ready: dict[int, tuple[int, bool]] = {}
        self.next_place = 0
        # Out: tag -> place and message.
        self.unacked: dict[int, tuple[int, int]] = {}
        # Waiting for the commit.
        self.published: list[tuple[int, bool]] = []
        self.acked: list[tuple[bool, dict[int, tuple[int, int]]]] = []

    def publish(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            is_lost = self.chance.random() < 0.2
            properties = self.chance.choice([PERSISTENT, TRANSIENT])
            body = b"%d" % self.next_body
            key = "nowhere" if is_lost else "q"
            self.client.send(publish(key, body, properties, mandatory=is_lost))
            self.published.append((self.next_body, is_lost))
            self.next_body += 1

    def get(self) -> None:
        answer = self.client.ask(1, BasicGet(queue="q"))
        if not self.ready:
            assert answer == BasicGetEmpty()
            return
        place = min(self.ready)
        message, was_out = self.ready.pop(place)
        assert answer == BasicGetOk(self.next_tag, was_out, "", "q", len(self.ready))
        assert self.client.read_content(1).body == b"%d" % message
        self.unacked[self.next_tag] = place, message
        self.next_tag += 1

    def acknowledge(self) -> None:
        if not self.unacked:
            return
        tag = self.chance.choice(sorted(self.unacked))
        multiple, requeue = self.chance.random() < 0.3, self.chance.random() < 0.4
        taken = {
            each: self.unacked.pop(each)
            for each in sorted(self.unacked)
            if each == tag or (multiple and each < tag)
        }
        self.acked.append((requeue, taken))
        method = BasicNack(tag, multiple, True) if requeue else BasicAck(tag, multiple)
        self.client.send_methods(1, method)

    def recover(self) -> None:
        assert self.client.ask(1, BasicRecover(True)) == BasicRecoverOk()
        self.come_back(self.unacked)
        self.unacked = {}

    def come_back(self, taken: dict[int, tuple[int, int]]) -> None:
        for place, message in taken.values():
            self.ready[place] = message, True

    def commit(self) -> None:
        self.client.send_methods(1, TxCommit())
        for message, is_lost in self.published:
            if is_lost:
                self.client.expect(1, BasicReturn(312, "NO_ROUTE", "", "nowhere"))
                assert self.client.read_content(1).body == b"%d" % message
            else:
                self.ready[self.next_place] = message, False
                self.next_place += 1
        self.client.expect(1, TxCommitOk())
        for requeue, taken in self.acked:
            if requeue:
                self.come_back(taken)
        self.published.clear()
        self.acked.clear()

    def roll_back(self) -> None:
        assert self.client.ask(1, TxRollback()) == TxRollbackOk()
        for _, taken in self.acked:
            self.unacked |= taken
        self.published.clear()
        self.acked.clear()

    def look(self) -> None:
        self.client.nothing_more(1)
        assert self.client.counts("q", 2) == (len(self.ready), 0)


@pytest.mark.parametrize("run", range(3))
def test_a_channel_in_tx_mode_does_what_the_model_does(
    run: int, connect: Callable[..., Client]
) -> None:
    seed = int(os.environ.get("LEVERET_SEED") or random.SystemRandom().randrange(2**32))
    print(f"run {run}: LEVERET_SEED={seed}")
    session = Session(transactional(connect), random.Random(seed))
    session.client.declare("q", durable=True)
    steps = [
        *(session.publish, session.get, session.get, session.acknowledge, session.acknowledge),
        *(session.commit, session.roll_back, session.recover, session.look),
    ]
    for _ in range(STEPS):
        session.chance.choice(steps)()
    session.commit()
    session.look()
