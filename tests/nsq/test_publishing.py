"""What an NSQ client publishes: OK after the fsync, in order, and messages as AMQP has them."""

from __future__ import annotations

from collections.abc import Callable

from client_frames import publish
from gated_files import GatedFiles
from leveret.amqp_frames.values.field_table import table_of
from nsq_wire import NsqClient, dpub, mpub, pub
from wire import Client

Nsq = Callable[[], NsqClient]


def test_fsync_before_ok(nsq: Nsq, files: GatedFiles) -> None:
    client = nsq().subscribe("at_once#ephemeral", "c", 10)
    other = nsq()
    client.send(pub("t", b"first")).ok()
    files.hold()
    client.send(pub("t", b"x"), mpub("t", b"y", b"z"), dpub("t", 1, b"d"))
    files.wait_until_syncing()
    # A frame that the broker writes now: an OK for the others would stand before it.
    other.send(pub("at_once#ephemeral", b"while it syncs")).ok()
    assert client.message().body == b"while it syncs"
    files.release()
    client.ok(3)
    client.nothing()


def test_answers_come_in_the_order_of_the_commands(nsq: Nsq) -> None:
    client = nsq().subscribe("t", "c")
    bad = b"0" * 16
    client.send(
        pub("t", b"x") * 3,
        b"FIN " + bad + b"\n",
        mpub("u", b"y", b"z"),
        b"CLS\n",
        pub("t", b"x") * 2,
    )
    client.ok(3)
    assert client.error() == b"E_FIN_FAILED FIN 0000000000000000 failed ID not in flight"
    client.ok()
    assert client.receive() == (0, b"CLOSE_WAIT")
    client.ok(2)


def test_commands_before_a_fatal_mistake_are_answered(nsq: Nsq) -> None:
    client = nsq().send(pub("t", b"x") * 5, b"NOP\nBOGUS\n", pub("t", b"x"))
    client.ok(5)
    assert client.error() == b"E_INVALID invalid command BOGUS"
    assert client.receive() is None


def test_amqp_gets_bodies_with_delivery_mode_2(nsq: Nsq, connect: Callable[..., Client]) -> None:
    nsq().subscribe("t", "c")
    publisher = nsq()
    bodies = [b"x", b"y" * 200_000, b"z"]
    publisher.send(*(pub("t", body) for body in bodies)).ok(3)
    client = connect()
    client.open_channel(1)
    for body in bodies:
        got = client.get("t:c", no_ack=True)
        assert got is not None
        assert got.body == body


def test_what_amqp_publishes_to_the_topic_comes_to_its_channels(
    nsq: Nsq, connect: Callable[..., Client]
) -> None:
    consumer = nsq().subscribe("t", "c", 10)
    client = connect()
    client.open_channel(1, confirms=True)
    client.send(publish("any", b"from amqp", exchange="t"), publish("any", b"", exchange="t"))
    client.expect_acks(range(1, 3))
    assert [each.body for each in consumer.messages(2)] == [b"from amqp", b""]


def test_many_topics_in_one_read(nsq: Nsq) -> None:
    client = nsq()
    topics = [f"t{k % 50}" for k in range(500)]
    client.send(*(pub(topic, b"%d" % k) for k, topic in enumerate(topics)))
    client.ok(500)
    got = nsq().subscribe("t7", "c", 100).messages(10)
    assert [each.body for each in got] == [b"%d" % k for k in range(7, 500, 50)]


def test_a_dpub_comes_when_it_is_due(nsq: Nsq) -> None:
    consumer = nsq().subscribe("t", "c", 10)
    nsq().send(dpub("t", 300, b"later"), dpub("t", 0, b"now")).ok(2)
    now, later = consumer.messages(2)
    assert (now.body, later.body) == (b"now", b"later")
    # By the id the first was published first.
    assert later.id < now.id


def test_a_large_message_comes_whole(nsq: Nsq) -> None:
    body = bytes(range(256)) * 20_000
    client = nsq().subscribe("t", "c", 1)
    nsq().send(pub("t", body)).ok()
    assert client.message().body == body


def test_a_channel_takes_an_mpub_as_a_whole_or_refuses_it(
    nsq: Nsq, connect: Callable[..., Client]
) -> None:
    amqp = connect()
    amqp.open_channel(1)
    limits = table_of({"x-max-length": 5, "x-overflow": "reject-publish"})
    amqp.declare("t:c", durable=True, arguments=limits)
    nsq().subscribe("t", "c", 0)
    client = nsq()
    # All in one read: the first is taken, the second refused, and then one more has room.
    client.send(mpub("t", b"1", b"2", b"3"), mpub("t", b"4", b"5", b"6"), pub("t", b"7"))
    client.ok()
    assert client.error() == b"E_MPUB_FAILED MPUB failed the queue is full"
    bodies = []
    while (got := amqp.get("t:c", no_ack=True)) is not None:
        bodies.append(got.body)
    assert bodies in ([b"1", b"2", b"3"], [b"1", b"2", b"3", b"7"])
