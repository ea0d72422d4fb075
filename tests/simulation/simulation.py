"""One run of the broker's rules from one seed: queues, clients, crashes and clocks.

A run draws a few queues with their arguments, then what happens step by step: a client does
something, actors have turns, time passes or the wall clock is set, the broker is killed or loses
its power, at any moment and also in the middle of a write. After each start the judge compares what
is there with what must be. At the end clients that answer consume all queues until nothing is left.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random
from typing import Final

from broker_parts import SimulatedJournal, SimulatedLetters, SimulatedQueue, Stage
from client_frames import publish
from clients import Client
from crashing_files import CrashingFiles, PowerCut
from event_loop import EventLoop
from judge import SYNCED, Judge, QueueBook, ViolationError, demand
from kit import Kit
from leveret.actors.messages import SetPaused
from leveret.amqp_frames.messages.batch import TTL_NONE
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.definitions import (
    TO_QUEUE,
    AddBinding,
    AddExchange,
    AddQueue,
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
)
from leveret.core.exchanges.table import ExchangeTable
from leveret.core.queue.construction import equip, refill
from leveret.storage.journal.opening import open_journal
from model_entry import WRITTEN

DIRECTORY: Final = "/journal"
GRAVES: Final = "graves"
EVERYWHERE: Final = "amq.fanout"
LATER: Final = "later"
# Where a queue's arguments name none.
REQUEUE_DELAY_MAX_MS: Final = 3_600_000
START_MS: Final = 1_700_000_000_000
STEPS: Final = 100
# A drain that needs more rounds than this never ends.
ROUNDS_MAX: Final = 2_000

Arguments = dict[str, object]


def drawn_arguments(chosen: Random) -> Arguments:
    """Of a queue; the time-outs and ages are of the size of the clock's steps."""
    arguments: Arguments = {}
    if chosen.random() < 0.7:
        arguments["x-in-flight-timeout"] = chosen.choice((20, 50, 200, 3_000))
    if chosen.random() < 0.5:
        arguments["x-delivery-limit"] = chosen.choice((0, 1, 3))
    if chosen.random() < 0.5:
        arguments["x-dead-letter-exchange"] = ""
        arguments["x-dead-letter-routing-key"] = GRAVES
    if chosen.random() < 0.25:
        arguments["x-message-ttl"] = chosen.choice((0, 60, 900))
    if chosen.random() < 0.3:
        arguments["x-max-priority"] = chosen.choice((2, 9))
    if chosen.random() < 0.2:
        arguments["x-max-length"] = chosen.choice((2, 8))
        arguments["x-overflow"] = chosen.choice(("drop-head", "reject-publish"))
    if chosen.random() < 0.35:
        delay_ms = chosen.choice((30, 100, 2_000))
        arguments["x-requeue-delay"] = delay_ms
        if chosen.random() < 0.7:
            arguments["x-requeue-delay-max"] = delay_ms * chosen.choice((1, 3, 10))
    if chosen.random() < 0.15:
        arguments["x-single-active-consumer"] = True
    return arguments


def book_of(name: str, arguments: Arguments) -> QueueBook:
    """What the judge must know of a queue's arguments."""

    def number(key: str) -> int | None:
        value = arguments.get(key)
        assert value is None or isinstance(value, int)
        return value

    ttl_ms = number("x-message-ttl")
    return QueueBook(
        name,
        number("x-in-flight-timeout"),
        number("x-delivery-limit"),
        number("x-max-length"),
        TTL_NONE if ttl_ms is None else ttl_ms,
        "x-dead-letter-exchange" in arguments,
        "x-single-active-consumer" in arguments,
        number("x-requeue-delay") or 0,
        number("x-requeue-delay-max") or REQUEUE_DELAY_MAX_MS,
    )


