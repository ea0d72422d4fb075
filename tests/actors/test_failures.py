"""An actor of ours that fails: who is told, what is nacked, closed or given back."""

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
    on_loop,
    queue_actor,
    queue_definition,
    readers,
    writer_actor,
)
from leveret.actors.messages import Command, Release
from leveret.actors.runtime import tell
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ConnectionClose,
    ConnectionCloseOk,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
)
from wire import PERSISTENT, Client, methods_of, publish

Connect = Callable[..., Client]
CRASHED = "NOT_FOUND - queue 'durable' in vhost '/' has crashed and failed to restart"


def connected(connect: Connect, **handshake: object) -> Client:
    client = connect(**handshake)
    client.open_channel()
    return client


# --- A queue


def test_a_queue_that_dies_nacks_each_message_it_owes_and_acks_none(
    client: Client, broker: leveret.Broker, files: GatedFiles
) -> None:
    client.declare("durable", durable=True)
    client.declare("other", durable=True)
    files.hold()
    client.send(
        publish("durable", b"", PERSISTENT) * 2,
        publish("other", b"", PERSISTENT),
        publish("durable", b"", PERSISTENT),
    )
    files.wait_until_syncing()
    fail(queue_actor(broker, "durable"))
    client.expect(1, BasicNack(2, True, True), BasicNack(4, False, True))
    client.nothing_more()
    files.release()
    client.expect(1, BasicAck(3, False))
    client.nothing_more()


def test_a_queue_that_dies_nacks_what_is_still_in_its_mailbox(
    client: Client, broker: leveret.Broker
) -> None:
    client.declare("q")
    client.send(publish("q"))
    client.expect(1, BasicAck(1, False))
    [reader] = readers(broker)
    queue = queue_actor(broker, "q")
    # The reader's turn comes first, then the channel's, which tells the queue.
    wire = publish("q", b"", mandatory=True)
    on_loop(broker, lambda: tell(reader, wire), lambda: tell(reader, wire), lambda: fail(queue))
    client.expect(1, BasicNack(3, True, True))
    client.nothing_more()


def test_a_message_for_a_dead_queue_and_two_others_is_nacked_once(
    client: Client, broker: leveret.Broker, files: GatedFiles
) -> None:
    for name in ("durable", "other", "transient"):
        client.declare(name, durable=name != "transient")
        assert client.ask(1, QueueBind(queue=name, exchange="amq.fanout")) == QueueBindOk()
    files.hold()
    client.send(publish("", b"", PERSISTENT, exchange="amq.fanout"))
    files.wait_until_syncing()
    fail(queue_actor(broker, "durable"))
    client.expect(1, BasicNack(1, False, True))
    files.release()
    # The other queues have it all the same.
    client.wait_for_counts("other", (1, 0))
    client.wait_for_counts("transient", (1, 0))
    client.nothing_more()


def test_a_publish_to_a_dead_queue_is_nacked_and_not_returned(
    client: Client, broker: leveret.Broker
) -> None:
    client.declare("durable", durable=True)
    fail(queue_actor(broker, "durable"))
    client.send(publish("durable", b"", mandatory=True), publish("durable", b"", PERSISTENT))
    client.expect(1, BasicNack(2, True, True))
    client.nothing_more()


def test_consumers_of_a_queue_that_dies_are_told(connect: Connect, broker: leveret.Broker) -> None:
    client = connected(connect, capabilities=("consumer_cancel_notify",))
    client.declare("q")
    assert client.ask(1, BasicConsume(queue="q", consumer_tag="c")) == BasicConsumeOk("c")
    fail(queue_actor(broker, "q"))
    client.expect(1, BasicCancel("c", True))


@pytest.mark.parametrize(
    "method",
    [BasicGet(queue="durable"), BasicConsume(queue="durable"), QueuePurge(queue="durable")],
)
def test_a_dead_queue_cannot_be_used(
    client: Client, broker: leveret.Broker, method: BasicGet
) -> None:
    client.declare("durable", durable=True)
    fail(queue_actor(broker, "durable"))
    assert client.ask(1, method) == ChannelClose(404, CRASHED, method.class_id, method.method_id)


@pytest.mark.parametrize(
    "method",
    [BasicGet(queue="durable"), BasicConsume(queue="durable"), QueuePurge(queue="durable")],
)
def test_a_question_that_a_queue_did_not_live_to_answer_is_refused(
    client: Client, broker: leveret.Broker, method: BasicGet
) -> None:
    client.declare("durable", durable=True)
    [reader] = readers(broker)
    queue = queue_actor(broker, "durable")
    # The queue's turn comes behind the channel's: both are in its mailbox when it fails.
    on_loop(broker, lambda: tell(reader, methods_of(1, method)), lambda: fail(queue))
    client.expect(1, ChannelClose(404, CRASHED, method.class_id, method.method_id))


def test_a_dead_queue_can_be_deleted_and_declared_anew(
    client: Client, broker: leveret.Broker
) -> None:
    client.declare("durable", durable=True)
    client.send(publish("durable", b"", PERSISTENT))
    client.expect(1, BasicAck(1, False))
    fail(queue_actor(broker, "durable"))
    assert client.ask(1, QueueDelete(queue="durable")) == QueueDeleteOk(0)
    assert client.declare("durable", durable=True).message_count == 0
    client.send(publish("durable", b"", PERSISTENT))
    client.expect(1, BasicAck(2, False))


def test_a_dead_queue_is_back_with_its_messages_when_the_broker_starts_again(
    tmp_path: Path,
) -> None:
    for attempt in (1, 2):
        with (
            leveret.Broker(data_dir=tmp_path / "data", port=0, log_level="error") as broker,
            Client(broker.host, broker.port).log_in() as client,
        ):
            client.open_channel(1, confirms=True)
            if attempt == 1:
                client.declare("durable", durable=True)
                client.send(publish("durable", b"kept", PERSISTENT))
                client.expect(1, BasicAck(1, False))
                fail(queue_actor(broker, "durable"))
                client.send(publish("durable", b"refused", PERSISTENT))
                client.expect(1, BasicNack(2, False, True))
            else:
                answer = client.ask(1, BasicGet(queue="durable", no_ack=True))
                assert answer == BasicGetOk(1, False, "", "durable", 0)
                assert client.read_content(1).body == b"kept"


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


@pytest.mark.parametrize("whose", ["broker", "ticker", "listener"])
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
    assert broker.node is not None
    listener = broker.node._listener
    fail({"broker": context.broker, "ticker": context.ticker, "listener": listener}[whose])
    client.expect_closed()
    files.release()
    broker.stop()
    assert broker.failure is not None
