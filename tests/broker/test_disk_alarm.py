"""A disk that is nearly full: who publishes waits and is told so, who consumes goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import leveret
import pika
import pytest
from gated_files import GatedFiles
from held_clock import HeldClock
from insides import context_of, wait_until
from leveret.amqp_frames.constants import FRAME_HEARTBEAT, HEARTBEAT_FRAME
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
    QueueDeclare,
    QueueDeclareOk,
)
from log_lines import LogLines
from wire import PERSISTENT, Client, methods_of, publish

Connect = Callable[..., Client]
AWARE = ("connection.blocked",)


@pytest.fixture
def settings(log: LogLines) -> dict[str, object]:
    return {"disk_check_interval_ms": 10, "log_level": "info", "log_format": "json"}


@pytest.fixture
def fill(broker: leveret.Broker, files: GatedFiles) -> Callable[[bool], None]:
    """Fill the disk, or empty it; returns when the broker has noticed."""

    def filled(is_full: bool) -> None:
        files.free = 0 if is_full else None
        wait_until(lambda: bool(context_of(broker).alarms.reason) == is_full)

    return filled


Fill = Callable[[bool], None]


def publisher(connect: Connect, *capabilities: str, heartbeat_seconds: int = 0) -> Client:
    client = connect(capabilities=capabilities, heartbeat_seconds=heartbeat_seconds)
    client.open_channel(1, confirms=True)
    return client


def test_a_publisher_gets_connection_blocked_and_is_not_read_until_there_is_room(
    connect: Connect, fill: Fill
) -> None:
    client = publisher(connect, *AWARE)
    client.declare("q")
    client.publish_all("q", b"1")
    fill(True)
    # Nothing is said to one that does not publish.
    client.nothing_more()
    client.send(publish("q", b"2"))
    client.expect(0, ConnectionBlocked("low on disk"))
    client.send(publish("q", b"3"))
    other = publisher(connect)
    for _ in range(10):
        assert other.counts("q") == (1, 0)
    fill(False)
    client.expect(0, ConnectionUnblocked())
    client.expect_acks(range(2, 4))
    assert client.counts("q") == (3, 0)


def test_a_client_that_does_not_know_of_it_is_not_told_but_not_read_either(
    connect: Connect, fill: Fill
) -> None:
    client, other = publisher(connect), publisher(connect)
    client.declare("q")
    fill(True)
    client.send(publish("q", b"1"))
    for _ in range(10):
        assert other.counts("q") == (0, 0)
    fill(False)
    client.expect(1, BasicAck(1, False))


def test_a_client_that_only_consumes_goes_on_during_the_alarm(connect: Connect, fill: Fill) -> None:
    client, consumer = publisher(connect, *AWARE), publisher(connect, *AWARE)
    client.declare("q")
    client.publish_all("q", *(b"%d" % number for number in range(10)))
    fill(True)
    consumer.consume("q")
    for number in range(10):
        consumer.expect_delivery(BasicDeliver("c", number + 1, False, "", "q"), b"%d" % number)
    consumer.send_methods(1, BasicAck(10, True))
    consumer.nothing_more()


def test_a_client_that_comes_while_the_alarm_is_on_is_served_until_it_publishes(
    connect: Connect, fill: Fill
) -> None:
    fill(True)
    client = publisher(connect, *AWARE)
    client.declare("q")
    client.send(publish("q", b"1"))
    client.expect(0, ConnectionBlocked("low on disk"))


def test_a_connection_opened_during_the_alarm_publishes_nothing(
    connect: Connect, fill: Fill
) -> None:
    """Or whoever connects again and again fills the rest of the disk, a read each time."""
    watcher = publisher(connect)
    watcher.declare("q", durable=True)
    fill(True)
    clients = [publisher(connect, *AWARE) for _ in range(5)]
    for client in clients:
        client.send(publish("q", bytes(2000), PERSISTENT) * 100)
        client.expect(0, ConnectionBlocked("low on disk"))
    for _ in range(10):
        assert watcher.counts("q") == (0, 0)
    fill(False)
    for client in clients:
        client.expect(0, ConnectionUnblocked())
        client.expect_acks(range(1, 101))
    assert watcher.counts("q") == (500, 0)


def test_what_stands_behind_a_publish_that_waits_is_carried_out_behind_it(
    connect: Connect, fill: Fill
) -> None:
    client = publisher(connect, *AWARE)
    client.declare("q")
    fill(True)
    # In one read: what stands before the publish is carried out at once.
    passive = methods_of(1, QueueDeclare(queue="q", passive=True))
    client.send(passive, publish("q", b"1"), passive, methods_of(2, ChannelOpen()))
    answers = [client.read_any_method() for _ in range(2)]
    assert sorted(answers, key=str) == [
        (0, ConnectionBlocked("low on disk")),
        (1, QueueDeclareOk("q", 0, 0)),
    ]
    fill(False)
    client.expect(0, ConnectionUnblocked())
    rest = [client.read_any_method() for _ in range(3)]
    assert sorted(rest, key=str) == [
        (1, BasicAck(1, False)),
        (1, QueueDeclareOk("q", 1, 0)),
        (2, ChannelOpenOk()),
    ]


def test_a_blocked_client_is_not_blamed_for_its_silence(
    connect: Connect, fill: Fill, files: GatedFiles, broker: leveret.Broker
) -> None:
    client = publisher(connect, *AWARE, heartbeat_seconds=10)
    client.declare("q")
    fill(True)
    clock = HeldClock(broker)
    client.send(publish("q", b"1"))
    client.expect(0, ConnectionBlocked("low on disk"))
    # Longer than the two intervals of silence that are granted; what it sends is not read.
    for _ in range(12):
        clock.advance(5)
    assert client.read_frame().kind == FRAME_HEARTBEAT
    files.free = None
    clock.advance(1)
    client.expect(0, ConnectionUnblocked())
    client.expect(1, BasicAck(1, False))
    client.send(HEARTBEAT_FRAME)
    client.nothing_more()


def test_a_blocked_client_hears_of_the_broker_s_stop_and_its_answer_is_heard(
    connect: Connect, fill: Fill, broker: leveret.Broker
) -> None:
    client = publisher(connect, *AWARE)
    client.declare("q")
    fill(True)
    client.send(publish("q", b"1"))
    client.expect(0, ConnectionBlocked("low on disk"))
    stopping = threading.Thread(target=broker.stop)
    stopping.start()
    assert client.expect_type(0, ConnectionClose).reply_code == 320
    client.send_methods(0, ConnectionCloseOk())
    client.expect_closed()
    stopping.join()


def test_begin_and_end_are_logged_with_the_figures(
    fill: Fill, files: GatedFiles, log: LogLines
) -> None:
    fill(True)
    fill(False)
    [low] = log.of("disk.low")
    assert (low["free_bytes"], low["free_bytes_min"]) == (0, 50_000_000)
    wait_until(lambda: len(log.of("disk.enough")) == 1)


def test_a_disk_that_cannot_be_asked_is_logged_and_changes_nothing(
    files: GatedFiles, log: LogLines, broker: leveret.Broker, connect: Connect
) -> None:
    files.failing["free_bytes"] = OSError(5, "Input/output error")
    wait_until(lambda: len(log.of("disk.unknown")) == 1)
    client = publisher(connect, *AWARE)
    client.declare("q")
    client.publish_all("q", b"1")


def test_pika_s_callbacks_are_called(broker: leveret.Broker, fill: Fill) -> None:
    told: list[str] = []
    unblocked = Future[None]()

    def on_blocked(_connection: object, frame: pika.frame.Method) -> None:
        told.append(frame.method.reason)
        connection.call_later(0, lambda: fill(False))

    def on_unblocked(*_frame: object) -> None:
        unblocked.set_result(None)

    parameters = pika.ConnectionParameters(broker.host, broker.port)
    with pika.BlockingConnection(parameters) as connection:
        connection.add_on_connection_blocked_callback(on_blocked)
        connection.add_on_connection_unblocked_callback(on_unblocked)
        channel = connection.channel()
        channel.queue_declare("q")
        fill(True)
        # Without confirms: its callbacks are called while nothing waits for an answer.
        channel.basic_publish("", "q", b"1")
        while not unblocked.done():
            connection.process_data_events(time_limit=1)
        assert channel.queue_declare("q", passive=True).method.message_count == 1
    assert told == ["low on disk"]
