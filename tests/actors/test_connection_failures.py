"""A channel, reader, writer or other actor of ours that fails: who is told, what is closed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import leveret
import pytest
from gated_files import GatedFiles
from insides import (
    channel_actor,
    context_of,
    fail,
    failure_of,
    listener_of,
    on_loop,
    queue_definition,
    readers,
    writer_actor,
)
from leveret.actors.messages import Command, Release
from leveret.actors.runtime.runtime import tell
from leveret.amqp_frames.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
    ConnectionClose,
    ConnectionCloseOk,
)
from wire import PERSISTENT, Client, publish

Connect = Callable[..., Client]


def connected(connect: Connect, **handshake: object) -> Client:
    client = connect(**handshake)
    client.open_channel()
    return client


# --- A channel


def test_a_dead_channel_ends_its_connection_with_541_and_its_queues_take_everything_back(
    connect: Connect, broker: leveret.Broker
) -> None:
    consumer, other = connected(connect), connected(connect)
    other.declare("q")
    other.send(publish("q", b"1"), publish("q", b"2"), publish("q", b"3"))
    other.wait_for_counts("q", (3, 0))
    assert consumer.ask(1, BasicQos(0, 1, False)) == BasicQosOk()
    assert consumer.ask(1, BasicConsume(queue="q", consumer_tag="c")) == BasicConsumeOk("c")
    consumer.expect(1, BasicDeliver("c", 1, False, "", "q"))
    consumer.read_content(1)
    assert isinstance(consumer.ask(1, BasicGet(queue="q")), BasicGetOk)
    consumer.read_content(1)
    assert other.counts("q") == (1, 1)
    fail(channel_actor(readers(broker)[0]))
    consumer.expect(0, ConnectionClose(541, "INTERNAL_ERROR - channel 1 failed", 0, 0))
    other.wait_for_counts("q", (3, 0))
    # The client's other channels go with the connection, other clients go on.
    consumer.send_methods(0, ConnectionCloseOk())
    consumer.expect_closed()
    assert other.ask(1, BasicGet(queue="q")) == BasicGetOk(1, True, "", "q", 2)
    assert other.read_content(1).body == b"1"


def test_a_dead_channel_gets_no_confirm_of_what_it_published(
    connect: Connect, broker: leveret.Broker, files: GatedFiles
) -> None:
    client = connect()
    client.open_channel(1, confirms=True)
    client.declare("durable", durable=True)
    files.hold()
    client.send(publish("durable", b"", PERSISTENT))
    files.wait_until_syncing()
    fail(channel_actor(readers(broker)[0]))
    client.expect(0, ConnectionClose(541, "INTERNAL_ERROR - channel 1 failed", 0, 0))
    files.release()
    other = connected(connect)
    other.wait_for_counts("durable", (1, 0))
    client.send_methods(0, ConnectionCloseOk())
    client.expect_closed()


def test_a_message_got_by_a_channel_that_ends_meanwhile_is_given_back(
    connect: Connect, broker: leveret.Broker
) -> None:
    client, other = connected(connect), connected(connect)
    other.declare("q")
    other.send(publish("q"))
    other.wait_for_counts("q", (1, 0))
    channel = channel_actor(readers(broker)[0])
    on_loop(
        broker,
        lambda: tell(channel, Command(BasicGet(queue="q"))),
        lambda: tell(channel, Release()),
    )
    assert other.ask(1, BasicGet(queue="q")) == BasicGetOk(1, True, "", "q", 0)
    assert client is not other


# --- Reader and writer


@pytest.mark.parametrize("whose", ["reader", "writer"])
def test_a_dead_reader_or_writer_closes_its_socket_and_its_queues_take_everything_back(
    connect: Connect, broker: leveret.Broker, whose: str
) -> None:
    consumer, other = connected(connect), connected(connect)
    consumer.declare("mine", exclusive=True)
    consumer.declare("q")
    other.send(publish("q"))
    other.wait_for_counts("q", (1, 0))
    assert isinstance(consumer.ask(1, BasicGet(queue="q")), BasicGetOk)
    consumer.read_content(1)
    definition = queue_definition(broker, "mine")
    reader = readers(broker)[0]
    fail(reader if whose == "reader" else writer_actor(reader))
    consumer.expect_closed()
    other.wait_for_counts("q", (1, 0))
    other.declare("mine")
    assert queue_definition(broker, "mine") is not definition


def test_a_broker_whose_connection_died_stops_as_any_other(
    tmp_path: Path,
) -> None:
    broker = leveret.Broker(data_dir=tmp_path / "data", port=0, log_level="error")
    with broker, Client(broker.host, broker.port).log_in() as client:
        fail(readers(broker)[0])
        client.expect_closed()
    assert broker.failure is None


# --- What a node cannot do without


@pytest.mark.parametrize("whose", ["broker", "ticker", "listener", "dead letters"])
def test_a_node_ends_without_a_confirm_when_an_actor_fails_that_it_cannot_do_without(
    connect: Connect, broker: leveret.Broker, files: GatedFiles, whose: str
) -> None:
    client = connect()
    client.open_channel(1, confirms=True)
    client.declare("durable", durable=True)
    files.hold()
    client.send(publish("durable", b"", PERSISTENT))
    files.wait_until_syncing()
    context = context_of(broker)
    actors = {
        "broker": context.broker,
        "ticker": context.ticker,
        "listener": listener_of(broker),
        "dead letters": context.dead_letters,
    }
    fail(actors[whose])
    client.expect_closed()
    files.release()
    failure_of(broker)
