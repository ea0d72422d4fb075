"""A disk that is full in earnest: nothing is lost, and the way back is open."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import leveret
import pytest
from insides import context_of, wait_until
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    ConnectionBlocked,
    ConnectionUnblocked,
)
from served import Served
from small_disk import KINDS, SmallDisk, small_disk
from wire import PERSISTENT, Client, publish

MIB = 1 << 20
DISK_BYTES = 48 * MIB
FREE_BYTES_MIN = 4 * MIB
BODY_BYTES = 20_000
# Published in one go; a commit, as a rule.
TOGETHER = 20
BLOCKED = ConnectionBlocked("low on disk")


@pytest.fixture(params=KINDS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(request.param, tmp_path, DISK_BYTES) as mounted:
        yield mounted


@pytest.fixture
def start(disk: SmallDisk) -> Callable[..., leveret.Broker]:
    def started(**settings: Any) -> leveret.Broker:
        settings = {"disk_free_bytes_min": FREE_BYTES_MIN, "log_level": "error"} | settings
        return leveret.Broker(
            data_dir=disk.path / "data", port=0, password_hash_cost=10, **settings
        )

    return started


def connected(broker: leveret.Broker | Served) -> Client:
    client = Client(broker.host, broker.port).log_in(capabilities=("connection.blocked",))
    client.open_channel(1, confirms=True)
    return client


def body(number: int) -> bytes:
    return (b"%d " % number).ljust(BODY_BYTES, b"x")


class Publisher:
    """Publishes numbered messages and notes how each is answered, once."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.sent = 0
        self.acked: set[int] = set()
        self.nacked: set[int] = set()
        self.is_blocked = False

    def send(self) -> None:
        numbers = range(self.sent + 1, self.sent + 1 + TOGETHER)
        self.client.send(*(publish("q", body(number), PERSISTENT) for number in numbers))
        self.sent += TOGETHER

    def read_answers(self) -> None:
        """One answer, or that it is blocked, or is not any more."""
        channel, method = self.client.read_any_method()
        if channel == 0:
            assert method == (ConnectionUnblocked() if self.is_blocked else BLOCKED)
            self.is_blocked = not self.is_blocked
            return
        assert isinstance(method, BasicAck | BasicNack)
        low = 1 if method.multiple else method.delivery_tag
        open_numbers = self.open_numbers()
        answered = {number for number in open_numbers if low <= number <= method.delivery_tag}
        assert answered
        (self.acked if isinstance(method, BasicAck) else self.nacked).update(answered)

    def open_numbers(self) -> set[int]:
        return set(range(1, self.sent + 1)) - self.acked - self.nacked

    def publish_until(self, is_enough: Callable[[], bool]) -> None:
        """Publish on, each time when all before is answered for."""
        while not is_enough():
            self.send()
            while self.open_numbers() and not is_enough():
                self.read_answers()


def drain(client: Client, count: int) -> list[int]:
    """Consume and acknowledge so many one by one, as they come; their numbers."""
    numbers = []
    client.consume("q")
    for _ in range(count):
        deliver = client.expect_type(1, BasicDeliver)
        numbers.append(int(client.read_content(1).body.split()[0]))
        client.send_methods(1, BasicAck(deliver.delivery_tag, False))
    return numbers


def test_a_broker_starts_on_a_full_disk_again_and_again(
    disk: SmallDisk, start: Callable[..., leveret.Broker]
) -> None:
    with start() as broker, connected(broker) as client:
        client.declare("q", durable=True)
        client.publish_all("q", *(b"%d" % number for number in range(10)), properties=PERSISTENT)
    disk.fill()
    for number in range(5):
        # Whatever a start has freed, others take.
        disk.fill()
        with start() as broker, connected(broker) as client:
            got = client.get("q", no_ack=True)
            assert got is not None
            assert got.body == b"%d" % number


def test_a_publisher_is_blocked_before_a_write_fails(
    disk: SmallDisk, start: Callable[..., leveret.Broker]
) -> None:
    """However fast it is: between two looks by the clock it would fill the disk."""
    with start(disk_check_interval_ms=3_600_000) as broker, connected(broker) as client:
        client.declare("q", durable=True)
        publisher = Publisher(client)
        publisher.publish_until(lambda: publisher.is_blocked)
        assert disk.free_bytes() > FREE_BYTES_MIN // 2
        assert publisher.nacked == set()
        assert len(publisher.acked) * BODY_BYTES > DISK_BYTES // 2
        # What is blocked is sent, and taken when there is room.
        with connected(broker) as consumer:
            assert drain(consumer, len(publisher.acked)) == sorted(publisher.acked)
            while publisher.is_blocked or publisher.open_numbers():
                publisher.read_answers()
        assert publisher.nacked == set()


