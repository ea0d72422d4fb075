"""Kill -9 while messages move from queue to queue in transactions: none is in neither.

Workers take messages from one queue, publish them to another, acknowledge them and commit, or roll
back. What a commit-ok was seen for is in the other queue; whatever else was under way is in one
of the two, or in both. The moments come from a seed, which is printed; LEVERET_SEED repeats it.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import frames_by_hand as wire
import pytest
from broker_process import BrokerProcess
from load_threads import LoadThread, failures
from numbered_messages import body_of, key_in, key_of
from socket_client import Delivery, SocketClient

SELECT, SELECT_OK = (90, 10), (90, 11)
COMMIT, COMMIT_OK = (90, 20), (90, 21)
ROLLBACK, ROLLBACK_OK = (90, 30), (90, 31)
FROM, TO = "from", "to"
WORKERS = 3
LOAD_SECONDS = (0.05, 0.4)
MESSAGES_A_ROUND = 3000
SEGMENT_BYTES_MAX = 1 << 20


class Worker(LoadThread):
    """Moves messages, a few in each transaction; `moved` are those of answered commits."""

    def __init__(self, number: int, port: int, seed: int) -> None:
        super().__init__(f"worker {number}", port, seed)
        self.moved: set[int] = set()

    def work(self) -> None:
        client = SocketClient(self.port)
        client.open_channel()
        client.ask(wire.method(1, SELECT), SELECT_OK)
        while True:
            keys: list[int] = []
            for _ in range(self.random.randint(1, 30)):
                client.send(wire.get(1, FROM))
                got = client.delivery()
                if not isinstance(got, Delivery):
                    assert got.ids == wire.GET_EMPTY, got
                    break
                keys.append(key_in(got.body))
                client.send(wire.publish(1, "", TO, got.body) + wire.ack(1, got.delivery_tag))
            if self.random.random() < 0.1:
                client.ask(wire.method(1, ROLLBACK), ROLLBACK_OK)
                # Still unacknowledged: back to the queue with them.
                client.send(wire.nack(1, 0, multiple=True))
                keys.clear()
            client.ask(wire.method(1, COMMIT), COMMIT_OK)
            self.moved.update(keys)


def fill(broker: BrokerProcess, first: int) -> None:
    client = SocketClient(broker.port)
    client.open_channel(1)
    client.ask(wire.method(1, SELECT), SELECT_OK)
    for number in range(first, first + MESSAGES_A_ROUND):
        client.send(wire.publish(1, "", FROM, body_of(key_of(1, number))))
    client.ask(wire.method(1, COMMIT), COMMIT_OK)
    client.close()


def keys_in(client: SocketClient, queue: str) -> list[int]:
    """All that is ready, left as it was."""
    count = client.declare(queue, passive=True)
    client.ask(wire.consume(1, queue, queue), wire.CONSUME_OK)
    keys = []
    for _ in range(count):
        item = client.delivery()
        assert isinstance(item, Delivery), item
        keys.append(key_in(item.body))
    return keys


@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=pytest.mark.soak)])
def test_a_message_that_is_moved_in_a_transaction_is_never_in_neither_queue(
    rounds: int, seed: int, start_broker: Callable[..., BrokerProcess]
) -> None:
    chance = random.Random(seed)
    published: set[int] = set()
    moved: set[int] = set()
    broker = start_broker(segment_bytes_max=SEGMENT_BYTES_MAX).listening()
    client = SocketClient(broker.port)
    client.open_channel()
    for queue in (FROM, TO):
        client.declare(queue)
    client.abandon()
    for number in range(rounds):
        first = 1 + number * MESSAGES_A_ROUND
        fill(broker, first)
        published.update(key_of(1, each) for each in range(first, first + MESSAGES_A_ROUND))
        workers = [Worker(n, broker.port, chance.randrange(2**32)) for n in range(WORKERS)]
        for worker in workers:
            worker.start()
        # The moment of the kill; nothing waits for anything here.
        threading.Event().wait(chance.uniform(*LOAD_SECONDS))
        broker.kill()
        for worker in workers:
            worker.join(30)
            assert not worker.is_alive(), f"{worker.name} did not notice the end"
            moved |= worker.moved
        assert not failures(workers), failures(workers)
        assert broker.faults() == []
        # Two starts: the second finds what the first one wrote.
        for is_last in (False, True):
            broker = start_broker(segment_bytes_max=SEGMENT_BYTES_MAX).listening()
            client = SocketClient(broker.port)
            client.open_channel()
            there, here = keys_in(client, FROM), keys_in(client, TO)
            client.abandon()
            assert published - set(there) - set(here) == set()
            assert moved - set(here) == set()
            if not is_last:
                broker.kill()
        doubled = len(there) + len(here) - len(published)
        print(f"round {number}: moved {len(moved)} of {len(published)}, doubled {doubled}, lost=0")
