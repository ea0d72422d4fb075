"""Rounds of a crash: load, kill -9 at a random moment, two starts, and all clients knew is there.

One data directory serves all rounds, and some messages stay in it from round to round, so what a
round finds is the work of many starts.
"""

from __future__ import annotations

import frames_by_hand as wire
from broker_process import BrokerProcess
from declared_queues import Declared, Declarer
from kept_attempts import kept_attempts
from kill_loop import KillLoop
from load_threads import MARKERS, Consumer, LoadThread, Publisher, Purger, Route
from numbered_messages import body_of, key_in
from queue_ledger import Findings, QueueLedger
from socket_client import SocketClient

# At the least and at the most; some ten thousand messages are published in one second.
LOAD_SECONDS = (0.1, 1.5)
# Messages of a queue that are left for the rounds to come.
LEFT_MAX = 60
# What a log may not say after a crash of the process alone: all that was written is there.
LOSSES = ('"damaged"', '"missing"', '"lost"')


class CrashRounds:
    """The queues, what is known of them, and the rounds.

    Publishers 1 and 2 share a queue that two consumers ack; 3 sends to two queues in turn, one of
    them purged, every seventh message transient; 4 to an exchange that fans out to three.
    """

    def __init__(self, loop: KillLoop, left_max: int = LEFT_MAX, elders: int = 0) -> None:
        """`left_max` messages of each queue are left to the next round.

        So many of them, the oldest ones, are left to all rounds: `elders`.
        """
        self._loop = loop
        self._left_max = left_max
        self._elders = elders
        self._work = QueueLedger("work", is_consumed=True)
        self._halves = [QueueLedger(f"half-{n}", is_consumed=False) for n in (1, 2)]
        self._fan = [QueueLedger(f"fan-{n}", is_consumed=n == 1) for n in (1, 2, 3)]
        self._ledgers = [self._work, *self._halves, *self._fan]
        self._declared = Declared()
        self._sent = [0, 0, 0, 0]
        self._rounds = self._confirmed = self._repeated = 0
        # Segments that brokers have rewritten, by their logs.
        self._rewritten = 0
        self._held_bytes_max = 0
        self._set_up()

    def _start(self) -> BrokerProcess:
        broker = self._loop.start()
        said = [line for line in broker.log().splitlines() if any(loss in line for loss in LOSSES)]
        assert not said, said
        return broker

    def _set_up(self) -> None:
        client = SocketClient(self._loop.broker.port)
        client.open_channel()
        for ledger in self._ledgers:
            client.declare(ledger.name)
        client.declare(MARKERS)
        for exchange, kind in (("halves", "direct"), ("fan", "fanout")):
            client.ask(wire.exchange_declare(1, exchange, kind), wire.EXCHANGE_DECLARE_OK)
        for ledger in self._halves:
            client.ask(wire.queue_bind(1, ledger.name, "halves", ledger.name), wire.QUEUE_BIND_OK)
        for ledger in self._fan:
            client.ask(wire.queue_bind(1, ledger.name, "fan", ""), wire.QUEUE_BIND_OK)
        client.close()

    # --- The load

    def _threads(self) -> tuple[list[Publisher], list[LoadThread]]:
        port = self._loop.broker.port
        halves = self._halves

        def half(key: int) -> tuple[str, list[QueueLedger]]:
            # Now message by message in turn, now twenty at a time.
            ledger = halves[(key if key // 1000 % 2 else key // 20) % 2]
            return ledger.name, [] if key % 7 == 0 else [ledger]

        plans: list[tuple[str, Route]] = [
            ("", lambda key: ("work", [self._work])),
            ("", lambda key: ("work", [self._work])),
            ("halves", half),
            ("fan", lambda key: ("", self._fan)),
        ]
        publishers = [
            Publisher(port, self._loop.seed(), n + 1, exchange, route, self._sent[n] + 1)
            for n, (exchange, route) in enumerate(plans)
        ]
        others: list[LoadThread] = [
            Consumer(port, self._loop.seed(), self._work),
            Consumer(port, self._loop.seed(), self._work),
            Consumer(port, self._loop.seed(), self._fan[0]),
            Purger(port, self._loop.seed(), self._halves[1]),
            Declarer(port, self._loop.seed(), self._declared),
        ]
        return publishers, others

    def _load_and_kill(self) -> tuple[float, int, int]:
        """Seconds of load, and how many were sent and confirmed in it."""
        publishers, others = self._threads()
        seconds = self._loop.load_and_kill([*publishers, *others], LOAD_SECONDS)
        self._count_rewritten()
        for n, publisher in enumerate(publishers):
            self._sent[n] += publisher.sent
        sent = sum(publisher.sent for publisher in publishers)
        return seconds, sent, sum(publisher.confirmed for publisher in publishers)

    # --- One round

    def round(self, number: int) -> None:
        """Load, kill, start twice, check; prints the figures."""
        seconds, sent, confirmed = self._load_and_kill()
        data = self._loop.broker.data
        attempts = kept_attempts(data, data.parent / "copy")
        known = sum(
            ledger.check_attempts(attempts.get(ledger.name, {})) for ledger in self._ledgers
        )
        interrupted = self._maybe_kill_while_starting()
        first = self._start()
        findings = self._check_all(acks=False)
        there, gone = self._declared.check(first.port)
        graceful = self._loop.stop_or_kill()
        self._count_rewritten()
        second = self._start()
        again = self._check_all(acks=True)
        assert sum(each.found for each in again) == sum(each.found for each in findings)
        assert sum(each.redelivered for each in again) == sum(each.found for each in again)
        assert self._declared.check(second.port) == (there, gone)
        bound = self._declared.remove(second.port)
        assert second.faults() == []
        total = Findings(*map(sum, zip(*findings, strict=True)))
        self._rounds += 1
        self._confirmed += confirmed
        self._repeated += total.repeated
        segments = sorted(self._loop.broker.data.glob("journal/*.journal"))
        print(
            f"round {number}: {seconds:.2f} s of load; published {sent} confirmed {confirmed} "
            f"(in queues {total.confirmed}); found {total.found} lost=0 altered=0; settled "
            f"{total.settled}, back 0; acked in the last moments {total.acked_late}, of them "
            f"repeated {total.repeated}; redelivered {total.redelivered}, attempts kept {known}; "
            f"queues made in the round: {there} there, {gone} gone, {bound} bound; starts "
            f"{first.start_seconds:.2f} s{interrupted}, {second.start_seconds:.2f} s after "
            f"{'a stop' if graceful else 'a kill'}; segments {segments[0].stem.lstrip('0')} to "
            f"{segments[-1].stem.lstrip('0')}, {len(segments)} there"
        )

    def finish(self) -> str:
        """Nothing more to check: each round has."""
        return (
            f"{self._rounds} rounds, {self._confirmed} confirmed, lost=0, altered=0, "
            f"repeated={self._repeated}; the queues held up to {self._held_bytes_max} bytes of "
            f"messages; {self._rewritten} segments were rewritten"
        )

    def _count_rewritten(self) -> None:
        """Of the broker that has just ended."""
        self._rewritten += self._loop.broker.log().count("journal.compacted")

    def _maybe_kill_while_starting(self) -> str:
        if self._loop.random.random() < 0.5:
            return ""
        self._loop.kill_while_starting((0.1, 0.5))
        return " (behind a start that was killed)"

    def _check_all(self, acks: bool) -> list[Findings]:
        """Read every queue to its end and compare; with `acks`, leave little in it."""
        client = SocketClient(self._loop.broker.port)
        client.open_channel(1)
        client.open_channel(2, confirm=True)
        findings = []
        held_bytes = 0
        for ledger in self._ledgers:
            read = self._read(client, ledger)
            held_bytes += sum(len(body_of(key)) for _, key, _ in read)
            findings.append(ledger.check([(key, redelivered) for _, key, redelivered in read]))
            keys = [key for _, key, _ in read]
            left = set(self._loop.random.sample(keys, min(len(keys), self._left_max)))
            left.update(sorted(keys)[: self._elders])
            if acks:
                client.send(b"".join(wire.ack(1, tag) for tag, key, _ in read if key not in left))
            # Behind this the queue has seen the acks, and the journal what the queue told it.
            client.declare(ledger.name, passive=True)
            client.publish_confirmed("", MARKERS, b"", channel=2)
            if acks:
                ledger.keep(left)
            ledger.note_delivered(ledger.present)
        client.ask(wire.queue_purge(1, MARKERS), wire.QUEUE_PURGE_OK)
        client.close()
        self._held_bytes_max = max(self._held_bytes_max, held_bytes)
        return findings

    def _read(self, client: SocketClient, ledger: QueueLedger) -> list[tuple[int, int, bool]]:
        """Tag, key and redelivered flag of everything in the queue; all stays unacked."""
        count = client.declare(ledger.name, passive=True)
        client.ask(wire.consume(1, ledger.name, ledger.name), wire.CONSUME_OK)
        read = []
        for _ in range(count):
            item = client.delivery()
            assert not isinstance(item, wire.Frame), item
            read.append((item.delivery_tag, key_in(item.body), item.redelivered))
        return read
