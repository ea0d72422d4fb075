"""Rounds of a crash while messages are in flight and deferred, with their attempts.

Those in flight come back at once; deferral_rounds.py has the deferred ones.

On one data directory, a number of messages that stays the same. In each round all of them are
delivered and counted, some are given back, some are acked and replaced; then the broker is killed,
without a word to the clients that hold the rest. Behind the start every message is ready at once.
What a client knew that the journal had written must be there; deliveries of the last moments may
be, so attempts have a lowest and a highest number.
"""

from __future__ import annotations

import time

import frames_by_hand as wire
from confirmed_publishes import ConfirmedPublishes
from deferral_rounds import DeferralRounds
from kill_loop import KillLoop
from load_threads import MARKERS
from numbered_messages import body_of, key_in, key_of
from socket_client import Delivery, SocketClient

QUEUE = "in flight"
# Nothing times out in a round: what comes back does so by the start.
TIMEOUT_MS = 3_600_000
# A consumer each, so that several channels hold something.
CHANNELS = (2, 3, 4)
PUBLISHING = 5
ASKING = 1
PUBLISHED_AT_ONCE = 500
# Of the messages, in a round.
ACKED_PART = 10
RETURNED_PART = 5


class Attempts:
    """Of one message: deliveries that the journal has for certain, and all that there were."""

    def __init__(self) -> None:
        self.written = 0
        self.made = 0


class Holder:
    """A client that consumes on several channels, and what it holds."""

    def __init__(self, port: int, known: dict[int, Attempts]) -> None:
        self.client = SocketClient(port)
        self._known = known
        # Channel and tag of each message that it holds.
        self.held: dict[int, tuple[int, int]] = {}
        self._publishes = ConfirmedPublishes(self.client, PUBLISHING)
        self.client.open_channel(ASKING, confirm=True)
        for channel in CHANNELS:
            self.client.open_channel(channel)

    def publish(self, keys: list[int]) -> None:
        """Publish these, and wait until all are confirmed."""
        self._publishes.send([wire.publish(PUBLISHING, "", QUEUE, body_of(key)) for key in keys])

    def consume(self) -> None:
        """Begin on all channels."""
        for channel in CHANNELS:
            self.client.send(wire.consume(channel, QUEUE, f"c{channel}"))

    def receive(self, count: int, is_behind_start: bool = False) -> None:
        """So many deliveries, each delivered as often before as it was, or may have been."""
        while count:
            frame = self.client.frame()
            found = self.client.delivery_of(frame)
            if not isinstance(found, Delivery):
                assert found.ids == wire.CONSUME_OK, found
                continue
            key, known = key_in(found.body), self._known[key_in(found.body)]
            attempts = found.attempts
            lowest = known.written if is_behind_start else known.made
            assert lowest <= attempts <= known.made, (
                f"{key} had {attempts} attempts, not {lowest} to {known.made}"
            )
            assert found.redelivered == (attempts > 0)
            assert key not in self.held, f"{key} is delivered twice"
            if is_behind_start:
                known.written = attempts
            known.made = attempts + 1
            self.held[key] = frame.channel, found.delivery_tag
            count -= 1

    def close(self) -> None:
        """Give back all that it holds. Nobody consumes then, or some would be delivered again."""
        for channel in CHANNELS:
            cancel = wire.method(channel, wire.CANCEL, wire.short(f"c{channel}") + b"\0")
            self.client.ask(cancel, wire.CANCEL_OK)
        self.client.close()

    def wait_for_journal(self) -> None:
        """Return when it has what the queue told it before: a confirm comes behind that."""
        self.client.declare(QUEUE, passive=True, channel=ASKING)
        self.client.publish_confirmed("", MARKERS, b"", channel=ASKING)
        for key in self.held:
            known = self._known[key]
            known.written = known.made


