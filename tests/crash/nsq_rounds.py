"""Rounds of a crash over NSQ: messages in flight and deferred, and publishes under way.

On one data directory, in each round: all messages of one channel are in flight to several clients,
with some finished and some requeued; as many of another channel are deferred, by DPUB and by REQ;
and clients publish with PUB and MPUB to a topic with two channels when the broker is killed. Behind
the start every message in flight is ready at once, has its id and has its attempts; no deferred one
comes before it is due; and every publish that was answered OK is in both channels, an MPUB whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from deferral_rounds import AT_ONCE
from delivery_rounds import Attempts
from dues import Came, DueReceiver, Dues
from frames_by_hand import QUEUE_PURGE_OK, queue_purge
from kill_loop import KillLoop
from load_threads import MARKERS, LoadThread
from nsq_wire import OK, Message, NsqClient, dpub, identify, mpub, pub
from numbered_messages import body_of, key_in, key_of
from socket_client import EndedError, SocketClient

HELD, LATER, LOAD = "held", "later", "load"
CHANNEL = "c"
LOAD_CHANNELS = ("c", "d")
# The most that one client may be ready for.
READY_MAX = 2500
# Nothing times out in a round: what comes back does so by the start.
TIMEOUT_MS = 900_000
# Of the messages, in a round.
FINISHED_PART = 10
REQUEUED_PART = 5
LOAD_SECONDS = (0.05, 0.3)
WINDOW = 50
MPUB_MAX = 20
# Publishers of numbered messages.
HELD_PUBLISHER, LATER_PUBLISHER, LOAD_PUBLISHER = 1, 2, 3


def queue_of(topic: str, channel: str = CHANNEL) -> str:
    """The queue of a channel."""
    return f"{topic}:{channel}"


def id_number(message: Message) -> int:
    """The id of a message as a number."""
    return int(message.id, 16)


def came_as(message: Message) -> Came:
    """A deferred message that comes now."""
    return Came(key_in(message.body), message.attempts - 1, time.time(), id_number(message))


class LoadPublisher(LoadThread):
    """Publishes with PUB and MPUB, so many commands at a time, until the broker is gone."""

    def __init__(self, port: int, seed: int, publisher: int, first_number: int) -> None:
        super().__init__(f"NSQ publisher {publisher}", port, seed)
        self._publisher = publisher
        self.next_number = first_number
        # The keys of each command, in order; the first `answered` of them were answered OK.
        self.commands: list[list[int]] = []
        self.answered = 0

    def work(self) -> None:
        """Keep the window full."""
        try:
            with NsqClient(self.port) as client:
                self.has_begun.set()
                while True:
                    if len(self.commands) - self.answered < WINDOW:
                        client.send(self._command())
                        continue
                    if (frame := client.receive()) is None:
                        raise EndedError
                    assert frame == OK, frame
                    self.answered += 1
        except OSError:
            raise EndedError from None

    def _command(self) -> bytes:
        count = self.random.choice([1, 1, 1, 2, MPUB_MAX])
        keys = [key_of(self._publisher, self.next_number + place) for place in range(count)]
        self.next_number += count
        self.commands.append(keys)
        bodies = [body_of(key) for key in keys]
        return pub(LOAD, bodies[0]) if count == 1 else mpub(LOAD, *bodies)


class Holders:
    """Clients of one channel that are ready for exactly so many messages together."""

    def __init__(self, port: int, known: dict[int, Attempts], ids: dict[int, int]) -> None:
        self._port = port
        self._known = known
        self._ids = ids
        self.clients: list[NsqClient] = []
        # Of each client: what it holds, by key.
        self.held: list[dict[int, Message]] = []

    def receive_all(self, count: int, is_behind_start: bool = False) -> None:
        """Be ready for so many, and get them."""
        shares = []
        while count:
            share = min(READY_MAX, max(count // 2, 1))
            count -= share
            shares.append(share)
        for share in shares:
            client = NsqClient(self._port).send(identify(msg_timeout=TIMEOUT_MS)).ok()
            self.clients.append(client.subscribe(HELD, CHANNEL, share))
            self.held.append({})
        for number, share in enumerate(shares):
            self.receive(number, share, is_behind_start)

    def receive(self, number: int, count: int, is_behind_start: bool = False) -> None:
        """So many deliveries, each delivered as often before as it was, or may have been."""
        held = self.held[number]
        for message in self.clients[number].messages(count):
            key = key_in(message.body)
            known = self._known[key]
            attempts = message.attempts - 1
            lowest = known.written if is_behind_start else known.made
            assert lowest <= attempts <= known.made, (
                f"{key} had {attempts} attempts, not {lowest} to {known.made}"
            )
            assert not any(key in each for each in self.held), f"{key} is delivered twice"
            assert self._ids.setdefault(key, id_number(message)) == id_number(message)
            if is_behind_start:
                known.written = attempts
            known.made = attempts + 1
            held[key] = message

    def settled(self) -> None:
        """Behind this the queue has been told all that the clients have sent."""
        for client in self.clients:
            client.nothing()

    def all_keys(self) -> list[int]:
        """Of all that is held."""
        return sorted(key for held in self.held for key in held)

    def close(self) -> None:
        """The connections end; what they held is given back."""
        for client in self.clients:
            client.socket.close()


class NsqRounds:
    """Three topics, what is known of their messages, and the rounds."""

    def __init__(
        self, loop: KillLoop, message_count: int, delay_seconds: tuple[float, float]
    ) -> None:
        self._loop = loop
        self._count = message_count
        self._delay_seconds = delay_seconds
        self._numbers = {HELD_PUBLISHER: 0, LATER_PUBLISHER: 0}
        self._load_number = 1
        self._known: dict[int, Attempts] = {}
        self._ids: dict[int, int] = {}
        self._dues = Dues()
        self._late_max = 0.0
        self._answered = 0
        port = loop.broker.nsq_port
        for topic, channel in (
            (HELD, CHANNEL),
            (LATER, CHANNEL),
            *((LOAD, c) for c in LOAD_CHANNELS),
        ):
            with NsqClient(port) as client:
                client.subscribe(topic, channel)
        with_markers = SocketClient(loop.broker.port)
        with_markers.open_channel()
        with_markers.declare(MARKERS)
        with_markers.close()

    # --- One round

    def round(self, number: int) -> None:
        """Fill, answer some, defer, publish, kill, start, look; prints the figures."""
        self._publish_held()
        holders = Holders(self._loop.broker.nsq_port, self._known, self._ids)
        holders.receive_all(self._count)
        finished, requeued = self._answer(holders)
        self._defer()
        holders.settled()
        self._wait_for_journal(HELD)
        for key in holders.all_keys():
            self._known[key].written = self._known[key].made
        self._requeue_last(holders)
        publishers = self._publish_and_kill()
        holders.close()
        started = self._loop.start()
        begun, begun_wall = time.monotonic(), time.time()
        receiver = self._receive_deferred()
        self._check_count(HELD, len(self._known))
        ready_seconds = time.monotonic() - begun
        self._late_max = max(self._late_max, ready_seconds)
        holders = Holders(started.nsq_port, self._known, self._ids)
        holders.receive_all(len(self._known), is_behind_start=True)
        assert holders.all_keys() == sorted(self._known)
        most = max(known.made for known in self._known.values())
        holders.close()
        deferred = self._check_deferred(receiver, begun_wall)
        found, answered = self._check_load(publishers)
        print(
            f"round {number}: {self._count} in flight, {finished} finished, {requeued} requeued; "
            f"killed; {len(self._known)} there, lost=0, attempts right (up to {most}), all ready "
            f"{ready_seconds:.3f} s behind the start; {deferred}; {answered} commands OK, "
            f"{found} messages there, each MPUB whole"
        )

    def finish(self) -> str:
        """The figures of all rounds."""
        late_max = max(self._late_max, self._dues.late_max)
        return (
            f"lost=0, none early, attempts right, {self._answered} commands answered OK and all "
            f"there; ready or due ones late by at most {late_max:.3f} s"
        )

    def _new_keys(self, publisher: int, count: int) -> Iterator[list[int]]:
        while count > 0:
            some = min(count, AT_ONCE)
            number = self._numbers[publisher]
            yield [key_of(publisher, number + place) for place in range(1, some + 1)]
            self._numbers[publisher] += some
            count -= some

    def _publish_held(self) -> None:
        with NsqClient(self._loop.broker.nsq_port) as client:
            for keys in self._new_keys(HELD_PUBLISHER, self._count - len(self._known)):
                half = len(keys) // 2
                self._known.update((key, Attempts()) for key in keys)
                singles = [pub(HELD, body_of(key)) for key in keys[half:]]
                many = [mpub(HELD, *map(body_of, keys[:half]))] if half else []
                client.send(*many, *singles).ok(len(many) + len(singles))

    def _answer(self, holders: Holders) -> tuple[int, int]:
        """Finish some, and requeue some at once, which come again."""
        chosen = self._loop.random
        finished = requeued = 0
        again: list[int] = []
        for client, held in zip(holders.clients, holders.held, strict=True):
            keys = sorted(held)
            done = chosen.sample(keys, len(keys) // FINISHED_PART)
            back = chosen.sample(sorted(set(keys) - set(done)), len(keys) // REQUEUED_PART)
            # So that it is ready for exactly those that it gives back.
            client.send(b"RDY %d\n" % (len(keys) - len(done)))
            client.send(*[b"FIN " + held.pop(key).id + b"\n" for key in done])
            for key in done:
                del self._known[key], self._ids[key]
            client.nothing()
            again.append(len(back))
            finished += len(done)
            requeued += len(back)
            client.send(*[b"REQ " + held.pop(key).id + b" 0\n" for key in back])
        for number, count in enumerate(again):
            holders.receive(number, count)
        return finished, requeued

    def _requeue_last(self, holders: Holders) -> None:
        """Give some back, and do not wait: each may be delivered once more, or not."""
        for client, held in zip(holders.clients, holders.held, strict=True):
            back = self._loop.random.sample(sorted(held), len(held) // REQUEUED_PART)
            for key in back:
                self._known[key].made += 1
            client.send(*[b"REQ " + held[key].id + b" 0\n" for key in back])

    # --- Deferred messages

    def _delay_ms(self) -> int:
        return int(1000 * self._loop.random.uniform(*self._delay_seconds))

    def _defer(self) -> None:
        with NsqClient(self._loop.broker.nsq_port) as client:
            for keys in self._new_keys(LATER_PUBLISHER, self._count - self._count // 2):
                self._send_deferred(client, {key: self._delay_ms() for key in keys})
        for keys in self._new_keys(LATER_PUBLISHER, self._count // 2):
            self._give_back(keys)
        self._wait_for_journal(LATER)

    def _send_deferred(self, client: NsqClient, delays_ms: dict[int, int]) -> None:
        commands = [dpub(LATER, ms, body_of(key)) for key, ms in delays_ms.items()]

        def send() -> None:
            client.send(*commands).ok(len(commands))

        self._dues.defer(delays_ms, send)

    def _give_back(self, keys: list[int]) -> None:
        """Publish these, get as many, and give each back for a time of its own.

        On a slow machine one that was deferred before may be due by now, and is among them.
        """
        self._dues.note_ready(keys)
        with NsqClient(self._loop.broker.nsq_port) as client:
            client.send(*[pub(LATER, body_of(key)) for key in keys]).ok(len(keys))
            client.subscribe(LATER, CHANNEL, len(keys))
            got = client.messages(len(keys))
            # Nothing comes in their place.
            client.send(b"RDY 0\n").nothing()
            for message in got:
                came = came_as(message)
                self._dues.check(came)
                self._check_id(came)
            delays_ms = {key_in(message.body): self._delay_ms() for message in got}

            def requeue() -> None:
                for message, delay_ms in zip(got, delays_ms.values(), strict=True):
                    client.send(b"REQ %s %d\n" % (message.id, delay_ms))
                client.nothing()
                self._count_of(LATER)

            self._dues.defer(delays_ms, requeue, more_attempts=1)

    def _check_id(self, came: Came) -> None:
        known = self._ids.setdefault(came.key, came.entry_id)
        assert known == came.entry_id, f"{came.key} has another id"

    def _receive_deferred(self) -> DueReceiver:
        return self._dues.start_receiving(self._count_of(LATER), self._read_deferred)

    def _read_deferred(self, received: list[Came], count: int) -> None:
        with NsqClient(self._loop.broker.nsq_port) as client:
            client.subscribe(LATER, CHANNEL, READY_MAX)
            while len(received) < count:
                message = client.message()
                received.append(came_as(message))
                client.send(b"FIN " + message.id + b"\n")
            client.nothing()

    def _check_deferred(self, receiver: DueReceiver, started: float) -> str:
        figures = self._dues.check_all(receiver, started, self._delay_seconds[1])
        for came in receiver.received:
            self._check_id(came)
            del self._ids[came.key]
        # The next round would count them otherwise.
        self._wait_for_journal(LATER)
        return figures

    # --- Publishes under way

    def _publish_and_kill(self) -> list[LoadPublisher]:
        """Two publishers, and a client of an ephemeral channel, which goes with it."""
        port = self._loop.broker.nsq_port
        publishers = [
            LoadPublisher(port, self._loop.seed(), LOAD_PUBLISHER + place, self._load_number)
            for place in range(2)
        ]
        with NsqClient(port) as ephemeral:
            ephemeral.subscribe(LOAD, "gone#ephemeral", READY_MAX)
            self._loop.load_and_kill(publishers, LOAD_SECONDS)
        self._load_number = max(each.next_number for each in publishers)
        return publishers

    def _check_load(self, publishers: list[LoadPublisher]) -> tuple[int, int]:
        """What was answered OK is in both channels, and of an MPUB all or nothing."""
        found_count = 0
        for channel in LOAD_CHANNELS:
            found = self._read_load(channel)
            found_count += len(found)
            for publisher in publishers:
                for number, keys in enumerate(publisher.commands):
                    there = len(found.intersection(keys))
                    assert there in (0, len(keys)), (
                        f"{there} of {len(keys)} of an MPUB in {channel}"
                    )
                    is_kept = there or number >= publisher.answered
                    assert is_kept, f"lost in {channel}: {keys}, answered OK"
        answered = sum(each.answered for each in publishers)
        self._answered += answered
        with_queues = SocketClient(self._loop.broker.port)
        with_queues.open_channel()
        assert with_queues.find(queue_of(LOAD, "gone#ephemeral"), 1) is None
        with_queues.close()
        return found_count, answered

    def _read_load(self, channel: str) -> set[int]:
        count = self._count_of(LOAD, channel)
        found: set[int] = set()
        with NsqClient(self._loop.broker.nsq_port) as client:
            client.subscribe(LOAD, channel, min(READY_MAX, count))
            for _ in range(count):
                message = client.message()
                key = key_in(message.body)
                assert key not in found, f"{key} is in {channel} twice"
                found.add(key)
                client.send(b"FIN " + message.id + b"\n")
            client.nothing()
        assert self._count_of(LOAD, channel) == 0
        return found

    # --- What AMQP says of the queues

    def _count_of(self, topic: str, channel: str = CHANNEL) -> int:
        client = SocketClient(self._loop.broker.port)
        client.open_channel()
        count = client.declare(queue_of(topic, channel), passive=True)
        client.close()
        return count

    def _check_count(self, topic: str, expected: int) -> None:
        count = self._count_of(topic)
        assert count == expected, f"{count} of {expected} are ready"

    def _wait_for_journal(self, topic: str) -> None:
        """Return when it has what the queue told it before: a confirm comes behind that."""
        client = SocketClient(self._loop.broker.port)
        client.open_channel(1, confirm=True)
        client.declare(queue_of(topic), passive=True)
        client.publish_confirmed("", MARKERS, b"")
        client.ask(queue_purge(1, MARKERS), QUEUE_PURGE_OK)
        client.close()
