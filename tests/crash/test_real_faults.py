"""What a disk, a clock and a second broker do to a broker in earnest: a process, from outside.

The disk writes less than it is asked to, is slow, hangs or fails in the middle of a load; the wall
clock steps; a second broker is started on the directory. Nothing that was confirmed is lost, and
nothing is confirmed that was not synced.
"""

from __future__ import annotations

import errno
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import frames_by_hand as wire
import pytest
from broker_process import BrokerProcess
from dashed import dashed
from preloaded_faults import PreloadedFaults, compiled
from socket_client import EndedError, SocketClient

Start = Callable[..., BrokerProcess]
HOUR_NS = 3_600 * 10**9
QUEUE = "queue"
# Together they are larger than what goes past the page cache.
LARGE_BYTES = 40_000


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("library"))


@pytest.fixture
def faults(library: Path, tmp_path: Path) -> Iterator[PreloadedFaults]:
    made = PreloadedFaults(library, tmp_path)
    yield made
    # A broker that waits for its disk can be ended.
    made["is_sync_hanging"] = 0


def body(number: int, size: int = 200) -> bytes:
    return (b"message-%06d" % number).ljust(size, b"x")


def connected(broker: BrokerProcess) -> SocketClient:
    client = SocketClient(broker.port)
    client.open_channel(confirm=True)
    return client


def confirm_all(client: SocketClient, bodies: list[bytes], queue: str = QUEUE) -> None:
    """Publish all at once, and wait for every confirm."""
    client.send(b"".join(wire.publish(1, "", queue, each) for each in bodies))
    answered = 0
    while answered < len(bodies):
        tag, multiple = struct.unpack(">Q?", client.expect(wire.ACK))
        answered = tag if multiple else answered + 1


def held(broker: BrokerProcess, queue: str = QUEUE) -> list[bytes]:
    """All that is in the queue, in order; it stays there."""
    client = SocketClient(broker.port)
    client.open_channel()
    count = client.declare(queue)
    client.ask(wire.consume(1, queue, "reader"), wire.CONSUME_OK)
    bodies = []
    for _ in range(count):
        delivery = client.delivery()
        assert not isinstance(delivery, wire.Frame)
        bodies.append(delivery.body)
    client.abandon()
    return bodies


def check_two_restarts(start_broker: Start, expected: list[bytes], queue: str = QUEUE) -> None:
    for _ in range(2):
        again = start_broker().listening()
        assert held(again, queue)[: len(expected)] == expected
        assert again.faults() == []
        again.kill()


# --- The disk


@pytest.mark.parametrize("size", [200, pytest.param(LARGE_BYTES, marks=pytest.mark.soak)])
def test_writes_that_the_disk_cuts_short_lose_nothing(
    size: int, faults: PreloadedFaults, start_broker: Start
) -> None:
    faults["write_bytes_max"] = 300
    broker = start_broker(*faults.command).listening()
    client = connected(broker)
    client.declare(QUEUE)
    sent = [body(number, size) for number in range(60)]
    for at in range(0, len(sent), 20):
        confirm_all(client, sent[at : at + 20])
    assert faults["short_writes"] > 60
    assert broker.faults() == []
    broker.kill()
    check_two_restarts(start_broker, sent)


@pytest.mark.soak
def test_a_slow_disk_delays_confirms_and_gathers_more_into_each_sync(
    faults: PreloadedFaults, start_broker: Start
) -> None:
    broker = start_broker(*faults.command).listening()
    clients = [connected(broker) for _ in range(4)]
    clients[0].declare(QUEUE)
    faults["sync_delay_ms"] = 30
    before = faults["syncs"]
    for number in range(25):
        for client in clients:
            client.send(wire.publish(1, "", QUEUE, body(number)))
    for client in clients:
        answered = 0
        while answered < 25:
            tag, multiple = struct.unpack(">Q?", client.expect(wire.ACK))
            answered = tag if multiple else answered + 1
    # A hundred publishes came while a few syncs ran.
    assert 0 < faults["syncs"] - before < 50
    broker.kill()
    faults["sync_delay_ms"] = 0
    again = start_broker().listening()
    assert sorted(held(again)) == sorted(body(number) for number in range(25) for _ in clients)


