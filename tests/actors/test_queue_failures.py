"""A queue whose actor fails: what it owes is nacked, and it is down until deleted or restarted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import leveret
import pytest
from gated_files import GatedFiles
from insides import (
    channel_actor,
    fail,
    inside,
    on_loop,
    queue_actor,
    readers,
)
from leveret.actors.messages import ChannelDown, Command
from leveret.actors.queue import queue as queue_module
from leveret.actors.queue.answers import QueueAnswers
from leveret.actors.runtime.runtime import tell
from leveret.amqp_frames.decoder import ChannelInput, Decoder
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
    ChannelClose,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    encode_method,
)
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.queue.rules import Effects, MessageQueue
from wire import FRAME_MAX_BYTES, PERSISTENT, Client, publish

Connect = Callable[..., Client]
CRASHED = "NOT_FOUND - queue 'durable' in vhost '/' has crashed and failed to restart"


def read_of(wire: bytes) -> ChannelInput:
    [read] = Decoder(FRAME_MAX_BYTES, 10_000, 1000).feed(wire)
    return read


def connected(connect: Connect, **handshake: object) -> Client:
    client = connect(**handshake)
    client.open_channel()
    return client


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


def test_a_queue_that_fails_of_the_journal_s_answer_nacks_the_messages_in_it(
    client: Client, broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.declare("durable", durable=True)

    def fail_to_confirm(*_arguments: object) -> None:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr(QueueAnswers, "confirm", fail_to_confirm)
    client.send(publish("durable", b"", PERSISTENT))
    client.expect(1, BasicNack(1, False, True))
    client.nothing_more()


def test_a_queue_that_dies_nacks_what_is_still_in_its_mailbox(
    client: Client, broker: leveret.Broker
) -> None:
    client.declare("q")
    client.send(publish("q"))
    client.expect(1, BasicAck(1, False))
    channel = inside(channel_actor(readers(broker)[0]))
    queue = queue_actor(broker, "q")
    read = read_of(publish("q", b"", mandatory=True) * 2)
    # The publishes are in the queue's mailbox, behind what it fails of.
    on_loop(broker, lambda: fail(queue), lambda: channel.on_receive(read))
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
    channel = inside(channel_actor(readers(broker)[0]))
    queue = queue_actor(broker, "durable")
    # The question is in the queue's mailbox, behind what it fails of.
    on_loop(broker, lambda: fail(queue), lambda: channel.on_receive(Command(method)))
    client.expect(1, ChannelClose(404, CRASHED, method.class_id, method.method_id))


@pytest.mark.parametrize("is_publish", [True, False])
def test_behind_small_publishes_that_a_queue_fails_of_each_is_answered(
    connect: Connect, broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch, is_publish: bool
) -> None:
    clients = [connect() for _ in range(3)]
    for client in clients:
        client.open_channel(1, confirms=True)
    clients[0].declare("durable", durable=True)

    def fail_to_merge(*_arguments: object) -> None:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr(queue_module, "as_one", fail_to_merge)
    channels = [inside(channel_actor(reader)) for reader in readers(broker)]
    large = publish("durable", bytes(queue_module.MERGED_BYTES_MAX), PERSISTENT)
    small = publish("durable", b"", PERSISTENT)
    last = read_of(large) if is_publish else Command(BasicGet(queue="durable"))
    on_loop(
        broker,
        lambda: channels[0].on_receive(read_of(small)),
        lambda: channels[1].on_receive(read_of(small)),
        lambda: channels[2].on_receive(last),
    )
    answer = BasicNack(1, False, True) if is_publish else ChannelClose(404, CRASHED, 60, 70)
    for client, wanted in zip(clients, [BasicNack(1, False, True)] * 2 + [answer], strict=True):
        client.expect(1, wanted)


@contextmanager
def started(tmp_path: Path) -> Iterator[tuple[leveret.Broker, Client]]:
    """A broker with this data directory, and a client with two channels."""
    with (
        leveret.Broker(data_dir=tmp_path / "data", port=0, log_level="error") as broker,
        Client(broker.host, broker.port).log_in() as client,
    ):
        client.open_channel(1, confirms=True)
        client.open_channel(2)
        yield broker, client


def test_messages_that_were_acked_before_their_queue_failed_do_not_come_back(
    tmp_path: Path,
) -> None:
    with started(tmp_path) as (broker, client):
        client.declare("durable", durable=True)
        client.publish_all("durable", b"acked", b"kept", properties=PERSISTENT)
        assert client.get("durable") is not None
        channel = inside(channel_actor(readers(broker)[0]))
        acked = read_of(encode_method(1, BasicAck(1, False)))
        queue = queue_actor(broker, "durable")
        # The queue has both in one turn.
        on_loop(broker, partial(channel.on_receive, acked), partial(fail, queue))
    with started(tmp_path) as (_, client):
        found = client.get("durable", no_ack=True)
        assert found is not None
        assert found.body == b"kept"


def test_of_an_ack_that_a_queue_fails_of_those_before_it_in_the_turn_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = MessageQueue.settle

    def settle_first(rules: MessageQueue, channel: object, parts: Any, effects: Effects) -> object:
        if parts[0][0].span.first_entry_id > 1:
            raise ValueError("a mistake of ours")
        return settle(rules, channel, parts, effects)

    monkeypatch.setattr(MessageQueue, "settle", settle_first)
    with started(tmp_path) as (broker, client):
        client.declare("durable", durable=True)
        client.publish_all("durable", b"acked", b"held", b"next", properties=PERSISTENT)
        client.ask(2, BasicQos(0, 1, False))
        client.ask(2, BasicConsume(queue="durable", consumer_tag="c"))
        client.expect_type(2, BasicDeliver)
        client.read_content(2)
        assert client.get("durable") is not None
        channels = [inside(channel_actor(readers(broker)[0], number)) for number in (1, 2)]
        acks = [read_of(encode_method(number, BasicAck(1, False))) for number in (1, 2)]
        # The queue has both in one turn.
        on_loop(broker, *(partial(channels[at].on_receive, acks[at]) for at in (1, 0)))
        # What the first makes room for goes out all the same.
        client.expect_type(2, BasicDeliver)
        assert client.read_content(2).body == b"next"
    with started(tmp_path) as (_, client):
        found = [client.get("durable", no_ack=True) for _ in range(2)]
        assert [each.body for each in found if each is not None] == [b"held", b"next"]
        assert client.get("durable") is None


def test_each_attempt_counts_though_a_message_goes_out_twice_in_one_turn(tmp_path: Path) -> None:
    with started(tmp_path) as (broker, client):
        client.declare("durable", durable=True, arguments=table_of({"x-queue-type": "quorum"}))
        client.publish_all("durable", b"", properties=PERSISTENT)
        first, second = (channel_actor(readers(broker)[0], number) for number in (1, 2))
        get = Command(BasicGet(queue="durable"))
        on_loop(
            broker,
            partial(inside(first).on_receive, get),
            partial(tell, queue_actor(broker, "durable"), ChannelDown(first)),
            partial(inside(second).on_receive, get),
        )
        for number, is_redelivered in ((1, False), (2, True)):
            assert client.expect_type(number, BasicGetOk).redelivered is is_redelivered
            client.read_content(number)
    with started(tmp_path) as (_, client):
        client.send_methods(1, BasicGet(queue="durable"))
        assert client.expect_type(1, BasicGetOk).redelivered
        headers = client.read_content(1).properties.headers
        assert headers == {"x-delivery-count": ("long", 2)}


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


@pytest.mark.parametrize("condition", ["if_empty", "if_unused"])
def test_a_dead_queue_cannot_be_deleted_if_empty_or_if_unused(
    client: Client, broker: leveret.Broker, condition: str
) -> None:
    client.declare("durable", durable=True)
    client.publish_all("durable", b"kept", properties=PERSISTENT)
    queue = queue_actor(broker, "durable")
    fail(queue)
    delete = QueueDelete(queue="durable", **{condition: True})  # type: ignore[arg-type]
    refused = ChannelClose(404, CRASHED, delete.class_id, delete.method_id)
    assert client.ask(1, delete) == refused


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
