"""Publishing: confirms, returns, routing, bodies and properties, rightly and wrongly."""

from __future__ import annotations

import pytest
from both_brokers import BothBrokers, compared
from client_frames import PERSISTENT, publish
from leveret.amqp_frames.methods import (
    BasicGet,
    ConfirmSelect,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueUnbind,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from scripted_session import Channel, Session

Q = QueueDeclare(queue="q")
DURABLE = QueueDeclare(queue="d", durable=True)
ALL_PROPERTIES = Properties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers={
        "bool": Field("bool", True),
        "byte": Field("byte", -1),
        "short": Field("short", -300),
        "signedint": Field("signedint", -70_000),
        "long": Field("long", 2**40),
        "float": Field("float", 0.5),
        "double": Field("double", 0.1),
        "decimal": Field("decimal", (2, 314)),
        "longstr": Field("longstr", "häslein"),
        "binary": Field("binary", b"\x00\xff"),
        "timestamp": Field("timestamp", 1_700_000_000),
        "void": Field("void", None),
        "table": Field("table", {"inner": Field("array", [Field("long", 1), Field("void", None)])}),
    },
    delivery_mode=2,
    priority=9,
    correlation_id="correlation",
    reply_to="reply",
    message_id="message",
    timestamp=1_700_000_000,
    type="type",
    user_id="guest",
    app_id="application",
    cluster_id="cluster",
)


def get_all(channel: Channel, *queues: str) -> None:
    """Take what is in these queues until they are empty."""
    for queue in queues:
        while channel.ask(BasicGet(queue=queue, no_ack=True)).name != "basic.get-empty":
            pass


@compared
def test_confirms_number_publishes_from_confirm_select_on(session: Session) -> None:
    channel = session.channel()
    channel.ask(Q)
    channel.publish("q", mandatory=True)
    channel.publish("nowhere")
    channel.publish("nowhere", mandatory=True)
    channel.read()
    channel.ask(ConfirmSelect())
    for key in ("q", "nowhere", "q"):
        channel.publish(key)
        channel.read()
    channel.ask(ConfirmSelect())
    channel.publish("q")
    channel.read()
    channel.send(ConfirmSelect(no_wait=True))
    channel.publish("q")
    channel.read()


@compared
def test_a_mandatory_message_is_returned_before_its_own_confirm(session: Session) -> None:
    channel = session.channel()
    channel.ask(ConfirmSelect())
    for body in (b"", b"body", bytes(200_000)):
        channel.publish("nowhere", body, ALL_PROPERTIES, mandatory=True)
        channel.read(2)
    channel.publish("k", b"1", PERSISTENT, exchange="amq.topic", mandatory=True)
    channel.read(2)


@compared
def test_every_publish_of_a_burst_is_confirmed(session: Session) -> None:
    channel = session.channel()
    channel.ask(Q, DURABLE, ConfirmSelect())
    keys = ("q", "d", "nowhere", "d", "q")
    channel.send(*(publish(keys[n % 5], b"%d" % n, PERSISTENT) for n in range(100)))
    channel.confirms(100)
    get_all(channel, "q", "d")


@compared
def test_one_message_to_many_queues_is_confirmed_once(session: Session) -> None:
    channel = session.channel()
    channel.ask(ExchangeDeclare(exchange="x", type="fanout"), ConfirmSelect())
    for queue in ("d", "e", "f"):
        channel.ask(QueueDeclare(queue=queue, durable=queue != "f"))
        channel.ask(QueueBind(queue=queue, exchange="x"))
    channel.ask(QueueBind(queue="d", exchange="x", routing_key="twice"))
    channel.publish("twice", b"1", PERSISTENT, exchange="x", mandatory=True)
    channel.read()
    channel.publish("twice", b"2", exchange="x")
    channel.read()
    get_all(channel, "d", "e", "f")


ROUTES = {
    "direct": (["a", "a.b", ""], ["a", "a.b", "", "b"]),
    "fanout": (["a"], ["a", "", "zzz"]),
    "topic": (
        ["a.*.c", "a.#", "#", "*", "#.c", "a.b.c", "", "*.#.*"],
        ["a.b.c", "a", "", "a.c", "x.y", ".", "a..c", "#", "A.b.c"],
    ),
}