def test_what_finds_no_room_is_nacked_and_nothing_else_is_lost_and_publishers_go_on_later(
    disk: SmallDisk, start: Callable[..., leveret.Broker]
) -> None:
    # No alarm comes first.
    settings = {"disk_free_bytes_min": 0, "segment_bytes_max": MIB}
    with start(**settings) as broker, connected(broker) as client:
        client.declare("q", durable=True)
        publisher = Publisher(client)
        disk.fill(5 * MIB)
        publisher.publish_until(lambda: bool(publisher.nacked))
        while publisher.open_numbers() and not publisher.is_blocked:
            publisher.read_answers()
        publisher.send()
        while not publisher.is_blocked:
            publisher.read_answers()
        context = context_of(broker)
        assert context.is_disk_full
        acked = set(publisher.acked)
        with connected(broker) as consumer:
            drained = drain(consumer, consumer.counts("q")[0])
            assert drained == sorted(set(drained))
            assert acked <= set(drained)
            # What was drained has made room.
            while publisher.is_blocked or publisher.open_numbers():
                publisher.read_answers()
            wait_until(lambda: not context.alarms.reason)
        nacked = set(publisher.nacked)
        publisher.send()
        while publisher.open_numbers():
            publisher.read_answers()
        assert publisher.nacked == nacked
    with start(**settings) as broker, connected(broker) as client:
        # Acknowledged is acknowledged; what was taken after the alarm is there.
        rest = drain(client, client.counts("q")[0])
        assert rest == sorted(publisher.acked - set(drained))
        assert rest[-TOGETHER:] == list(range(publisher.sent - TOGETHER + 1, publisher.sent + 1))
    assert broker.failure is None


def test_compaction_makes_room_on_a_full_disk_where_every_segment_has_messages_that_stay(
    disk: SmallDisk, start: Callable[..., leveret.Broker]
) -> None:
    # No alarm comes first, and the pace does not matter here.
    settings = {
        "disk_free_bytes_min": 0,
        "segment_bytes_max": MIB,
        "compaction_segment_bytes_min": 4096,
        "maintenance_busy_percent_max": 100,
        "disk_check_interval_ms": 50,
    }
    with start(**settings) as broker, connected(broker) as client:
        client.declare("q", durable=True)
        client.declare("stays", durable=True)
        publisher = Publisher(client)
        stays = connected(broker)
        disk.fill(12 * MIB)
        staying = 0

        def publish_one_that_stays() -> bool:
            nonlocal staying
            if not publisher.nacked and not publisher.is_blocked:
                stays.send(publish("stays", b"%d" % staying, PERSISTENT))
                staying += 1
            return bool(publisher.nacked)

        publisher.publish_until(publish_one_that_stays)
        while publisher.open_numbers() and not publisher.is_blocked:
            publisher.read_answers()
        context = context_of(broker)
        wait_until(lambda: context.is_disk_full)
        journal = disk.path / "data" / "journal"
        before = set(journal.glob("*.journal"))
        with connected(broker) as consumer:
            kept = consumer.counts("stays")[0]
            assert kept >= 8
            drain(consumer, consumer.counts("q")[0])
            # Each segment has some of what stays: only what is written anew makes room.
            wait_until(lambda: disk.free_bytes() > 7 * MIB)
            while publisher.is_blocked or publisher.open_numbers():
                publisher.read_answers()
            wait_until(lambda: not context.alarms.reason)
            nacked = set(publisher.nacked)
            for _ in range(5):
                publisher.send()
                while publisher.open_numbers():
                    publisher.read_answers()
            assert publisher.nacked == nacked
        assert before & set(journal.glob("*.journal"))
    with start(**settings) as broker, connected(broker) as client:
        bodies = []
        while (got := client.get("stays", no_ack=True)) is not None:
            bodies.append(int(got.body))
        assert len(bodies) == kept
        assert bodies == sorted(set(bodies))
    assert broker.failure is None


def test_the_trace_stops_before_publishers_are_blocked_and_goes_on_behind_that(
    disk: SmallDisk, start: Callable[..., leveret.Broker]
) -> None:
    settings = {"trace_one_of": 1, "trace_buffer_bytes_max": MIB, "disk_check_interval_ms": 100}
    with start(**settings) as broker, connected(broker) as client:
        client.declare("q", durable=True)
        trace = context_of(broker).trace
        # More than the alarm wants, and less than the trace leaves.
        disk.fill(FREE_BYTES_MIN + FREE_BYTES_MIN // 8)
        while not trace.error:
            # Nobody is blocked by then, or this fails.
            client.publish_all("q", b"x", properties=PERSISTENT)
        assert "are for messages" in trace.error
        disk.empty()
        wait_until(lambda: not trace.error)
        client.publish_all("q", b"y", properties=PERSISTENT)
    assert trace.loss.count == 0


def test_with_default_settings_a_killed_broker_with_a_full_disk_starts_and_is_drained(
    tmp_path: Path,
) -> None:
    with small_disk("ext4", tmp_path, 130 * MIB) as disk:
        with Served(disk.path) as served, connected(served) as client:
            client.declare("q", durable=True)
            publisher = Publisher(client)
            publisher.publish_until(lambda: publisher.is_blocked)
            assert publisher.nacked == set()
            disk.fill()
            served.signal(signal.SIGKILL)
            served.exit_code()
        acked = sorted(publisher.acked)
        with Served(disk.path) as served, connected(served) as client:
            with connected(served) as consumer:
                count = consumer.counts("q")[0]
                assert len(acked) <= count <= publisher.sent
                assert drain(consumer, count)[: len(acked)] == acked
            # Segments that are done with are removed, and the alarm ends by that.
            publisher = Publisher(client)
            publisher.send()
            while publisher.open_numbers():
                publisher.read_answers()
            assert publisher.nacked == set()
            served.signal(signal.SIGTERM)
            client.drop()
            assert served.exit_code() == 0
