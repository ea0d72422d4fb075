"""A whole node, its clients, its disk and its clocks, in one thread from one seed.

A run draws settings and a topology, and then operations one by one: a client does something, time
passes, the node is killed, loses its power or a sync, its disk is full or damaged. Behind each
operation the node takes some steps, or comes to rest. Each operation draws from a source of its
own, so that a run without some of its operations still does the others in the same way: that is
how a history that breaks a promise is shortened. At the end all faults are over, everything is
consumed, and the checker looks whether anything is missing.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from amqp_client import Client, ClientChannel, cancel, consume, get
from catalog_model import CatalogModel
from checker import Checker, Hold, Message, QueueBook, ViolationError, demand
from crashing_files import CrashingFiles, PowerCut
from leveret.actors.messages import PauseRequest, Shutdown
from leveret.actors.runtime.runtime import tell
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicReject,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
)
from leveret.amqp_frames.properties import Properties, encode_properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.configuration import Configuration
from leveret.logs.events import JOURNAL_COMPACTED, JOURNAL_RECOVERED
from leveret.machine import Machine
from leveret.node import Node
from leveret.storage.errors import StorageError
from world import STEPS_MAX, AtOnce, EndlessError, World

OPERATIONS: Final = 200
GRAVES: Final = "graves"
LATER: Final = "later"
NAMES: Final = ("q0", "q1", "q2")
SEGMENT_ENDING: Final = ".journal"
INDEX_ENDING: Final = ".index"
DIRECTORY: Final = Path("/node")
# Log lines that report what damage has cost.
REPORTS: Final = frozenset(
    f"journal.{each}" for each in ("damaged", "missing", "lost", "torn", "truncated", "dropped")
)
DRAIN_ROUNDS_MAX: Final = 200
DRAIN_STEP_MS: Final = 5_000
# To find a shorter history.
SHORTENING_RUNS_MAX: Final = 200
_NO_DIGITS: Final = str.maketrans("", "", "0123456789")


@cache
def configuration(
    segment_bytes_max: int, window_bytes_max: int, budget_bytes: int, live_percent_max: int
) -> Configuration:
    made = Configuration(
        data_dir=DIRECTORY,
        disk_reserve_bytes=16_384,
        disk_free_bytes_min=0,
        password_hash_cost=10,
        compaction_live_percent_max=live_percent_max,
    )
    # Less than a person may ask for, so that it is reached by a few messages.
    for name, value in (
        ("segment_bytes_max", segment_bytes_max),
        ("memory_budget_bytes", budget_bytes),
        ("compaction_segment_bytes_min", 256),
        ("delivery_window_bytes_max", window_bytes_max),
        ("publish_window_bytes_max", 4 * window_bytes_max),
    ):
        object.__setattr__(made, name, value)
    return made


class Asker:
    """Stands in for an actor that waits for an answer of the node."""

    def __init__(self, answered: Callable[[], None]) -> None:
        self._answered = answered
        self.actor_stopped = self
        self.actor_inbox = self

    def is_set(self) -> bool:
        return False

    def put(self, _envelope: object) -> None:
        self._answered()


class NodeSimulation:
    """One run. `history` has a line for each thing that was done."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.history: list[str] = []
        # How often which operation was drawn.
        self.drawn: Counter[str] = Counter()
        random = self._random = Random(seed)
        self.world = World(random)
        self.checker = Checker()
        self.files = CrashingFiles()
        self._catalog = CatalogModel()
        self._configuration = configuration(
            random.choice((1_500, 1_500, 6_000, 40_000)),
            random.choice((600, 1 << 20)),
            random.choice((500, 2_000, 20_000, 64 << 20)),
            random.choice((25, 60)),
        )
        self._fatal: tuple[str, BaseException] | None = None
        # The fault that ends the node, if it meets it.
        self._is_fault_expected = False
        self._ports = 40_000
        self.clients = [Client(f"c{number}", self.checker, self.note) for number in range(3)]
        self.queues: dict[str, QueueBook] = {}
        self._repeatable: dict[int, tuple[Message, str, Properties]] = {}
        # Who waits for the answer to a change of the topology.
        self._topology_channel: ClientChannel | None = None
        self._start()
        self._declare_first()

    def note(self, what: str) -> None:
        self.history.append(what)

    # --- Lives of the node

    def _on_fatal(self, actor: str, error: BaseException) -> None:
        if self._fatal is None:
            self._fatal = actor, error

    def _start(self) -> None:
        self.world.restart()
        self._fatal = None
        self._is_fault_expected = False
        machine = Machine(
            self.files,
            self._catalog,
            self.world,
            lambda _count: AtOnce(),
            self._random.randbytes,
            new_runtime=self.world.new_runtime,
            pause=lambda _seconds: None,
            monotonic=self.world.time,
            thread_time=self.world.time,
        )
        self.node = Node(self._configuration, self.world.log, self._on_fatal, machine)  # type: ignore[arg-type]
        try:
            self._listener = self.node.start_actors(self.world)
        finally:
            self._read_log()
        self.checker.seen["starts"] += 1

    def _read_log(self) -> None:
        for level, event, about in self.world.log.lines:
            if event == JOURNAL_COMPACTED:
                self.checker.seen["compactions"] += 1
                self.note(f"log: {event} {about['segment']}")
            elif event == JOURNAL_RECOVERED:
                self.checker.seen["indexes read at a start"] += about["unverified_segments"]
            elif event in REPORTS:
                self.checker.damage_reported = True
                self.note(f"log: {event} {about.get('report')}")
            elif event == "actor.failed" and not self._is_fault_expected:
                error = about["exc_info"][1]
                raise ViolationError(f"an actor fails: {about['actor']}: {error!r}") from error
            elif level == "error":
                self.note(f"log: {event}")
        self.world.log.lines.clear()

    def _restart(self) -> None:
        """On what the disk has. Where a fault meets the start, it is tried again without."""
        for queue in [each for each in self.queues.values() if not each.durable]:
            del self.queues[queue.name]
            queue.is_deleted = True
        for _ in range(5):
            try:
                self._start()
            except (PowerCut, OSError, StorageError) as error:
                self.note(f"the start fails: {error!r}")
                if not self._is_fault_possible():
                    raise
                self._remove_faults()
                self.files.cut_power(self._random)
            else:
                return
        raise ViolationError("the node cannot be started")

    def _is_fault_possible(self) -> bool:
        files = self.files
        return (
            files.operations_left is not None
            or bool(files.failing)
            or files.capacity_bytes is not None
            or self.checker.has_damage
        )

    def _remove_faults(self) -> None:
        self.files.operations_left = None
        self.files.failing.clear()
        self.files.capacity_bytes = None

    def _crash(self, random: Random, *, loses_written: bool) -> None:
        for client in self.clients:
            client.forget()
        self.files.operations_left = None
        self.files.failing.clear()
        if loses_written:
            self.files.cut_power(random)
        else:
            self.files.kill()
        self.checker.crashed(loses_written=loses_written)
        self.checker.seen["power cuts" if loses_written else "kills"] += 1

    def _steps(self, count: int) -> None:
        """So many at most; a node that meets a fault is started again."""
        world = self.world
        for _ in range(count):
            is_left = world.step()
            if self._fatal is not None:
                self._end_by_fault()
            elif not is_left:
                break
        if world.log.lines:
            self._read_log()

    def _settle(self) -> None:
        """Steps until nothing is left to do without a change of the clock."""
        self._steps(STEPS_MAX)
        if self.world.step():
            raise EndlessError("the node does not come to rest")

    def _end_by_fault(self) -> None:
        assert self._fatal is not None
        actor, error = self._fatal
        if not self._is_fault_expected:
            raise ViolationError(f"the node ends: {actor}: {error!r}") from error
        self.note(f"the node ends: {error!r}")
        if not isinstance(error, PowerCut):
            # Until the process is gone others have turns: nothing may be confirmed any more.
            for _ in range(self._random.randint(0, 20)):
                if not self.world.step():
                    break
        self._crash(self._random, loses_written=self._random.random() < 0.5)
        self._restart()

    def rest(self) -> bool:
        """Steps until nothing is left to do; has everything been said and read?"""
        node = self.node
        self._settle()
        links = [each.link for each in self.clients if each.link is not None]
        assert self.node.context is not None
        is_full = self.files.capacity_bytes is not None or bool(self.node.context.alarms.reason)
        is_quiet = (
            self.node is node
            and not is_full
            and not any(each.is_blocked for each in self.clients)
            and all(each.is_clean and each.is_read for each in links)
        )
        if is_quiet:
            paused = [each for each in links if each.is_reading_paused]
            demand(not paused, "a connection is not read, and nothing is left to do")
        self.checker.at_rest(is_quiet=is_quiet, is_full=is_full)
        return is_quiet

    # --- What is done

    def run(self, kept: Collection[int] | None = None) -> None:
        """All operations, or those that are kept, and the end."""
        for number in range(OPERATIONS):
            if kept is not None and number not in kept:
                continue
            random = self._random = self.world.random = Random(self._seed * 1_000_003 + number)
            self.history.append(f"{number}: +{self.world.uptime_ms} ms")
            self._operate(random)
            if random.random() < 0.25:
                self.rest()
            else:
                self._steps(random.randint(0, 30))
        self._random = self.world.random = Random(self._seed)
        self._drain()

    def _operate(self, random: Random) -> None:
        chosen = random.choices(_OPERATIONS, _WEIGHTS)[0]
        self.drawn[chosen.__name__] += 1
        chosen(self, random)

    # Clients

    def connect(self, client: Client) -> None:
        """Open a connection to the node; the handshake goes on by itself."""
        self._ports += 1
        client.connect(self.world, self._listener, self._ports)

    def _client(self, random: Random) -> Client:
        client = random.choice(self.clients)
        if not client.is_connected:
            self.connect(client)
            self.note(f"{client.name} connects")
        return client

    def _channel(
        self, random: Random, wanted: Callable[[ClientChannel], object] | None = None
    ) -> ClientChannel | None:
        """A channel of any client, opened if need be; None if the client is not ready.

        Nor is there one while the broker does not read the client, as in an alarm, and has answered
        none of its closes: their numbers are in use till then.
        """
        client = self._client(random)
        channels = client.open_channels()
        if wanted is not None:
            found = [each for each in channels if wanted(each)]
            return random.choice(found) if found else None
        if channels and (random.random() < 0.8 or len(channels) >= 3):
            return random.choice(channels)
        if not client.is_ready:
            return None
        number = next((each for each in range(1, 9) if each not in client.channels), None)
        if number is None:
            return None
        mode = random.choice(("confirm", "confirm", "confirm", "", "tx"))
        self.note(f"{client.name}.{number} is opened, {mode or 'without confirms'}")
        return client.open_channel(number, mode)

    def _queue(self, random: Random) -> QueueBook | None:
        certain = [each for each in self.queues.values() if not each.is_uncertain]
        return random.choice(certain) if certain else None

    def publish(self, random: Random) -> None:
        channel = self._channel(random)
        if channel is None:
            return
        for _ in range(random.choice((1, 1, 2, 5, 20))):
            self._publish(random, channel)

    def _publish(self, random: Random, channel: ClientChannel) -> None:
        number = self.checker.new_number()
        size = random.choice((8, 8, 60, 200, 3_000))
        body = (b"%08d" % number) + b"x" * (size - 8)
        drawn = random.random()
        exchange, key = "", random.choice(NAMES)
        if drawn < 0.15:
            exchange = "amq.fanout"
        elif drawn < 0.22:
            exchange, key = "amq.direct", "nobody"
        elif drawn < 0.3:
            key = "nobody"
        elif drawn < 0.4:
            exchange = LATER
        message = Message(number, body)
        message.is_persistent = random.random() < 0.75
        message.is_mandatory = random.random() < 0.3
        if random.random() < 0.3:
            message.priority = random.randint(0, 4)
        expiration = None
        if random.random() < 0.06:
            expiration = str(random.choice((0, 40, 3_000)))
        headers: dict[str, Any] = {}
        if exchange == LATER:
            headers["x-delay"] = random.choice((0, 40, 700, 3_000))
            message.due_ms = self.checker.now_ms + headers["x-delay"]
        if random.random() < 0.5:
            headers["x-dedup-producer"] = "simulated"
            headers["x-dedup-id"] = str(number)
        properties = Properties(
            headers=table_of(headers) if headers else None,
            delivery_mode=2 if message.is_persistent else random.choice((None, 1)),
            priority=message.priority or None,
            expiration=expiration,
        )
        message.route = exchange, key
        message.queues = self._routed(message)
        if expiration is not None:
            message.ttl_ms = int(expiration)
        if exchange != LATER:
            # Else receivers see another header.
            message.properties = encode_properties(properties)
        if message.is_persistent and "x-dedup-id" in headers and not exchange:
            self._repeatable[number] = message, key, properties
        self.checker.published(channel, message)
        self.note(f"{channel.name} publishes {number} to {exchange or key}")
        channel.publish(message, exchange, key, properties, body)

    def _routed(self, message: Message) -> list[QueueBook]:
        """The queues that a message would go to now."""
        exchange, key = message.route
        if exchange == "amq.fanout":
            return [each for name, each in self.queues.items() if name != GRAVES]
        is_named = exchange in ("", LATER) and key in self.queues
        return [self.queues[key]] if is_named else []

    def repeat(self, random: Random) -> None:
        """A publisher that does not know what became of a message publishes it again."""
        channel = self._channel(random, lambda each: each.mode == "confirm")
        if channel is None or not self._repeatable:
            return
        number = random.choice(list(self._repeatable))
        message, key, properties = self._repeatable[number]
        queue = self.queues.get(key)
        if queue is None or "x-dedup-window" not in queue.arguments or message.publisher is None:
            return
        self.note(f"{channel.name} publishes {number} to {key} again")
        self.checker.repeated(channel, message, queue)
        channel.publish(message, "", key, properties, message.body)

    def commit(self, random: Random) -> None:
        channel = self._channel(random, lambda each: each.mode == "tx" and each.in_tx)
        if channel is None:
            return
        messages, channel.in_tx = channel.in_tx, []
        if random.random() < 0.75:
            self.note(f"{channel.name} commits")
            for message in messages:
                # As far as the node is concerned it is published now.
                message.queues = self._routed(message)
                self.checker.entered(message)
            channel.ask(TxCommit(), TxCommitOk, lambda _: self.checker.committed(channel, messages))
        else:
            self.note(f"{channel.name} rolls back")
            for message in messages:
                message.is_void = True
            channel.ask(TxRollback(), TxRollbackOk, lambda _: None)

    def consume(self, random: Random) -> None:
        channel = self._channel(random)
        queue = self._queue(random)
        if channel is None or queue is None or channel.mode == "tx":
            return
        tag = f"t{random.randrange(1000)}"
        if tag in channel.consumers:
            return
        prefetch = random.choice((0, 1, 3, 10))
        channel.ask(BasicQos(prefetch_count=prefetch), BasicQosOk, lambda _: None)
        timeout_ms = random.choice((50, 2_000)) if random.random() < 0.1 else None
        # Nobody could say what became of a dead letter.
        no_ack = random.random() < 0.05 and queue.name != GRAVES
        self.note(f"{channel.name} consumes from {queue.name}, prefetch {prefetch}")
        consume(channel, queue, tag, no_ack=no_ack, timeout_ms=timeout_ms, prefetch=prefetch)

    def cancel(self, random: Random) -> None:
        channel = self._channel(random, lambda each: [tag for tag in each.consumers if tag])
        if channel is None:
            return
        tag = random.choice([each for each in channel.consumers if each])
        self.note(f"{channel.name} cancels {tag}")
        cancel(channel, tag)

    def get(self, random: Random) -> None:
        channel = self._channel(random)
        queue = self._queue(random)
        if channel is None or queue is None or channel.mode == "tx":
            return
        self.note(f"{channel.name} gets from {queue.name}")
        get(channel, queue, no_ack=random.random() < 0.1 and queue.name != GRAVES)

    def answer(self, random: Random) -> None:
        channel = self._channel(random, lambda each: each.unacked)
        if channel is None:
            return
        tags = list(channel.unacked)
        drawn = random.random()
        if drawn < 0.3:
            self._ack(channel, tags[-1], multiple=True)
        elif drawn < 0.7:
            self._ack(channel, random.choice(tags), multiple=False)
        elif drawn < 0.8:
            self._nack(channel, tags[-1], multiple=True)
        elif drawn < 0.92:
            self._nack(channel, random.choice(tags), multiple=False)
        else:
            tag = random.choice(tags)
            self.note(f"{channel.name} rejects {tag}")
            channel.tell(BasicReject(tag, requeue=False))
            self.checker.dropped(channel.unacked[tag])

    def command(self, random: Random) -> None:
        """A touch, or a requeue with a delay."""
        channel = self._channel(random, lambda each: each.unacked and each.mode != "tx")
        if channel is None:
            return
        tag = random.choice(list(channel.unacked))
        hold = channel.unacked[tag]
        if random.random() < 0.5:
            self.note(f"{channel.name} touches {tag}")
            self.checker.seen["touches"] += 1
            channel.command("touch", {"delivery-tag": tag})
            return
        delay_ms = random.choice((0, 30, 900))
        self.note(f"{channel.name} requeues {tag} with {delay_ms} ms")
        channel.command("requeue", {"delivery-tag": tag, "delay-ms": delay_ms})
        self.checker.requeued(hold, delay_ms)

    def _ack(self, channel: ClientChannel, tag: int, *, multiple: bool) -> None:
        self.note(f"{channel.name} acks {'up to ' * multiple}{tag}")
        channel.tell(BasicAck(tag, multiple))
        for hold in self._answered(channel, tag, multiple):
            self.checker.settled(hold)

    def _nack(self, channel: ClientChannel, tag: int, *, multiple: bool) -> None:
        self.note(f"{channel.name} nacks {'up to ' * multiple}{tag}")
        channel.tell(BasicNack(tag, multiple, requeue=True))
        for hold in self._answered(channel, tag, multiple):
            self.checker.requeued(hold)

    def _answered(self, channel: ClientChannel, tag: int, multiple: bool) -> list[Hold]:
        if not multiple:
            return [channel.unacked[tag]]
        return [hold for each, hold in channel.unacked.items() if each <= tag]

    def vanish(self, random: Random) -> None:
        client = random.choice(self.clients)
        if client.is_connected:
            self.note(f"{client.name} vanishes")
            client.vanish(random)

    def close(self, random: Random) -> None:
        channel = self._channel(random, lambda _: True)
        if channel is None:
            return
        if random.random() < 0.3:
            self.note(f"{channel.client.name} closes")
            channel.client.close()
        else:
            self.note(f"{channel.name} is closed by its client")
            channel.client.close_channel(channel)

    def stall(self, random: Random) -> None:
        client = random.choice(self.clients)
        if client.link is not None:
            client.link.is_read = not client.link.is_read
            self.note(f"{client.name} {'reads' if client.link.is_read else 'stalls'}")

    # Time

    def advance(self, random: Random) -> None:
        for client in self.clients:
            if client.link is not None:
                client.link.is_read = True
        self._advance(random.choice((1, 10, 60, 300, 2_500)))

    def _advance(self, milliseconds: int) -> None:
        self.note(f"{milliseconds} ms pass")
        is_at_rest = not self.world.is_busy()
        self.world.advance(milliseconds)
        self.checker.time_passes(self.world.uptime_ms, is_at_rest)

    # Topology

    def _drawn_queue(self, random: Random, name: str) -> QueueBook:
        arguments: dict[str, Any] = {}
        if random.random() < 0.3:
            arguments["x-in-flight-timeout"] = random.choice((50, 200, 3_000))
        if random.random() < 0.3:
            arguments["x-delivery-limit"] = random.choice((1, 3))
        if random.random() < 0.4:
            arguments["x-dead-letter-exchange"] = ""
            arguments["x-dead-letter-routing-key"] = GRAVES
        if random.random() < 0.15:
            arguments["x-message-ttl"] = random.choice((0, 60, 900))
        if random.random() < 0.2:
            arguments["x-max-priority"] = random.choice((2, 9))
        if random.random() < 0.2:
            arguments["x-max-length"] = random.choice((2, 8))
            arguments["x-overflow"] = random.choice(("drop-head", "reject-publish"))
        if random.random() < 0.2:
            arguments["x-requeue-delay"] = random.choice((30, 2_000))
        if random.random() < 0.15:
            arguments["x-dedup-window"] = 10_000
        if random.random() < 0.15:
            arguments["x-single-active-consumer"] = True
        return QueueBook(name, random.random() < 0.9, arguments)

    def _declare(self, channel: ClientChannel, queue: QueueBook) -> None:
        self.note(f"{channel.name} declares {queue.name}: {queue.durable} {queue.arguments}")
        self._topology_channel = channel
        self.queues[queue.name] = queue
        self.checker.declared(queue, lambda message: queue in self._routed(message))

        def declared(_answer: Method) -> None:
            if queue.name == GRAVES:
                ready(_answer)
            elif not channel.is_leaving:
                bind = QueueBind(queue=queue.name, exchange="amq.fanout")
                channel.ask(bind, QueueBindOk, lambda _: None)
                bind = QueueBind(queue=queue.name, exchange=LATER, routing_key=queue.name)
                channel.ask(bind, QueueBindOk, ready)

        def ready(_answer: Method) -> None:
            self._topology_channel = None
            queue.is_uncertain = False

        arguments = table_of(queue.arguments)
        declare = QueueDeclare(queue=queue.name, durable=queue.durable, arguments=arguments)
        channel.ask(declare, QueueDeclareOk, declared)

    def _declare_first(self) -> None:
        random = self._random
        client = self.clients[0]
        client.connect(self.world, self._listener, self._ports)
        self.rest()
        channel = client.open_channel(1, "confirm")
        delayed = table_of({"x-delayed-type": "direct"})
        later = ExchangeDeclare(
            exchange=LATER, type="x-delayed-message", durable=True, arguments=delayed
        )
        channel.ask(later, ExchangeDeclareOk, lambda _: None)
        graves = QueueBook(GRAVES, True, {})
        graves.is_for_dead_letters = True
        self._graves = graves
        self._declare(channel, graves)
        for name in NAMES[: random.randint(1, 3)]:
            self._declare(channel, self._drawn_queue(random, name))
        self.rest()

    def topology(self, random: Random) -> None:
        """A declaration anew, a deletion or a purge; one at a time."""
        channel = self._channel(random)
        if channel is None or channel.pending:
            return
        busy = self._topology_channel
        if busy is not None and busy.is_open:
            return
        name = random.choice(NAMES)
        queue = self.queues.get(name)
        if queue is None or queue.is_uncertain:
            self._declare(channel, queue or self._drawn_queue(random, name))
        elif random.random() < 0.3:
            # The same once more.
            declare = QueueDeclare(
                queue=name, durable=queue.durable, arguments=table_of(queue.arguments)
            )
            queue.redeclarers.add(channel)
            channel.ask(declare, QueueDeclareOk, lambda _: queue.redeclarers.discard(channel))
        elif random.random() < 0.5:
            self._delete(channel, queue)
        else:
            self._purge(channel, queue)

    def _delete(self, channel: ClientChannel, queue: QueueBook) -> None:
        self.note(f"{channel.name} deletes {queue.name}")
        self._topology_channel = channel
        self.checker.deleting(queue)

        def deleted(_answer: Method) -> None:
            self._topology_channel = None
            self.checker.deleted(queue)
            if queue.is_deleted:
                del self.queues[queue.name]

        channel.ask(QueueDelete(queue=queue.name), QueueDeleteOk, deleted)

    def _purge(self, channel: ClientChannel, queue: QueueBook) -> None:
        is_quiet = self.rest()
        if not channel.is_open:
            return
        self.note(f"{channel.name} purges {queue.name}")
        self.checker.purging(queue, channel)
        done: list[Method] = []

        def purged(answer: Method) -> None:
            queue.purgers.discard(channel)
            done.append(answer)

        channel.ask(QueuePurge(queue=queue.name), QueuePurgeOk, purged)
        if is_quiet and self.rest() and done:
            self.checker.purged(queue)

    def pause(self, random: Random) -> None:
        """By the command line, or HTTP."""
        queue = self._queue(random)
        if queue is not None:
            self._pause(queue, not queue.wants_pause)

    def _pause(self, queue: QueueBook, is_paused: bool) -> None:
        self.note(f"{queue.name} is {'paused' if is_paused else 'resumed'}")
        queue.wants_pause = is_paused
        queue.is_paused = queue.is_pause_answered = False
        context = self.node.context
        assert context is not None
        answered = Asker(lambda: self.checker.pause_answered(queue, is_paused))
        request = PauseRequest(answered, None, "/", queue.name, is_paused)  # type: ignore[arg-type]
        tell(context.broker, request)

    # Faults

    def flip(self, random: Random) -> None:
        """The node is killed, and a bit of its segments is another at its next start."""
        self._crash(random, loses_written=False)
        names = sorted(each for each in self.files.names if each.endswith(SEGMENT_ENDING))
        name = random.choice(names)
        size = self.files.size(name)
        if size:
            offset = random.randrange(size)
            self.note(f"the node is killed, and bit {offset * 8} of {name} flips")
            self.files.flip(name, offset, 1 << random.randrange(8))
            self.checker.damaged()
            self.checker.seen["flipped bits"] += 1
        self._restart()

    def flip_index(self, random: Random) -> None:
        """The same with a bit of an index, which costs nothing."""
        names = sorted(each for each in self.files.names if each.endswith(INDEX_ENDING))
        if not names:
            return
        self._crash(random, loses_written=False)
        name = random.choice(names)
        size = self.files.size(name)
        if size:
            offset = random.randrange(size)
            self.note(f"the node is killed, and bit {offset * 8} of {name} flips")
            self.files.flip(name, offset, 1 << random.randrange(8))
            self.checker.seen["flipped bits of indexes"] += 1
        self._restart()

    def fill(self, random: Random) -> None:
        """The disk is nearly full for a while."""
        if self.files.capacity_bytes is None:
            self.files.capacity_bytes = self.files.used_bytes + random.randint(0, 6_000)
            self.note("the disk is nearly full")
            self.checker.seen["full disks"] += 1
        else:
            self._free_disk()

    def _free_disk(self) -> None:
        if self.files.capacity_bytes is not None:
            self.note("the disk has room")
            self.files.capacity_bytes = None
            self.checker.forget_unproven()

    def kill(self, random: Random) -> None:
        self.note("the node is killed")
        self._crash(random, loses_written=False)
        self._restart()

    def cut_power(self, random: Random) -> None:
        self.note("the power goes")
        self._crash(random, loses_written=True)
        self._restart()

    def cut_power_soon(self, random: Random) -> None:
        self._is_fault_expected = True
        self.files.operations_left = random.randint(1, 12)
        self.note(f"the power goes in {self.files.operations_left} operations of the disk")

    def fail_soon(self, random: Random) -> None:
        name = random.choice(("sync_data", "sync_data", "write"))
        self._is_fault_expected = True
        self.files.failing[name] = OSError(errno.EIO, "Input/output error")
        self.note(f"the next {name} fails")
        self.checker.seen["failed writes and syncs"] += 1

    def stop(self, random: Random) -> None:
        """The node is stopped and started, with everything written."""
        self.note("the node is stopped")
        for client in self.clients:
            if client.link is not None:
                client.link.is_read = True
        node = self.node
        self.checker.stopping()
        tell(self._listener.actor_ref, Shutdown())
        self._settle()
        if self.node is not node:
            return
        for client in self.clients:
            client.vanish(random)
        self._settle()
        context = node.context
        assert context is not None
        actors = (context.journal, context.catalog)
        for actor in actors:
            actor.stop(block=False)
        self._settle()
        if self.node is not node:
            return
        for actor in actors:
            demand(actor.closed.is_set(), "the node does not stop")  # type: ignore[attr-defined]
        for client in self.clients:
            client.forget()
        self.files.kill()
        # Without room on the disk what waits for it is lost.
        is_clean = self.files.capacity_bytes is None and not context.alarms.reason
        self.checker.crashed(loses_written=False, is_clean=is_clean)
        self.checker.seen["stops"] += 1
        self._restart()

    # --- The end

    def _drain(self) -> None:
        self.note("the end: all is consumed")
        self._free_disk()
        self._remove_faults()
        self._is_fault_expected = False
        for client in self.clients:
            client.vanish(self._random)
        for _ in range(3):
            # The alarm of a disk that was full ends.
            self._advance(DRAIN_STEP_MS)
            self.rest()
        client = self.clients[0]
        self.connect(client)
        self.rest()
        channel = client.open_channel(1, "")
        for queue in list(self.queues.values()):
            if queue.is_uncertain:
                self._declare(channel, queue)
        self.rest()
        for queue in self.queues.values():
            self._pause(queue, False)
            consume(channel, queue, queue.name, no_ack=False, timeout_ms=None)
        idle_ms = 0
        for _ in range(DRAIN_ROUNDS_MAX):
            self.rest()
            if channel.unacked:
                idle_ms = 0
                self._ack(channel, max(channel.unacked), multiple=True)
                continue
            if idle_ms > 2 * DRAIN_STEP_MS:
                break
            idle_ms += DRAIN_STEP_MS
            self._advance(DRAIN_STEP_MS)
        self.checker.check_end(self._graves)
        self.checker.seen.update(self.world.done)