def test_a_disk_that_hangs_confirms_nothing_durable_and_holds_up_nobody_else(
    faults: PreloadedFaults, start_broker: Start
) -> None:
    broker = start_broker(*faults.command).listening()
    durable, transient = connected(broker), connected(broker)
    durable.declare(QUEUE)
    transient.ask(wire.queue_declare(1, "transient", durable=False), wire.QUEUE_DECLARE_OK)
    confirm_all(durable, [body(0)])
    faults["is_sync_hanging"] = 1
    durable.send(wire.publish(1, "", QUEUE, body(1)))
    # Each answer comes after rounds in which the durable one could have been answered.
    for number in range(20):
        transient.publish_confirmed("", "transient", body(number))
    durable.send(wire.method(1, wire.QOS, struct.pack(">IHB", 0, 1, 0)))
    assert durable.frame().ids == wire.QOS_OK, "a publish was confirmed before its sync"
    faults["is_sync_hanging"] = 0
    assert durable.expect(wire.ACK) == struct.pack(">QB", 2, 0)
    faults["is_sync_hanging"] = 1
    durable.send(wire.publish(1, "", QUEUE, body(2)))
    transient.publish_confirmed("", "transient", body(0))
    broker.kill()
    check_two_restarts(start_broker, [body(0), body(1)])


def test_a_failed_sync_confirms_nothing_of_its_commit_on_any_connection(
    faults: PreloadedFaults, start_broker: Start
) -> None:
    """No confirm for anything in that commit, one line, exit, and all that was confirmed after."""
    broker = start_broker(*faults.command, log_format="json").listening()
    clients = [connected(broker) for _ in range(4)]
    for number, client in enumerate(clients):
        client.declare(f"{QUEUE}-{number % 2}")
        confirm_all(client, [body(each) for each in range(50)], f"{QUEUE}-{number % 2}")
    faults["sync_errno"] = errno.EIO
    for number, client in enumerate(clients):
        pieces = [wire.publish(1, "", f"{QUEUE}-{number % 2}", body(each)) for each in range(900)]
        try:
            client.send(b"".join(pieces))
        except EndedError:
            # The broker has ended already, by what another one sent.
            continue
    answers = [frame.ids for client in clients for frame in client.rest()]
    assert wire.ACK not in answers
    assert broker.wait() == 1
    assert faults["failed_syncs"] == 1, "a failed sync was tried again"
    failed = [line for line in broker.log().splitlines() if "broker.failed" in line]
    assert len(failed) == 1
    assert "Input/output error" in failed[0]
    for _ in range(2):
        again = start_broker().listening()
        for number in range(2):
            # Of each of the queue's two publishers.
            missing = Counter([body(each) for each in range(50)] * 2)
            missing.subtract(held(again, f"{QUEUE}-{number}"))
            assert not +missing
        assert again.faults() == []
        again.kill()


# --- A second broker


def test_a_second_broker_on_the_directory_is_refused_and_the_first_goes_on(
    tmp_path: Path, start_broker: Start
) -> None:
    broker = start_broker().listening()
    client = connected(broker)
    client.declare(QUEUE)
    confirm_all(client, [body(0)])
    second = start_broker()
    assert second.wait() == 1
    assert second.log().count("in use by another broker") == 1
    check = [sys.executable, "-m", "leveret", "journal", "check", str(tmp_path / "data")]
    looked = subprocess.run(check, capture_output=True, text=True, check=False)
    assert looked.returncode == 1
    assert "is in use by a broker" in looked.stderr
    confirm_all(client, [body(1)])
    broker.kill()
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0
    check_two_restarts(start_broker, [body(0), body(1)])


