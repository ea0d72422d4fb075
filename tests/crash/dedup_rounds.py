"""Rounds of a crash under publishers that publish again what was not confirmed.

An exchange fans out to two queues with dedup windows. "kept" is left alone, until its messages
are counted at the end: each id once. "emptied" is looked at after each start and then purged, so
the messages of its window, and their segments, are gone by the next round: no id may come again.
"""

from __future__ import annotations

import struct
from collections import Counter

import frames_by_hand as wire
from kill_loop import KillLoop
from load_threads import LoadThread, failures
from socket_client import Delivery, SocketClient, raise_if_close

LOAD_SECONDS = (0.1, 1.0)
WINDOW = 1_000_000
PUBLISHERS = 3
BODY_BYTES = 200
EXCHANGE = "identified"


def identified(producer: int, number: int) -> bytes:
    """A persistent publish with its producer and id; the body says the same."""
    name = f"{producer}-{number}"
    fields = b"".join(
        wire.short(header) + b"S" + wire.long(value.encode())
        for header, value in (("x-dedup-producer", f"{producer}"), ("x-dedup-id", f"{number}"))
    )
    properties = struct.pack(">H", 1 << 13 | 1 << 12) + wire.long(fields) + bytes([wire.PERSISTENT])
    body = name.encode().ljust(BODY_BYTES)
    header = struct.pack(">HHQ", 60, 0, len(body)) + properties
    method = wire.publish_method(1, EXCHANGE, "", mandatory=True)
    return method + wire.frame(2, 1, header) + wire.frame(3, 1, body)


class Producer:
    """One producer's publishes through all rounds; `pending` is not confirmed yet."""

    def __init__(self, name: int) -> None:
        self.name = name
        self.next_number = 1
        self.pending: dict[int, None] = {}
        self.confirmed = 0
        self.repeated = 0

    def next_one(self) -> int:
        number = self.next_number
        self.next_number += 1
        self.pending[number] = None
        return number


class IdentifiedPublisher(LoadThread):
    """Publishes what is pending, then more; now and then its connection breaks, and it begins anew.

    With `is_last` it ends when nothing is pending, and publishes nothing new.
    """

    def __init__(self, port: int, seed: int, producer: Producer, is_last: bool = False) -> None:
        super().__init__(f"producer {producer.name}", port, seed)
        self._producer = producer
        self._is_last = is_last
        self._window = self.random.choice([5, 50, 500])

    def work(self) -> None:
        while self._connection():
            pass

    def _connection(self) -> bool:
        """One connection; is there to be another?"""
        producer = self._producer
        client = self.connect()
        client.open_channel(confirm=True)
        # What each number on the wire stands for, while it is not answered.
        open_numbers: dict[int, int] = {}
        again = list(producer.pending)
        producer.repeated += len(again)
        sent = 0
        while again or producer.pending or not self._is_last:
            room = self._window - len(open_numbers)
            if room and (again or not self._is_last):
                numbers, again = again[:room], again[room:]
                if not self._is_last:
                    wanted = min(room, self.random.randint(1, 100)) - len(numbers)
                    numbers += [producer.next_one() for _ in range(wanted)]
                # Sometimes the same twice in a row: one read may hold both.
                if self.random.random() < 0.1:
                    numbers += numbers[-2:]
                for number in numbers:
                    sent += 1
                    open_numbers[sent] = number
                client.send(b"".join(identified(producer.name, number) for number in numbers))
                found = client.frame_at_hand()
            else:
                found = client.frame()
            while found is not None:
                raise_if_close(found)
                self._confirmed(found, open_numbers)
                found = client.frame_at_hand()
            if not self._is_last and self.random.random() < 0.01:
                client.abandon()
                return True
        client.close()
        return False

    def _confirmed(self, found: wire.Frame, open_numbers: dict[int, int]) -> None:
        assert found.ids == wire.ACK, f"{found.ids} instead of an ack"
        tag, multiple = struct.unpack_from(">Q?", found.payload, 4)
        tags = [each for each in open_numbers if each <= tag] if multiple else [tag]
        for each in tags:
            number = open_numbers.pop(each)
            if number in self._producer.pending:
                del self._producer.pending[number]
                self._producer.confirmed += 1


class DedupRounds:
    """The two queues, the producers, and the rounds."""

    def __init__(self, loop: KillLoop) -> None:
        self._loop = loop
        self._producers = [Producer(name) for name in range(1, PUBLISHERS + 1)]
        # What "emptied" has held at the looks so far.
        self._emptied: set[str] = set()
        client = SocketClient(self._loop.broker.port)
        client.open_channel()
        client.ask(wire.exchange_declare(1, EXCHANGE, "fanout"), wire.EXCHANGE_DECLARE_OK)
        for queue in ("kept", "emptied"):
            declare = wire.queue_declare(1, queue, arguments={"x-dedup-window": WINDOW})
            client.ask(declare, wire.QUEUE_DECLARE_OK)
            client.ask(wire.queue_bind(1, queue, EXCHANGE, ""), wire.QUEUE_BIND_OK)
        client.close()

    @property
    def repeated(self) -> int:
        """How many messages were published again behind a lost connection."""
        return sum(producer.repeated for producer in self._producers)

    def round(self, number: int) -> None:
        """Publish, kill, start, and look at what must be there and what must not."""
        threads = [
            IdentifiedPublisher(self._loop.broker.port, self._loop.seed(), producer)
            for producer in self._producers
        ]
        self._loop.load_and_kill(threads, LOAD_SECONDS)
        self._loop.start()
        if self._loop.random.random() < 0.3:
            self._loop.kill()
            self._loop.start()
        self._empty(number)

    def _empty(self, number: int) -> None:
        """Nothing is in "emptied" twice, or was in it before; then it is purged."""
        names = self._bodies("emptied")
        assert Counter(names).most_common(1) in ([], [(names[0], 1)] if names else []), number
        again = self._emptied.intersection(names)
        assert not again, f"round {number}: {len(again)} came again: {sorted(again)[:10]}"
        self._emptied.update(names)
        client = SocketClient(self._loop.broker.port)
        client.open_channel()
        client.ask(wire.queue_purge(1, "emptied"), wire.QUEUE_PURGE_OK)
        client.close()

    def finish(self) -> str:
        """Publish again what is not confirmed yet; then every id is there once."""
        threads = [
            IdentifiedPublisher(self._loop.broker.port, 0, producer, is_last=True)
            for producer in self._producers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures(threads)
        expected = {
            f"{producer.name}-{number}"
            for producer in self._producers
            for number in range(1, producer.next_number)
        }
        assert not any(producer.pending for producer in self._producers)
        kept = Counter(self._bodies("kept"))
        twice = [name for name, count in kept.items() if count > 1]
        assert not twice, f"{len(twice)} are there more than once: {sorted(twice)[:10]}"
        assert kept.keys() == expected
        emptied = self._bodies("emptied")
        assert len(emptied) == len(set(emptied))
        assert self._emptied.isdisjoint(emptied)
        assert self._emptied.union(emptied) == expected
        assert not self._loop.broker.faults()
        assert self.repeated
        return f"{len(expected)} ids, {self.repeated} published again: each once"

    def _bodies(self, queue: str) -> list[str]:
        """The queue's ready messages, which are back in it when this returns."""
        client = SocketClient(self._loop.broker.port)
        client.open_channel()
        count = client.declare(queue, passive=True)
        client.send(wire.consume(1, queue, "all"))
        names: list[str] = []
        while len(names) < count:
            delivery = client.delivery()
            if isinstance(delivery, Delivery):
                names.append(delivery.body.decode().strip())
        client.close()
        return names
