"""Rounds of a crash while messages are deferred: none is lost, and none comes before it is due.

Half of the messages are published to an exchange that delays them, half are delivered once and
given back with a delay. Due times are drawn, so that some pass while no broker runs and the others
behind the start. Clocks are this machine's: a message is due no earlier than its delay after it was
sent, and no later than its delay after the broker has said that it has it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import frames_by_hand as wire
from confirmed_publishes import ConfirmedPublishes
from kill_loop import KillLoop
from load_threads import MARKERS
from numbered_messages import body_of, key_in, key_of
from socket_client import Delivery, SocketClient
from timeouts import TIMEOUT_SECONDS

QUEUE = "deferred"
EXCHANGE = "later"
COMMANDS = "amq.leveret.delivery"
PUBLISHER = 2
AT_ONCE = 500
ATTEMPTS_MAX = 1_000
# The broker's clocks count whole milliseconds.
CLOCK_SECONDS = 0.002


class Due:
    """When one message may come, at the earliest, and when it must have, by the wall clock."""

    def __init__(self, earliest: float, attempts: int) -> None:
        self.earliest = earliest
        self.latest = 0.0
        self.attempts = attempts


class Receiver(threading.Thread):
    """Reads all deferred messages of a queue as they come, and acks them."""

    def __init__(self, port: int, count: int) -> None:
        super().__init__(name="receiver of deferred messages", daemon=True)
        self.received: list[tuple[int, int, float]] = []
        self.failure: BaseException | None = None
        self._client = SocketClient(port)
        self._count = count

    def run(self) -> None:
        """Until all are there."""
        try:
            self._receive(self._client)
        except BaseException as error:
            self.failure = error

    def _receive(self, client: SocketClient) -> None:
        client.open_channel()
        client.send(wire.consume(1, QUEUE, "c"))
        while len(self.received) < self._count:
            found = client.delivery()
            now = time.time()
            if not isinstance(found, Delivery):
                assert found.ids == wire.CONSUME_OK, found
                continue
            self.received.append((key_in(found.body), found.attempts, now))
            client.send(wire.ack(1, found.delivery_tag))
        # Behind this the queue has seen the acks.
        client.declare(QUEUE, passive=True)
        client.close()


class DeferralRounds:
    """The queue of deferred messages; rounds are made of `defer`, a kill, `receive` and `check`."""

    def __init__(
        self, loop: KillLoop, message_count: int, delay_seconds: tuple[float, float]
    ) -> None:
        self._loop = loop
        self._count = message_count
        self._delay_seconds = delay_seconds
        self._number = 0
        self._dues: dict[int, Due] = {}
        self.late_max = 0.0
        client = SocketClient(loop.broker.port)
        client.open_channel()
        # So that deliveries say how many there were before.
        limit: dict[str, str | int] = {"x-delivery-limit": ATTEMPTS_MAX}
        client.ask(wire.queue_declare(1, QUEUE, arguments=limit), wire.QUEUE_DECLARE_OK)
        routes_as: dict[str, str | int] = {"x-delayed-type": "direct"}
        declare = wire.exchange_declare(1, EXCHANGE, "x-delayed-message", routes_as)
        client.ask(declare, wire.EXCHANGE_DECLARE_OK)
        client.ask(wire.queue_bind(1, QUEUE, EXCHANGE, QUEUE), wire.QUEUE_BIND_OK)
        client.close()

    def defer(self) -> None:
        """Have so many messages deferred, and the journal know it."""
        client = SocketClient(self._loop.broker.port)
        publishes = ConfirmedPublishes(client, 1)
        client.open_channel(2, confirm=True)
        given_back = self._count // 2
        for keys in self._new_keys(given_back):
            now = time.time()
            self._dues.update((key, Due(now, 0)) for key in keys)
            publishes.send([wire.publish(1, "", QUEUE, body_of(key)) for key in keys])
            self._give_back(client, publishes, len(keys))
        for keys in self._new_keys(self._count - given_back):
            delays_ms = {key: self._delay_ms() for key in keys}
            octets = [
                wire.publish(1, EXCHANGE, QUEUE, body_of(key), headers={"x-delay": delay_ms})
                for key, delay_ms in delays_ms.items()
            ]
            self._send(client, publishes, delays_ms, 0, octets)
        client.publish_confirmed("", MARKERS, b"", channel=2)
        client.close()

    def _delay_ms(self) -> int:
        return int(1000 * self._loop.random.uniform(*self._delay_seconds))

    def _new_keys(self, count: int) -> Iterator[list[int]]:
        while count > 0:
            some = min(count, AT_ONCE)
            yield [key_of(PUBLISHER, self._number + place) for place in range(1, some + 1)]
            self._number += some
            count -= some

    def _give_back(self, client: SocketClient, publishes: ConfirmedPublishes, count: int) -> None:
        """Consume so many and give them back, each for a time of its own.

        On a slow machine one that was given back before may be due by now, and is among them.
        """
        client.ask(wire.consume(1, QUEUE, "giver"), wire.CONSUME_OK)
        tags: dict[int, int] = {}
        while len(tags) < count:
            found = client.delivery()
            assert isinstance(found, Delivery), found
            key = key_in(found.body)
            self._check(key, found.attempts, time.time())
            tags[key] = found.delivery_tag
            if len(tags) == count:
                cancel = wire.method(1, wire.CANCEL, wire.short("giver") + b"\0")
                client.ask(cancel, wire.CANCEL_OK)
        delays_ms = {key: self._delay_ms() for key in tags}
        commands = [
            wire.publish(
                1,
                COMMANDS,
                "requeue",
                b"",
                headers={"delivery-tag": tags[key], "delay-ms": delay_ms},
            )
            for key, delay_ms in delays_ms.items()
        ]
        self._send(client, publishes, delays_ms, 1, commands)

    def _send(
        self,
        client: SocketClient,
        publishes: ConfirmedPublishes,
        delays_ms: dict[int, int],
        more_attempts: int,
        octets: list[bytes],
    ) -> None:
        now = time.time()
        for key, delay_ms in delays_ms.items():
            before = self._dues.get(key)
            attempts = more_attempts + (0 if before is None else before.attempts)
            self._dues[key] = Due(now + delay_ms / 1000, attempts)
        publishes.send(octets)
        # A command is confirmed when its channel has handled it; this is behind its queue, too.
        client.declare(QUEUE, passive=True)
        now = time.time()
        for key, delay_ms in delays_ms.items():
            self._dues[key].latest = now + delay_ms / 1000

    def _check(self, key: int, attempts: int, now: float) -> Due:
        due = self._dues[key]
        early = due.earliest - CLOCK_SECONDS - now
        assert early <= 0, f"{key} came {early:.3f} s before it was due"
        assert attempts == due.attempts, f"{key} had {attempts} attempts, not {due.attempts}"
        return due

    def receive(self) -> Receiver:
        """Behind a start: read them all as they come."""
        client = SocketClient(self._loop.broker.port)
        client.open_channel()
        ready = client.declare(QUEUE, passive=True)
        now = time.time()
        client.close()
        due = sum(each.earliest - CLOCK_SECONDS <= now for each in self._dues.values())
        assert ready <= due, f"{ready} are ready, and only {due} may be due"
        receiver = Receiver(self._loop.broker.port, len(self._dues))
        receiver.start()
        return receiver

    def check(self, receiver: Receiver, started: float) -> str:
        """Wait for all, and compare; `started` is when the broker listened. Returns figures."""
        receiver.join(TIMEOUT_SECONDS + self._delay_seconds[1])
        assert receiver.failure is None, receiver.failure
        assert not receiver.is_alive(), f"{len(receiver.received)} of {len(self._dues)} came"
        late = 0.0
        over_before = 0
        for key, attempts, now in receiver.received:
            due = self._check(key, attempts, now)
            del self._dues[key]
            over_before += due.latest < started
            late = max(late, now - max(due.latest, started))
        assert not self._dues, f"lost: {sorted(self._dues)[:10]}"
        self.late_max = max(self.late_max, late)
        return (
            f"{len(receiver.received)} deferred, {over_before} of them due before the start, "
            f"none early, lost=0, attempts right, late by at most {late:.3f} s"
        )
