"""Kill -9 while messages move from queue to queue in transactions: none is in neither.

Workers take messages from one queue, publish them to another, acknowledge them and commit, or roll
back. What a commit-ok was seen for is in the other queue; whatever else was under way is in one
of the two, or in both. The moments come from a seed, which is printed; LEVERET_SEED repeats it.
"""

from __future__ import annotations

import frames_by_hand as wire
from broker_process import BrokerProcess
from kill_loop import KillLoop
from load_threads import LoadThread
from numbered_messages import body_of, key_in, key_of
from socket_client import Delivery, SocketClient

SELECT, SELECT_OK = (90, 10), (90, 11)
COMMIT, COMMIT_OK = (90, 20), (90, 21)
ROLLBACK, ROLLBACK_OK = (90, 30), (90, 31)
FROM, TO = "from", "to"
WORKERS = 3
LOAD_SECONDS = (0.05, 0.4)
MESSAGES_A_ROUND = 3000


class Worker(LoadThread):
    """Moves messages, a few in each transaction; `moved` are those of answered commits."""

    def __init__(self, number: int, port: int, seed: int) -> None:
        super().__init__(f"worker {number}", port, seed)
        self.moved: set[int] = set()

    def work(self) -> None:
        client = self.connect()
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


class TransactionRounds:
    """The two queues, what was published into the first and moved to the second, and the rounds."""

    def __init__(self, loop: KillLoop) -> None:
        self._loop = loop
        self._published: set[int] = set()
        self._moved: set[int] = set()
        client = SocketClient(loop.broker.port)
        client.open_channel()
        for queue in (FROM, TO):
            client.declare(queue)
        client.abandon()

    def round(self, number: int) -> None:
        """Fill, move, kill, and look after each of two starts."""
        loop = self._loop
        first = 1 + number * MESSAGES_A_ROUND
        fill(loop.broker, first)
        published = self._published
        published.update(key_of(1, each) for each in range(first, first + MESSAGES_A_ROUND))
        workers = [Worker(n, loop.broker.port, loop.seed()) for n in range(WORKERS)]
        loop.load_and_kill(workers, LOAD_SECONDS)
        for worker in workers:
            self._moved |= worker.moved
        # Two starts: the second finds what the first one wrote.
        for is_last in (False, True):
            client = SocketClient(loop.start().port)
            client.open_channel()
            there, here = keys_in(client, FROM), keys_in(client, TO)
            client.abandon()
            assert published - set(there) - set(here) == set()
            assert self._moved - set(here) == set()
            if not is_last:
                loop.kill()
        doubled = len(there) + len(here) - len(published)
        print(
            f"round {number}: moved {len(self._moved)} of {len(published)}, doubled {doubled}, "
            "lost=0"
        )

    def finish(self) -> str:
        """Nothing more to check: each round has."""
        return "lost=0"