@pytest.mark.parametrize("kind", ROUTES)
def test_a_key_finds_the_same_queues(both: BothBrokers, kind: str) -> None:
    patterns, keys = ROUTES[kind]

    def script(session: Session) -> None:
        channel = session.channel()
        channel.ask(ExchangeDeclare(exchange="x", type=kind), ConfirmSelect())
        for number, pattern in enumerate(patterns):
            channel.ask(QueueDeclare(queue=f"q{number}"))
            channel.ask(QueueBind(queue=f"q{number}", exchange="x", routing_key=pattern))
        for key in keys:
            channel.publish(key, key.encode(), exchange="x")
            channel.read()
        get_all(channel, *(f"q{number}" for number in range(len(patterns))))
        channel.ask(QueueUnbind(queue="q0", exchange="x", routing_key=patterns[0]))
        for key in keys:
            channel.publish(key, key.encode(), exchange="x")
            channel.read()
        get_all(channel, "q0")

    both.compare(f"{kind} routes", script)


@compared
def test_every_property_passes_unchanged(session: Session) -> None:
    channel = session.channel()
    channel.ask(Q, ConfirmSelect())
    for name in Properties._fields:
        channel.publish("q", b"", Properties(**{name: getattr(ALL_PROPERTIES, name)}))
        channel.read()
    channel.publish("q", b"all", ALL_PROPERTIES)
    channel.publish("q", b"none", Properties(headers={}))
    channel.confirms(2)
    get_all(channel, "q")


@compared
def test_bodies_of_all_sizes_come_in_frames_of_the_size_agreed_on(session: Session) -> None:
    channel = session.channel()
    small = session.connect(frame_max_bytes=4096).channel(1)
    channel.ask(Q, ConfirmSelect())
    for size in (0, 1, 4087, 4088, 4089, 8176, 131_064, 131_065, 300_000):
        for reader in (channel, small):
            channel.publish("q", b"b" * size)
            channel.connection.next_command(1)
            reader.ask(BasicGet(queue="q", no_ack=True))


@compared
def test_what_stands_before_a_mistake_is_published(session: Session) -> None:
    channel, other = session.channel(), session.channel()
    channel.ask(Q)
    channel.send(publish("q") * 3, publish("k", exchange="missing"), publish("q"))
    channel.read()
    other.wait_for_counts("q", 3)


@compared
def test_publishing_wrongly(session: Session) -> None:
    channel = session.channel()
    channel.ask(
        Q,
        publish("k", exchange="x"),
        publish("q", b"x" * 300_001),
        publish("q", b"", Properties(user_id="somebody")),
        publish("q", b"", Properties(delivery_mode=0)),
        publish("q", b"", Properties(delivery_mode=3)),
        publish("q", b"", Properties(delivery_mode=255, expiration="abc")),
        publish("q", b"", Properties(expiration="abc")),
        publish("q", b"", Properties(expiration="")),
        publish("q", b"", Properties(expiration="10x")),
        publish("q", b"", Properties(expiration="-1")),
        publish("q", b"", Properties(expiration="1.5")),
        publish("q", b"", Properties(expiration=" 1")),
        publish("q", b"", Properties(expiration="+1 ")),
        publish("q", b"", Properties(expiration="315360000001")),
        ExchangeDeclare(exchange="x", type="fanout", internal=True),
        publish("k", exchange="x"),
        QueueDeclare(queue="q", passive=True),
    )
    channel.ask(publish("q", immediate=True))
    channel.connection.end()


@compared
def test_publishing_wrongly_in_confirm_mode(session: Session) -> None:
    channel = session.channel()
    channel.ask(Q, ConfirmSelect(), publish("k", exchange="x"))
    # The channel that is opened in its place is not in confirm mode.
    channel.publish("q")
    channel.settled()
    channel.ask(ConfirmSelect(), publish("q"))


@compared
def test_keys_and_bodies_may_hold_any_octets(session: Session) -> None:
    channel = session.channel()
    channel.ask(Q, ConfirmSelect(), QueueBind(queue="q", exchange="amq.fanout"))
    for key in ("\udcff\udc80", "häslein", "a\x00b", "k" * 255):
        channel.publish(key, bytes(range(256)), exchange="amq.fanout")
        channel.read()
    get_all(channel, "q")
