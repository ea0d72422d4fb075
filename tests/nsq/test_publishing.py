"""What an NSQ client publishes: OK after the fsync, in order, and messages as AMQP has them."""

from __future__ import annotations

from collections.abc import Callable

import leveret
import pytest
from client_frames import publish
from gated_files import GatedFiles
from insides import context_of, on_loop
from leveret.amqp_frames.methods import ExchangeDeclare, ExchangeDeclareOk
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.users.accounts import Permission, PutPermission
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


def several(command: str, *topics: str) -> bytes:
    """So many commands, each with a message or two, that make one run."""
    if command == "MPUB":
        return b"".join(mpub(topic, b"1", b"2") for topic in topics)
    if command == "DPUB":
        return b"".join(dpub(topic, 0, b"1") for topic in topics)
    return b"".join(pub(topic, b"1") for topic in topics)


@pytest.mark.parametrize("command", ["PUB", "MPUB", "DPUB"])
class TestATopicThatCannotBe:
    """In one read, each publish has the answer that it would have by itself, as in nsqd."""

    def test_commands_before_it_are_carried_out(
        self, nsq: Nsq, connect: Callable[..., Client], command: str
    ) -> None:
        amqp = connect()
        amqp.open_channel(1)
        taken = ExchangeDeclare(exchange="taken", durable=True)
        assert amqp.ask(1, taken) == ExchangeDeclareOk()
        client = nsq().send(several(command, "a", "new", "a", "taken", "a", "later"))
        client.ok(3)
        assert client.error().startswith(b"E_BAD_TOPIC %s " % command.encode())
        assert client.receive() is None
        count = 2 if command == "MPUB" else 1
        assert len(nsq().subscribe("a", "c", 10).messages(2 * count)) == 2 * count
        assert len(nsq().subscribe("new", "c", 10).messages(count)) == count

    @pytest.mark.parametrize(
        ("configure", "write"), [("^$", ".*"), (".*", "^[^r]*$")], ids=["configure", "write"]
    )
    def test_nor_does_a_permission_that_is_missing_concern_them(
        self, nsq: Nsq, broker: leveret.Broker, command: str, configure: str, write: str
    ) -> None:
        nsq().send(several("PUB", "a", "b")).ok(2)
        accounts = context_of(broker).accounts
        permission = PutPermission(Permission("guest", "/", configure, write, ".*"))
        on_loop(broker, lambda: accounts.apply([permission]))
        client = nsq().send(several(command, "b", "a", "refused", "b"))
        client.ok(2)
        name = command.encode()
        assert client.error() == b'E_UNAUTHORIZED AUTH failed for %s on "refused" ""' % name
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
