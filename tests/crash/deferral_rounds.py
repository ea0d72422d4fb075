"""Rounds of a crash while messages are deferred: none is lost, and none comes before it is due.

Half of the messages are published to an exchange that delays them, half are delivered once and
given back with a delay. Due times are drawn, so that some pass while no broker runs and the others
behind the start (dues.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import frames_by_hand as wire
from confirmed_publishes import ConfirmedPublishes
from dues import Came, DueReceiver, Dues
from kill_loop import KillLoop
from load_threads import MARKERS
from numbered_messages import body_of, key_in, key_of
from socket_client import Delivery, SocketClient

QUEUE = "deferred"
EXCHANGE = "later"
COMMANDS = "amq.leveret.delivery"
PUBLISHER = 2
AT_ONCE = 500
ATTEMPTS_MAX = 1_000


class DeferralRounds:
    """The queue of deferred messages; rounds are made of `defer`, a kill, `receive` and `check`."""

    def __init__(
        self, loop: KillLoop, message_count: int, delay_seconds: tuple[float, float]
    ) -> None:
        self._loop = loop
        self._count = message_count
        self._delay_seconds = delay_seconds
        self._number = 0
        self._dues = Dues()
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
            self._dues.note_ready(keys)
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
            self._dues.check(Came(key, found.attempts, time.time()))
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
        def send() -> None:
            publishes.send(octets)
            # A command is confirmed when its channel has handled it; this is behind its queue, too.
            client.declare(QUEUE, passive=True)

        self._dues.defer(delays_ms, send, more_attempts)

    @property
    def late_max(self) -> float:
        """How late the latest came, in seconds, of all rounds."""
        return self._dues.late_max

    def receive(self) -> DueReceiver:
        """Behind a start: read them all as they come."""
        client = SocketClient(self._loop.broker.port)
        client.open_channel()
        ready = client.declare(QUEUE, passive=True)
        client.close()
        return self._dues.start_receiving(ready, self._receive)

    def _receive(self, received: list[Came], count: int) -> None:
        client = SocketClient(self._loop.broker.port)
        client.open_channel()
        client.send(wire.consume(1, QUEUE, "c"))
        while len(received) < count:
            found = client.delivery()
            now = time.time()
            if not isinstance(found, Delivery):
                assert found.ids == wire.CONSUME_OK, found
                continue
            received.append(Came(key_in(found.body), found.attempts, now))
            client.send(wire.ack(1, found.delivery_tag))
        # Behind this the queue has seen the acks.
        client.declare(QUEUE, passive=True)
        client.close()

    def check(self, receiver: DueReceiver, started: float) -> str:
        """Wait for all, and compare; `started` is when the broker listened. Returns figures."""
        return self._dues.check_all(receiver, started, self._delay_seconds[1])