class DeliveryRounds:
    """The queue, what is known of each message in it, and the rounds."""

    def __init__(
        self, loop: KillLoop, message_count: int, delay_seconds: tuple[float, float]
    ) -> None:
        self._loop = loop
        self._count = message_count
        self._number = 0
        self._known: dict[int, Attempts] = {}
        self._late_max = 0.0
        client = SocketClient(loop.broker.port)
        client.open_channel()
        client.declare(MARKERS)
        arguments: dict[str, str | int] = {"x-in-flight-timeout": TIMEOUT_MS}
        client.ask(wire.queue_declare(1, QUEUE, arguments=arguments), wire.QUEUE_DECLARE_OK)
        client.close()
        self._deferral = DeferralRounds(loop, message_count, delay_seconds)

    def round(self, number: int) -> None:
        """Deliver all, kill, start, and deliver all again; prints the figures."""
        broker = self._loop.broker
        holder = Holder(broker.port, self._known)
        self._publish(holder, self._count - len(self._known))
        holder.consume()
        holder.receive(self._count)
        acked, returned = self._answer(holder)
        self._deferral.defer()
        # What was acked, or given back and delivered again, is in the journal by then.
        holder.wait_for_journal()
        again = self._return_some(holder)
        self._loop.kill()
        started = self._loop.start()
        begun, begun_wall = time.monotonic(), time.time()
        receiver = self._deferral.receive()
        holder = Holder(started.port, self._known)
        ready = holder.client.declare(QUEUE, passive=True, channel=ASKING)
        ready_seconds = time.monotonic() - begun
        self._late_max = max(self._late_max, ready_seconds)
        assert ready == len(self._known), f"{ready} of {len(self._known)} are ready"
        holder.consume()
        holder.receive(ready, is_behind_start=True)
        seconds = time.monotonic() - begun
        assert holder.held.keys() == self._known.keys()
        most = max(known.made for known in self._known.values())
        holder.close()
        deferred = self._deferral.check(receiver, begun_wall)
        print(
            f"round {number}: {self._count} in flight, {acked} acked, {returned} given back in "
            f"time, {again} in the last moments; killed; {ready} there, lost=0, attempts right "
            f"(up to {most}), all ready {ready_seconds:.3f} s behind the start, and with their "
            f"client after {seconds:.2f} s; {deferred}"
        )

    def finish(self) -> str:
        """The figures of all rounds."""
        return (
            f"lost=0, none early, attempts right; all in flight ready at most "
            f"{self._late_max:.3f} s behind a start, deferred ones late by at most "
            f"{self._deferral.late_max:.3f} s"
        )

    @property
    def late_seconds(self) -> float:
        """Of all rounds: how late a message was at the most, behind its due time or the start."""
        return max(self._late_max, self._deferral.late_max)

    def _publish(self, holder: Holder, count: int) -> None:
        while count > 0:
            some = min(count, PUBLISHED_AT_ONCE)
            keys = [key_of(1, self._number + place) for place in range(1, some + 1)]
            self._number += some
            count -= some
            holder.publish(keys)
            self._known.update((key, Attempts()) for key in keys)

    def _answer(self, holder: Holder) -> tuple[int, int]:
        """Ack some, which are done with, and give some back, which are delivered again."""
        chosen = self._loop.random
        keys = sorted(holder.held)
        acked = chosen.sample(keys, len(keys) // ACKED_PART)
        for key in acked:
            holder.client.send(wire.ack(*holder.held.pop(key)))
            del self._known[key]
        returned = chosen.sample(sorted(holder.held), len(keys) // RETURNED_PART)
        self._give_back(holder, returned)
        holder.receive(len(returned))
        return len(acked), len(returned)

    def _return_some(self, holder: Holder) -> int:
        """Give some back, and do not wait: each may be delivered once more, or not."""
        returned = self._loop.random.sample(sorted(holder.held), self._count // RETURNED_PART)
        for key in returned:
            self._known[key].made += 1
        self._give_back(holder, returned)
        return len(returned)

    def _give_back(self, holder: Holder, keys: list[int]) -> None:
        pieces = [wire.nack(*holder.held.pop(key)) for key in keys]
        holder.client.send(b"".join(pieces))
