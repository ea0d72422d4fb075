"""Queues with `x-max-priority`, through real connections, restarts and kill -9."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import leveret
import pika
import pytest
from gated_files import GatedFiles
from insides import fail, on_loop, queue_actor
from leveret.actors.messages import ReportStatus, Resume
from leveret.actors.runtime.runtime import tell
from leveret.amqp_frames.messages.batch import Batch, Indexes
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicReject,
    QueuePurge,
    QueuePurgeOk,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from leveret.core.queue.rules import MessageQueue
from served import Served
from timeouts import TIMEOUT_SECONDS
from wire import Client, publish

Connect = Callable[..., Client]


def priorities(maximum: int) -> dict[str, Field]:
    return {"x-max-priority": Field("signedint", maximum)}


def send(client: Client, *priorities: int | None, persistent: bool = False) -> None:
    """To "q", in one write: each message's body is its place and its priority. Confirmed."""
    mode = 2 if persistent else None
    frames = [
        publish("q", f"{at}:{priority}".encode(), Properties(delivery_mode=mode, priority=priority))
        for at, priority in enumerate(priorities)
    ]
    client.send(*frames)
    first = client.next_seq_no
    client.next_seq_no += len(frames)
    client.expect_acks(range(first, client.next_seq_no))


def drained(client: Client) -> list[str]:
    """Everything that is ready, by basic.get; each says how many are left."""
    bodies = []
    while (got := client.get("q", no_ack=True)) is not None:
        bodies.append(got.body.decode())
        left = got.left
    assert left == 0
    return bodies


def test_the_highest_priority_is_first_and_within_one_the_oldest(client: Client) -> None:
    client.declare("q", arguments=priorities(10))
    send(client, None, 5, 10, 5, 0, 10)
    send(client, 5, 1)
    assert client.counts("q") == (8, 0)
    expected = ["2:10", "5:10", "1:5", "3:5", "0:5", "1:1", "0:None", "4:0"]
    assert drained(client) == expected


def test_above_the_maximum_is_the_maximum(client: Client) -> None:
    client.declare("q", arguments=priorities(5))
    send(client, 4, 200, 5, 6)
    assert drained(client) == ["1:200", "2:5", "3:6", "0:4"]


@pytest.mark.parametrize("arguments", [{}, priorities(0)])
def test_a_queue_without_priorities_keeps_the_order(
    client: Client, arguments: dict[str, Field]
) -> None:
    client.declare("q", arguments=arguments)
    send(client, 1, 9, None, 255)
    assert drained(client) == ["0:1", "1:9", "2:None", "3:255"]


def test_a_consumer_gets_the_highest_that_is_there_when_it_has_room(
    client: Client, connect: Connect
) -> None:
    client.declare("q", arguments=priorities(255))
    consumer = connect()
    consumer.open_channel()
    assert consumer.ask(1, BasicQos(0, 1, False)) == BasicQosOk()
    consumer.consume("q")
    send(client, 0)
    consumer.expect_delivery(BasicDeliver("c", 1, False, "", "q"), b"0:0")
    # Nothing that is out is taken back for it.
    send(client, 1, 255, 7)
    for tag, body in ((2, b"1:255"), (3, b"2:7"), (4, b"0:1")):
        consumer.send_methods(1, BasicAck(tag - 1))
        consumer.expect_delivery(BasicDeliver("c", tag, False, "", "q"), body)


def test_requeued_messages_go_to_their_old_places_within_their_priority(client: Client) -> None:
    client.declare("q", arguments=priorities(9))
    send(client, 3, 3, 9, 3, 0)
    for _ in range(4):
        assert client.get("q") is not None
    # 1, then 2 and 0 come back; 3 stays out.
    client.send_methods(1, BasicReject(3, True), BasicNack(2, True, True))
    assert client.get("q") == (5, True, 3, b"2:9")
    assert client.get("q") == (6, True, 2, b"0:3")
    send(client, 3)
    assert client.get("q") == (7, True, 2, b"1:3")
    assert client.get("q") == (8, False, 1, b"0:3")
    assert client.get("q") == (9, False, 0, b"4:0")


def test_a_purge_drops_all_priorities(client: Client) -> None:
    client.declare("q", arguments=priorities(9))
    send(client, 3, 0, 9, 3)
    assert client.get("q") is not None
    assert client.ask(1, QueuePurge(queue="q")) == QueuePurgeOk(3)
    assert client.counts("q") == (0, 0)
    send(client, 1)
    assert drained(client) == ["0:1"]


def test_persistent_and_transient_of_any_priority_are_each_confirmed_once_and_when_due(
    client: Client, files: GatedFiles
) -> None:
    client.declare("q", durable=True, arguments=priorities(9))
    files.hold()
    client.send(
        *(
            publish("q", b"", Properties(delivery_mode=mode, priority=priority))
            for mode, priority in ((2, 1), (1, 9), (2, 9), (1, 1), (2, 5))
        )
    )
    files.wait_until_syncing()
    # Fsync before confirm, whatever the priority.
    client.expect(1, BasicAck(2, False), BasicAck(4, False))
    client.nothing_more()
    files.release()
    client.expect_acks(range(1, 6))
    client.nothing_more()


