"""Messages that cross between AMQP and NSQ, both ways, in queues with all that AMQP declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import leveret
import pytest
from insides import in_flight_count, wait_until
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicDeliver,
    BasicNack,
    BasicQos,
    BasicQosOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from leveret.amqp_frames.values.field_table import table_of
from leveret.commands.control_client import ask_broker
from nsq_wire import NsqClient, identify, pub
from wire import PERSISTENT, Client, publish

Nsq = Callable[[], NsqClient]
QUEUE = "t:c"


@pytest.fixture
def amqp(connect: Callable[..., Client]) -> Client:
    client = connect()
    client.open_channel(1, confirms=True)
    return client


def to_topic(client: Client, *bodies: bytes, topic: str = "t", **properties: Any) -> None:
    """Publish with confirms, and mandatory: a message without a route would be returned."""
    known = PERSISTENT._replace(**properties)
    client.send(*(publish("", body, known, exchange=topic, mandatory=True) for body in bodies))
    first = client.next_seq_no
    client.next_seq_no += len(bodies)
    client.expect_acks(range(first, client.next_seq_no))


def declare_channel(client: Client, **arguments: Any) -> None:
    """The queue of the channel, before NSQ knows it."""
    table = table_of({name.replace("_", "-"): value for name, value in arguments.items()})
    client.declare(QUEUE, durable=True, arguments=table)


def finish(client: NsqClient, *ids: bytes) -> None:
    client.send(*[b"FIN " + each + b"\n" for each in ids])


def bodies_of(client: Client, queue: str) -> list[bytes]:
    """Get all that is ready."""
    bodies = []
    while (got := client.get(queue, no_ack=True)) is not None:
        bodies.append(got.body)
    return bodies


@pytest.mark.parametrize("frame_max", [4096, 131_072])
def test_a_body_of_many_frames_comes_whole_and_its_headers_stay_behind(
    frame_max: int, nsq: Nsq, connect: Callable[..., Client]
) -> None:
    consumer = nsq().subscribe("t", "c", 10)
    client = connect(frame_max_bytes=frame_max)
    client.open_channel(1, confirms=True)
    bodies = [b"", b"x" * 4088, bytes(range(256)) * 1_000, b"y" * 300_001]
    properties = PERSISTENT._replace(headers=table_of({"h": "v"}), message_id="m", priority=3)
    pieces = [
        publish("", body, properties, exchange="t", frame_max_bytes=frame_max) for body in bodies
    ]
    client.send(*pieces)
    client.expect_acks(range(1, len(bodies) + 1))
    assert [each.body for each in consumer.messages(len(bodies))] == bodies


def test_queues_that_amqp_binds_to_a_topic_get_what_nsq_publishes(nsq: Nsq, amqp: Client) -> None:
    consumer = nsq().subscribe("t", "c", 10)
    amqp.declare("copy", durable=True)
    assert amqp.ask(1, QueueBind(queue="copy", exchange="t")) == QueueBindOk()
    nsq().send(pub("t", b"both")).ok()
    assert consumer.message().body == b"both"
    assert bodies_of(amqp, "copy") == [b"both"]


def test_a_message_requeued_too_often_is_a_dead_letter_of_another_topic(
    nsq: Nsq, amqp: Client
) -> None:
    nsq().subscribe("dead", "c")
    declare_channel(amqp, x_delivery_limit=2, x_dead_letter_exchange="dead")
    consumer = nsq().subscribe("t", "c", 1)
    nsq().send(pub("t", b"x")).ok()
    for attempts in (1, 2, 3):
        message = consumer.message()
        assert message.attempts == attempts
        consumer.send(b"REQ " + message.id + b" 0\n")
    dead = nsq().subscribe("dead", "c", 1).message()
    assert (dead.body, dead.attempts) == (b"x", 1)
    consumer.nothing()


def test_what_expires_by_policy_is_a_dead_letter_and_comes_to_nobody(
    nsq: Nsq, amqp: Client, broker: leveret.Broker
) -> None:
    amqp.declare("dead", durable=True)
    definition = {"message-ttl": 1, "dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
    given = {"vhost": "/", "name": "p", "pattern": "^t:c$", "definition": definition}
    ask_broker(broker.configuration.data_dir, "policy set", given)
    consumer = nsq().subscribe("t", "c")
    nsq().send(pub("t", b"x")).ok()
    wait_until(lambda: amqp.counts("dead")[0] == 1)
    consumer.send(b"RDY 1\n").nothing()
    assert bodies_of(amqp, "dead") == [b"x"]


def test_amqps_message_of_its_own_time_to_live_expires_in_the_channel(
    nsq: Nsq, amqp: Client
) -> None:
    consumer = nsq().subscribe("t", "c")
    to_topic(amqp, b"short", expiration="1")
    to_topic(amqp, b"long")
    wait_until(lambda: amqp.counts(QUEUE)[0] == 1)
    assert consumer.send(b"RDY 5\n").message().body == b"long"
    consumer.nothing()


def test_repeated_messages_are_dropped_and_nsqs_have_no_number(nsq: Nsq, amqp: Client) -> None:
    declare_channel(amqp, x_dedup_window=10)
    consumer = nsq().subscribe("t", "c", 10)
    headers = table_of({"x-dedup-producer": "p", "x-dedup-id": "1"})
    to_topic(amqp, b"1", b"again", headers=headers)
    nsq().send(pub("t", b"2"), pub("t", b"2")).ok(2)
    assert [each.body for each in consumer.messages(3)] == [b"1", b"2", b"2"]
    consumer.nothing()


def test_the_most_urgent_comes_first(nsq: Nsq, amqp: Client) -> None:
    declare_channel(amqp, x_max_priority=9)
    consumer = nsq().subscribe("t", "c")
    for priority in (1, 9, 5):
        to_topic(amqp, b"%d" % priority, priority=priority)
    nsq().send(pub("t", b"none")).ok()
    consumer.send(b"RDY 4\n")
    assert [each.body for each in consumer.messages(4)] == [b"9", b"5", b"1", b"none"]


def test_the_oldest_give_way_in_a_channel_that_is_full(nsq: Nsq, amqp: Client) -> None:
    declare_channel(amqp, x_max_length=2)
    consumer = nsq().subscribe("t", "c")
    nsq().send(*[pub("t", b"%d" % number) for number in range(3)]).ok(3)
    to_topic(amqp, b"3")
    consumer.send(b"RDY 4\n")
    assert [each.body for each in consumer.messages(2)] == [b"2", b"3"]
    consumer.nothing()


def test_a_topic_without_channels_is_a_route_of_mandatory(nsq: Nsq, amqp: Client) -> None:
    nsq().send(pub("t", b"1")).ok()
    to_topic(amqp, b"2")
    assert [each.body for each in nsq().subscribe("t", "c", 5).messages(2)] == [b"1", b"2"]


def test_a_transaction_comes_when_it_is_committed(nsq: Nsq, connect: Callable[..., Client]) -> None:
    consumer = nsq().subscribe("t", "c", 10)
    client = connect()
    client.open_channel(1)
    assert client.ask(1, TxSelect()) == TxSelectOk()
    client.send(publish("", b"dropped", PERSISTENT, exchange="t"))
    assert client.ask(1, TxRollback()) == TxRollbackOk()
    client.send(*[publish("", body, PERSISTENT, exchange="t") for body in (b"1", b"2")])
    client.nothing_more()
    consumer.nothing()
    assert client.ask(1, TxCommit()) == TxCommitOk()
    assert [each.body for each in consumer.messages(2)] == [b"1", b"2"]


def test_what_a_delaying_exchange_holds_back_comes_when_it_is_due(nsq: Nsq, amqp: Client) -> None:
    consumer = nsq().subscribe("t", "c", 10)
    arguments = table_of({"x-delayed-type": "fanout"})
    declare = ExchangeDeclare(exchange="later", type="x-delayed-message", arguments=arguments)
    assert amqp.ask(1, declare) == ExchangeDeclareOk()
    assert amqp.ask(1, QueueBind(queue=QUEUE, exchange="later")) == QueueBindOk()
    to_topic(amqp, b"due later", topic="later", headers=table_of({"x-delay": 200}))
    nsq().send(pub("t", b"at once")).ok()
    assert [each.body for each in consumer.messages(2)] == [b"at once", b"due later"]


def test_rdy_and_prefetch_bound_consumers_of_one_channel_side_by_side(
    nsq: Nsq, amqp: Client, broker: leveret.Broker, connect: Callable[..., Client]
) -> None:
    by_nsq = nsq().subscribe("t", "c", 2)
    by_amqp = connect()
    by_amqp.open_channel(1)
    assert by_amqp.ask(1, BasicQos(0, 3, False)) == BasicQosOk()
    by_amqp.consume(QUEUE)
    nsq().send(*[pub("t", b"%d" % number) for number in range(10)]).ok(10)
    assert amqp.counts(QUEUE) == (5, 2)
    assert in_flight_count(broker, QUEUE) == 5
    held = by_nsq.messages(2)
    bodies = [each.body for each in held]
    for _ in range(3):
        by_amqp.expect_type(1, BasicDeliver)
        bodies.append(by_amqp.read_content(1).body)
    by_nsq.nothing()
    by_amqp.nothing_more()
    # Each gets as many as it answers.
    finish(by_nsq, *[each.id for each in held])
    bodies += [each.body for each in by_nsq.messages(2)]
    by_amqp.send_methods(1, BasicAck(3, multiple=True))
    for _ in range(3):
        by_amqp.expect_type(1, BasicDeliver)
        bodies.append(by_amqp.read_content(1).body)
    assert sorted(bodies) == [b"%d" % number for number in range(10)]


def test_a_single_active_consumer_may_be_of_either_protocol(
    nsq: Nsq, amqp: Client, connect: Callable[..., Client]
) -> None:
    declare_channel(amqp, x_single_active_consumer=True)
    by_amqp = connect()
    by_amqp.open_channel(1)
    by_amqp.consume(QUEUE, no_ack=True)
    by_nsq = nsq().subscribe("t", "c", 10)
    publisher = nsq()
    publisher.send(pub("t", b"1")).ok()
    by_amqp.expect_type(1, BasicDeliver)
    assert by_amqp.read_content(1).body == b"1"
    assert by_amqp.ask(1, BasicCancel("c", False)) == BasicCancelOk("c")
    publisher.send(pub("t", b"2")).ok()
    assert by_nsq.message().body == b"2"
    by_amqp.consume(QUEUE, "again", no_ack=True)
    by_amqp.nothing_more()
    by_nsq.socket.close()
    by_amqp.expect_type(1, BasicDeliver)
    assert by_amqp.read_content(1).body == b"2"


def test_attempts_count_across_protocols_and_time_outs(nsq: Nsq, amqp: Client) -> None:
    late = nsq().send(identify(msg_timeout=1000)).ok().subscribe("t", "c", 1)
    nsq().send(pub("t", b"x")).ok()
    first = late.message()
    assert first.attempts == 1
    late.send(b"RDY 0\n").nothing()
    wait_until(lambda: amqp.counts(QUEUE)[0] == 1)
    got = amqp.get(QUEUE)
    assert got is not None
    assert (got.redelivered, got.body) == (True, b"x")
    finish(late, first.id)
    assert late.error().startswith(b"E_FIN_FAILED")
    amqp.send_methods(1, BasicNack(got.delivery_tag, requeue=True))
    again = nsq().subscribe("t", "c", 1).message()
    assert (again.id, again.attempts, again.body) == (first.id, 3, b"x")