# --- The wall clock


def declare(client: SocketClient, queue: str, **arguments: str | int) -> None:
    named = dashed(arguments)
    client.ask(wire.queue_declare(1, queue, arguments=named), wire.QUEUE_DECLARE_OK)


def deferred(queue: str, delay_ms: int) -> bytes:
    return wire.publish(1, "later", queue, body(1), headers={"x-delay": delay_ms})


def with_delays(client: SocketClient, queue: str) -> None:
    kind = {"x-delayed-type": "direct"}
    client.ask(
        wire.exchange_declare(1, "later", "x-delayed-message", kind), wire.EXCHANGE_DECLARE_OK
    )
    client.ask(wire.queue_bind(1, queue, "later", queue), wire.QUEUE_BIND_OK)


def got(client: SocketClient, queue: str) -> bytes | None:
    client.send(wire.get(1, queue, no_ack=True))
    item = client.delivery()
    if isinstance(item, wire.Frame):
        assert item.ids == wire.GET_EMPTY
        return None
    return item.body


def test_a_clock_that_steps_forward_expires_messages_and_times_nothing_out(
    faults: PreloadedFaults, start_broker: Start
) -> None:
    broker = start_broker(*faults.command).listening()
    client = connected(broker)
    declare(client, "expiring", x_message_ttl=1800 * 1000)
    declare(client, "timed", x_in_flight_timeout=1800 * 1000)
    declare(client, "deferring")
    with_delays(client, "deferring")
    for queue in ("expiring", "timed"):
        client.publish_confirmed("", queue, body(1))
    client.ask(deferred("deferring", 1800 * 1000), wire.ACK)
    client.send(wire.get(1, "timed"))
    assert not isinstance(client.delivery(), wire.Frame)
    faults["clock_offset_ns"] = HOUR_NS
    # By the wall clock: deadlines of messages. By a clock that only goes forward: the other two.
    assert got(client, "expiring") is None
    assert got(client, "timed") is None
    assert got(client, "deferring") is None
    broker.kill()
    # The journal has due times by the wall clock, and nothing is in flight after a start.
    again = start_broker(*faults.command).listening()
    client = connected(again)
    assert got(client, "expiring") is None
    assert got(client, "timed") == body(1)
    assert got(client, "deferring") == body(1)
    assert again.faults() == []


def test_a_clock_that_steps_back_keeps_messages_longer_and_delays_nothing_else(
    faults: PreloadedFaults, start_broker: Start
) -> None:
    faults["clock_offset_ns"] = HOUR_NS
    broker = start_broker(*faults.command).listening()
    client = connected(broker)
    declare(client, "expiring", x_message_ttl=200)
    declare(client, "timed", x_in_flight_timeout=200)
    declare(client, "deferring")
    with_delays(client, "deferring")
    client.publish_confirmed("", "timed", body(1))
    client.ask(deferred("deferring", 200), wire.ACK)
    client.publish_confirmed("", "expiring", body(1))
    faults["clock_offset_ns"] = 0
    client.send(wire.consume(1, "timed", "timed"))
    client.send(wire.consume(1, "deferring", "deferring", no_ack=True))
    # One that comes, one that comes back without an answer, and the one that was deferred.
    deliveries = []
    while len(deliveries) < 3:
        item = client.delivery()
        if not isinstance(item, wire.Frame):
            deliveries.append(item)
    assert sorted(each.redelivered for each in deliveries) == [False, False, True]
    # Its deadline is an hour ahead by now.
    assert got(client, "expiring") == body(1)
    # Nor does a start mind segments and a catalog that were written in its future.
    client.publish_confirmed("", "deferring", body(2))
    broker.kill()
    again = start_broker(*faults.command).listening()
    assert again.faults() == []
    client = connected(again)
    client.publish_confirmed("", "timed", body(3))