Operation = Callable[[NodeSimulation, Random], None]
_DRAWN: Final[dict[Operation, float]] = {
    NodeSimulation.publish: 30,
    NodeSimulation.commit: 3,
    NodeSimulation.consume: 8,
    NodeSimulation.cancel: 1.5,
    NodeSimulation.get: 4,
    NodeSimulation.answer: 25,
    NodeSimulation.vanish: 1.5,
    NodeSimulation.close: 2,
    NodeSimulation.stall: 1.5,
    NodeSimulation.advance: 6,
    NodeSimulation.topology: 3,
    NodeSimulation.command: 4,
    NodeSimulation.repeat: 4,
    NodeSimulation.pause: 0.5,
    NodeSimulation.flip: 0.03,
    NodeSimulation.flip_index: 0.05,
    NodeSimulation.fill: 0.3,
    NodeSimulation.kill: 0.15,
    NodeSimulation.cut_power: 0.15,
    NodeSimulation.cut_power_soon: 0.15,
    NodeSimulation.fail_soon: 0.15,
    NodeSimulation.stop: 0.15,
}
_OPERATIONS: Final = list(_DRAWN)
_WEIGHTS: Final = list(_DRAWN.values())


def simulate(seed: int, kept: Collection[int] | None = None) -> NodeSimulation:
    """Run a seed to its end. ViolationError, with the history as a note, if anything goes wrong."""
    simulation = None
    try:
        simulation = NodeSimulation(seed)
        simulation.run(kept)
    except Exception as error:
        violation = error
        if not isinstance(error, ViolationError):
            violation = ViolationError(f"the simulation fails: {error!r}")
            violation.__cause__ = error
        if simulation is not None:
            violation.add_note(f"seed {seed}:\n  " + "\n  ".join(simulation.history))
        raise violation from violation.__cause__
    return simulation


def kind_of(violation: ViolationError) -> str:
    """Which promise is broken, without the numbers."""
    return str(violation).partition(":")[0].translate(_NO_DIGITS)


def _violation(seed: int, kept: Collection[int]) -> ViolationError | None:
    try:
        simulate(seed, kept)
    except ViolationError as violation:
        return violation
    return None


def shortest(seed: int, found: ViolationError) -> tuple[list[int], ViolationError]:
    """As few operations as can be found that break the same promise, and how they do."""
    kind = kind_of(found)
    kept = list(range(OPERATIONS))
    runs_left = SHORTENING_RUNS_MAX
    piece = len(kept) // 2
    while piece and runs_left:
        at = len(kept)
        is_shorter = False
        while at > 0 and runs_left:
            fewer = kept[: max(0, at - piece)] + kept[at:]
            runs_left -= 1
            violation = _violation(seed, fewer)
            if violation is not None and kind_of(violation) == kind:
                kept, found = fewer, violation
                is_shorter = True
            at -= piece
        if not is_shorter or piece > 1:
            piece //= 2
    return kept, found