class Simulation:
    """A run; `history` says what happened."""

    def __init__(self, seed: int, kit: Kit) -> None:
        self.history: list[str] = []
        self._random = Random(seed)
        self._kit = kit
        self._files = CrashingFiles()
        self._numbers = count(1)
        chosen = self._random
        self._segment_bytes_max = chosen.choice((1_500, 6_000, 40_000))
        self._window_bytes_max = chosen.choice((300, 1 << 20, 1 << 20))
        self._touched_ms_max = chosen.choice((0, 90, 900_000))
        self._has_priorities = chosen.random() < 0.5
        self._expire_some = chosen.random() < 0.3
        self._transient_some = chosen.random() < 0.3
        self._table = ExchangeTable()
        routes_as = table_of({"x-delayed-type": "direct"})
        later = ExchangeDefinition(LATER, "x-delayed-message", True, arguments=routes_as)
        self._table.apply([AddExchange(later)])
        named = {f"q{number}": drawn_arguments(chosen) for number in range(chosen.randint(1, 3))}
        named[GRAVES] = {"x-in-flight-timeout": 100} if chosen.random() < 0.3 else {}
        self._queues: list[QueueDefinition] = []
        self._books: dict[int, QueueBook] = {}
        for queue_id, (name, arguments) in enumerate(named.items(), 1):
            self.note(f"queue {name}: {arguments}")
            queue = QueueDefinition(name, queue_id, True, arguments=table_of(arguments))
            self._queues.append(queue)
            self._books[queue_id] = book_of(name, arguments)
            self._table.apply([AddQueue(queue)])
            if name != GRAVES:
                binding = BindingDefinition(EVERYWHERE, name, "", True, destination_kind=TO_QUEUE)
                self._table.apply([AddBinding(binding)])
            key = BindingDefinition(LATER, name, name, True, destination_kind=TO_QUEUE)
            self._table.apply([AddBinding(key)])
        self._judge = Judge(list(self._books.values()))
        self._wall_ms = START_MS
        self._start(None)

    @property
    def seen(self) -> Counter[str]:
        """How often the judge saw what."""
        return self._judge.seen

    def note(self, what: str) -> None:
        self.history.append(what)

    # --- Lives of the broker

    def _start(self, certain: int | None) -> None:
        """A broker on what the disk has; `certain` is what must be there, None at first."""
        chosen = self._random
        loop = self._loop = EventLoop(chosen, chosen.randrange(1_000_000), self._wall_ms)
        stage = Stage(loop, self._judge, self._table, self._touched_ms_max)
        journal, recovered = open_journal(
            DIRECTORY, self._files, self._books.keys(), self._segment_bytes_max
        )
        self._judge.set_clock(loop.uptime_ms, loop.wall_ms)
        if certain is not None:
            self._judge.restart(recovered, self._books, certain)
        journal = self._kit.journal(journal)
        next_batch_number = count(recovered.next_batch_number).__next__
        disk = stage.journal = SimulatedJournal(
            stage, journal, self._books, reclaims=chosen.random() < 0.8
        )
        self._disk = disk
        stage.letters = SimulatedLetters(stage, next_batch_number)
        for queue in self._queues:
            stage.books[queue] = self._books[queue.queue_id]
            rules = self._kit.queue(queue, True, self._window_bytes_max)
            rules.in_flight = self._kit.in_flight()
            equip(rules, queue.arguments, self._window_bytes_max, self._kit.part_makers)
            rules.now_ms, rules.uptime_ms = loop.wall_ms, loop.uptime_ms
            refill(rules, recovered.messages(queue.queue_id))
            next_entry_id = recovered.next_entry_ids.get(queue.queue_id, 1)
            rules.next_entry_id = max(rules.next_entry_id, next_entry_id)
            queue.handle = SimulatedQueue(stage, queue, rules)
        for queue in self._queues:
            queue.handle.start()
        self._clients = [
            Client(stage, self._kit, chosen, self._queues, next_batch_number)
            for _ in range(chosen.randint(1, 3))
        ]

    def _kill(self) -> None:
        """The process dies; what it has written is there."""
        self.note("kill -9")
        self._wall_ms = self._loop.wall_ms + self._random.choice((0, 5, 1_000))
        self._files.kill()
        self._start(WRITTEN)

    def _cut_power(self) -> None:
        """The machine stops: of what was not synced, anything may be there."""
        self.note("power cut")
        self._wall_ms = self._loop.wall_ms + self._random.choice((0, 5, 1_000))
        self._files.cut_power(self._random)
        self._start(SYNCED)

    def _stop(self) -> None:
        """An orderly end: what the queues have told the journal is on the disk."""
        self.note("stop")
        self._wall_ms = self._loop.wall_ms
        self._disk.finish()
        self._files.kill()
        self._start(SYNCED)

    # --- What happens

    def run(self, steps: int = STEPS) -> None:
        """All of it; raises at the first contradiction."""
        for _ in range(steps):
            try:
                self._happen()
            except PowerCut:
                self._cut_power()
        self._files.operations_left = None
        self._drain()

    def _happen(self) -> None:
        chosen, loop = self._random, self._loop
        roll = chosen.random()
        if roll < 0.70:
            number = chosen.randrange(len(self._clients))
            did = self._clients[number].act(self._publishes)
            self.note(f"client {number} {did}")
        elif roll < 0.88:
            self._pass_time()
        elif roll < 0.91:
            step_ms = chosen.choice((-3_600_000, -40, 40, 3_600_000))
            loop.wall_ms += step_ms
            self.note(f"the wall clock is set by {step_ms} ms")
        elif roll < 0.925:
            queue = chosen.choice(self._queues)
            is_paused = not self._books[queue.queue_id].is_paused
            loop.tell(queue.handle, SetPaused(is_paused))
            self.note(f"{queue.name} is {'paused' if is_paused else 'resumed'}")
        elif roll < 0.982:
            self.note("all is handled")
            self._handle_all()
        elif roll < 0.988:
            self._kill()
        elif roll < 0.994:
            self._cut_power()
        elif roll < 0.997:
            self._files.operations_left = chosen.randint(1, 8)
            self.note(f"the power goes in {self._files.operations_left} operations")
        else:
            self._stop()
        loop = self._loop
        for _ in range(chosen.choice((0, 2, 6, 20))):
            if not loop.is_idle:
                loop.turn()

    def _handle_all(self) -> None:
        loop, judge = self._loop, self._judge
        demand(loop.run(), "the actors never come to rest")
        judge.set_clock(loop.uptime_ms, loop.wall_ms)
        judge.check_idle()

    def _pass_time(self) -> None:
        """A little, much, or to the moment when somebody is to be woken, or just before it."""
        chosen, loop = self._random, self._loop
        wake_ms = loop.next_wake_ms()
        if wake_ms is not None and chosen.random() < 0.6:
            milliseconds = max(0, wake_ms - loop.uptime_ms + chosen.choice((-1, 0, 0, 7)))
        else:
            milliseconds = chosen.choice((1, 10, 60, 60, 400, 5_000))
        loop.advance(milliseconds)
        self.note(f"{milliseconds} ms pass: {loop.uptime_ms}")

    def _publishes(self, chosen: Random) -> tuple[bytes, list[int]]:
        """A few messages to one queue, or to all but that of dead letters."""
        wires: list[bytes] = []
        numbers: list[int] = []
        exchange, key = "", ""
        if chosen.random() < 0.2:
            exchange = EVERYWHERE
        else:
            key = chosen.choice(self._queues).name
            exchange = chosen.choice(("", "", LATER))
        for _ in range(chosen.choice((1, 1, 2, 5))):
            number = next(self._numbers)
            is_transient = self._transient_some and chosen.random() < 0.2
            delay_ms = chosen.choice((0, 20, 400, 3_000)) if exchange == LATER else 0
            self._judge.delays_ms[number] = delay_ms
            properties = Properties(
                headers=table_of({"x-delay": delay_ms}) if delay_ms else None,
                delivery_mode=1 if is_transient else 2,
                priority=chosen.randrange(10) if self._has_priorities else None,
                expiration=chosen.choice((None, "0", "50", "2000")) if self._expire_some else None,
            )
            wires.append(publish(key, b"%d" % number, properties, exchange=exchange))
            numbers.append(number)
        return b"".join(wires), numbers

    # --- The end

    def _drain(self) -> None:
        """Everybody reads and acks, until all queues are empty."""
        self.note("the end: all is consumed")
        loop, judge = self._loop, self._judge
        for client in self._clients:
            if client.connection.is_stopped:
                client.connection.pause_or_resume()
            client.read_or_stall(False)
        for queue in self._queues:
            loop.tell(queue.handle, SetPaused(False))
        self._clients[0].consume_all()
        for _ in range(ROUNDS_MAX):
            self._handle_all()
            if sum(client.ack_all() for client in self._clients):
                continue
            if not any(book.copies or book.nameless_count for book in self._books.values()):
                break
            wake_ms = loop.next_wake_ms()
            demand(wake_ms is not None, "messages are left, and nobody waits for anything")
            assert wake_ms is not None
            loop.advance(wake_ms - loop.uptime_ms)
        judge.check_drained()
        for client in self._clients:
            for opened in client.open_channels():
                demand(not opened.unanswered, "publishes without an answer:", opened.unanswered)
                credit = opened.channel.credit_in_use
                demand(not credit, "a channel that holds nothing has credit in use:", credit)


def run(seed: int, kit: Kit | None = None) -> Simulation:
    """Run a seed to its end. ViolationError, with the history as a note, if anything goes wrong."""
    simulation = Simulation(seed, kit or Kit())
    try:
        simulation.run()
    except Exception as error:
        violation = error
        if not isinstance(error, ViolationError):
            violation = ViolationError(f"the broker fails: {error!r}")
            violation.__cause__ = error
        violation.add_note(f"seed {seed}:\n  " + "\n  ".join(simulation.history))
        raise violation from violation.__cause__
    return simulation
