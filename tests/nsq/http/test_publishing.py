"""What is published by HTTP is published as over the protocol: OK after the fsync, or a reason."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import leveret
from client_frames import publish
from gated_files import GatedFiles
from insides import context_of, wait_until
from leveret.amqp_frames.values.field_table import table_of
from nsq_calls import call, get, lengths, post, topic_stats
from nsq_wire import NsqClient
from wire import Client

Nsq = Callable[[], NsqClient]


def test_fsync_before_ok(broker: leveret.Broker, nsq: Nsq, files: GatedFiles) -> None:
    client = nsq().subscribe("at_once#ephemeral", "c", 10)
    post(broker, "/pub?topic=t", b"first")
    files.hold()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call, broker, "POST", "/pub?topic=t", b"x")
        files.wait_until_syncing()
        # An answer that the broker writes now: one to the other would stand before it.
        post(broker, "/pub?topic=at_once%23ephemeral", b"while it syncs")
        assert client.message().body == b"while it syncs"
        assert not answer.done()
        files.release()
        assert answer.result().body == b"OK"


def test_consumers_get_it(broker: leveret.Broker, nsq: Nsq, connect: Callable[..., Client]) -> None:
    consumer = nsq().subscribe("t", "c", 10)
    post(broker, "/pub?topic=t", b"one")
    post(broker, "/mpub?topic=t", b"two\nthree")
    post(broker, "/pub?topic=t", b"y" * 200_000)
    bodies = [each.body for each in consumer.messages(4)]
    assert bodies == [b"one", b"two", b"three", b"y" * 200_000]
    post(broker, "/channel/create?topic=t&channel=amqp")
    post(broker, "/pub?topic=t", b"to both")
    client = connect()
    client.open_channel(1)
    got = client.get("t:amqp", no_ack=True)
    assert got is not None
    assert got.body == b"to both"


def test_a_deferred_message_is_there_and_waits(broker: leveret.Broker, nsq: Nsq) -> None:
    post(broker, "/topic/create?topic=t")
    post(broker, "/channel/create?topic=t&channel=c")
    post(broker, "/pub?topic=t&defer=3600000", b"later")
    (channel,) = topic_stats(broker, "t")["channels"]
    assert lengths(channel) == {"deferred_count": 1, "message_count": 1}
    nsq().subscribe("t", "c", 1).nothing()


def test_connections_of_calls_are_not_listed(broker: leveret.Broker) -> None:
    post(broker, "/pub?topic=t", b"x")
    assert get(broker, "/stats?format=json")["producers"] == []
    context = context_of(broker)
    assert not context.open_connections
    wait_until(lambda: not len(context.vhost_users))


def test_a_refused_publish_has_its_reason(
    broker: leveret.Broker, connect: Callable[..., Client]
) -> None:
    client = connect()
    client.open_channel(1, confirms=True)
    bounds = table_of({"x-max-length": 1, "x-overflow": "reject-publish"})
    client.declare("t:c", durable=True, arguments=bounds)
    client.send(publish("t:c", b"full"))
    client.expect_acks(range(1, 2))
    post(broker, "/topic/create?topic=t")
    post(broker, "/channel/create?topic=t&channel=c")
    called = call(broker, "POST", "/pub?topic=t", b"x")
    assert (called.status, called.json["message"]) == (503, "PUB_FAILED")
    assert "reason" in called.json
    called = call(broker, "POST", "/mpub?topic=t", b"x\ny")
    assert (called.status, called.json["message"]) == (503, "MPUB_FAILED")