def test_a_queue_that_fails_nacks_what_it_owes_of_all_priorities(
    client: Client, broker: leveret.Broker, files: GatedFiles
) -> None:
    client.declare("q", durable=True, arguments=priorities(9))
    files.hold()
    client.send(
        *(publish("q", b"", Properties(delivery_mode=2, priority=each)) for each in (1, 9, 1, 5))
    )
    files.wait_until_syncing()
    fail(queue_actor(broker, "q"))
    client.expect(1, BasicNack(4, True, True))
    client.nothing_more()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_priorities_places_and_attempts_survive_the_end_of_the_broker(
    tmp_path: Path, number: signal.Signals
) -> None:
    with Served(tmp_path) as served, Client(served.host, served.port).log_in() as client:
        client.open_channel(1, confirms=True)
        client.declare("q", durable=True, arguments=priorities(9))
        send(client, 3, 9, None, 3, 200, 0, persistent=True)
        send(client, 9, 3, persistent=True)
        send(client, 9)
        # Out and not settled: it comes back first. Settled: it does not.
        assert client.get("q") == (1, False, 8, b"1:9")
        assert client.get("q", no_ack=True) == (2, False, 7, b"4:200")
        # The journal has heard of both when this is confirmed.
        send(client, 5, persistent=True)
        served.signal(number)
        if number == signal.SIGTERM:
            client.drop()
        served.exit_code()
    # Twice: what was recovered is recovered again.
    for _ in range(2):
        with Served(tmp_path) as served, Client(served.host, served.port).log_in() as client:
            client.open_channel(1, confirms=True)
            client.declare("q", durable=True, arguments=priorities(9))
            assert client.counts("q") == (8, 0)
            served.signal(number)
            client.drop()
            served.exit_code()
    with Served(tmp_path) as served, Client(served.host, served.port).log_in() as client:
        client.open_channel(1, confirms=True)
        assert client.get("q", no_ack=True) == (1, True, 7, b"1:9")
        assert drained(client) == ["0:9", "0:5", "0:3", "3:3", "1:3", "2:None", "5:0"]


def test_pika_publishes_with_priorities_and_consumes_in_their_order(
    broker: leveret.Broker,
) -> None:
    parameters = pika.ConnectionParameters(broker.host, broker.port)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True, arguments={"x-max-priority": 10})
        channel.confirm_delivery()
        for number in range(30):
            properties = pika.BasicProperties(delivery_mode=2, priority=number % 15)
            channel.basic_publish("", "q", b"%d" % number, properties)
        got = []
        for method, properties, body in channel.consume("q", inactivity_timeout=TIMEOUT_SECONDS):
            assert method is not None
            got.append((min(properties.priority, 10), int(body)))
            channel.basic_ack(method.delivery_tag)
            if len(got) == 30:
                break
        assert channel.cancel() == 0
        assert got == sorted(got, key=lambda each: (-each[0], each[1]))


def test_a_queue_that_fails_within_a_batch_of_several_priorities_nacks_all_of_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.declare("q", arguments=priorities(9))
    rows: list[list[int]] = []
    real = MessageQueue.publish

    def failing(queue: MessageQueue, batch: Batch, indexes: Indexes, *more: Any) -> None:
        rows.append(list(indexes))
        if len(rows) == 2:
            raise RuntimeError("the second row")
        real(queue, batch, indexes, *more)

    monkeypatch.setattr(MessageQueue, "publish", failing)
    client.send(*(publish("q", b"", Properties(priority=each)) for each in (1, 9, 5, 9)))
    client.expect(1, BasicNack(4, True, True))
    client.nothing_more()
    assert rows == [[1, 3], [2]]


def test_what_was_held_back_while_a_delete_was_decided_on_is_taken_in_as_it_came(
    client: Client, broker: leveret.Broker
) -> None:
    client.declare("q", arguments=priorities(9))
    queue = queue_actor(broker, "q")
    on_loop(broker, lambda: tell(queue, ReportStatus(queue, holds=True)))
    for row in ((1, 9, 5), (5, 9, 1)):
        client.send(*(publish("q", b"%d" % each, Properties(priority=each)) for each in row))
        client.nothing_more()
    on_loop(broker, lambda: tell(queue, Resume()))
    client.expect_acks(range(1, 7))
    assert drained(client) == ["9", "9", "5", "5", "1", "1"]


@pytest.mark.parametrize(
    ("overflow", "kept"), [("drop-head", ["1:1", "2:1"]), ("reject-publish", ["0:9", "1:1"])]
)
def test_a_limit_counts_all_priorities(client: Client, overflow: str, kept: list[str]) -> None:
    limits = {"x-max-length": Field("signedint", 2), "x-overflow": Field("longstr", overflow)}
    client.declare("q", arguments=priorities(9) | limits)
    frames = [
        publish("q", f"{at}:{each}".encode(), Properties(priority=each))
        for at, each in enumerate((9, 1, 1))
    ]
    client.send(*frames)
    if overflow == "drop-head":
        # The head is the highest, in RabbitMQ, too.
        client.expect_acks(range(1, 4))
    else:
        client.expect(1, BasicAck(2, True), BasicNack(3, False, True))
    assert drained(client) == kept


def test_deadlines_stay_with_their_messages_whatever_their_priority(tmp_path: Path) -> None:
    with Served(tmp_path) as served, Client(served.host, served.port).log_in() as client:
        client.open_channel(1, confirms=True)
        client.declare("q", durable=True, arguments=priorities(9))
        rows = ((1, "1"), (9, "3600000"), (9, "1"), (1, None), (5, "1"), (9, None))
        client.send(
            *(
                publish(
                    "q", b"%d" % at, Properties(delivery_mode=2, priority=priority, expiration=ttl)
                )
                for at, (priority, ttl) in enumerate(rows)
            )
        )
        client.expect_acks(range(1, 7))
        served.signal(signal.SIGKILL)
        served.exit_code()
    with Served(tmp_path) as served, Client(served.host, served.port).log_in() as client:
        client.open_channel(1)
        assert drained(client) == ["1", "5", "3"]
