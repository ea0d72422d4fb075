"""Direct replies, and copies by CC and BCC."""

from __future__ import annotations

from both_brokers import compared
from leveret.amqp_frames.methods import (
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    ExchangeBind,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from scripted_session import Channel, Session

REPLY_TO = "amq.rabbitmq.reply-to"
TAKE = BasicConsume(queue=REPLY_TO, consumer_tag="r", no_ack=True)
ASKING = Properties(reply_to=REPLY_TO, correlation_id="7")
Q = QueueDeclare(queue="q")


def keys(*names: str) -> Field:
    return Field("array", [Field("longstr", name) for name in names])


def asked(session: Session) -> tuple[Channel, Channel, str]:
    """A channel with a reply consumer, another that has its request, and the name in that."""
    asker, server = session.channel(), session.channel()
    asker.ask(Q, TAKE)
    asker.publish("q", b"request", ASKING)
    asker.settled()
    server.send(BasicGet(queue="q", no_ack=True))
    content = server.read()
    assert content.properties is not None
    assert content.properties.reply_to is not None
    return asker, server, content.properties.reply_to


def a_request_and_its_reply(session: Session) -> None:
    asker, server, name = asked(session)
    server.publish(name, b"reply", Properties(correlation_id="7", headers={"x": keys("y")}))
    asker.read()
    server.confirm_select()
    server.publish(name, b"refused", exchange="amq.direct", mandatory=True)
    server.read()
    server.confirms(1)
    asker.ask(BasicCancel("r"))
    server.publish(name, b"late")
    server.confirms(1)
    asker.settled()


def several_replies(session: Session) -> None:
    asker, server, name = asked(session)
    server.publish(name, b"one")
    server.publish(name, b"two")
    asker.read(2)


def a_mandatory_reply(session: Session) -> None:
    asker, server, name = asked(session)
    server.confirm_select()
    server.publish(name, b"reply", mandatory=True)
    server.read()
    server.confirms(1)
    asker.read()


def the_pseudo_queue(session: Session) -> None:
    _, server, name = asked(session)
    for queue in (REPLY_TO, name, REPLY_TO + ".gone", REPLY_TO + "x"):
        server.ask(QueueDeclare(queue=queue), QueueDeclare(queue=queue, passive=True))
        server.ask(QueueBind(queue=queue, exchange="amq.direct", routing_key="k"))
        server.ask(QueueDelete(queue=queue), QueuePurge(queue=queue), BasicGet(queue=queue))
    server.ask(BasicConsume(queue=name, no_ack=True), BasicConsume(queue=REPLY_TO + "x"))
    server.ask(QueueDeclare(queue=REPLY_TO), QueuePurge())


def mistakes_of_who_asks(session: Session) -> None:
    channel = session.channel()
    channel.ask(Q)
    channel.publish("q", b"", ASKING)
    channel.read()
    channel.ask(BasicConsume(queue=REPLY_TO))
    channel.ask(TAKE, BasicConsume(queue=REPLY_TO, consumer_tag="s", no_ack=True))
    channel.ask(TAKE, BasicConsume(queue=REPLY_TO, consumer_tag="s"))
    channel.ask(TAKE, BasicCancel("r"))
    channel.publish("q", b"", ASKING)
    channel.read()
    channel.publish("nowhere", b"", Properties(reply_to=REPLY_TO + ".x"), mandatory=True)
    channel.read()
    channel.ask(BasicConsume(queue="q", consumer_tag="r"), TAKE)


def drain(channel: Channel, *queues: str) -> None:
    for queue in queues:
        while not isinstance(channel.ask(BasicGet(queue=queue, no_ack=True)), BasicGetEmpty):
            pass


def copies(session: Session) -> None:
    channel = session.channel()
    channel.ask(*(QueueDeclare(queue=queue) for queue in "abc"))
    channel.ask(QueueBind(queue="b", exchange="amq.topic", routing_key="one.*"))
    channel.ask(QueueBind(queue="c", exchange="amq.fanout"))
    channel.confirm_select()
    mixed = Field("array", [Field("long", 1), Field("longstr", "c"), Field("void", None)])
    for headers in (
        {"CC": keys("b", "a"), "BCC": keys("c", "nowhere"), "x": Field("long", 7)},
        {"BCC": keys("b")},
        {"BCC": keys()},
        {"CC": mixed},
        {"CC": keys("one.1", "one.2")},
        {"cc": keys("b")},
    ):
        properties = Properties(headers=headers, message_id="m")
        channel.publish("a", b"default", properties, mandatory=True)
        channel.publish("k", b"topic", properties, exchange="amq.topic")
        channel.publish("k", b"fanout", properties, exchange="amq.fanout")
        channel.confirms(3)
        drain(channel, "a", "b", "c")


def copies_by_headers_and_alternates(session: Session) -> None:
    channel = session.channel()
    channel.ask(*(QueueDeclare(queue=queue) for queue in "abc"))
    spare = {"alternate-exchange": Field("longstr", "spare")}
    channel.ask(
        ExchangeDeclare(exchange="spare", type="fanout"),
        ExchangeDeclare(exchange="first", type="direct", arguments=spare),
        QueueBind(queue="c", exchange="spare"),
        QueueBind(queue="a", exchange="first", routing_key="a"),
        QueueBind(queue="b", exchange="amq.headers", arguments={"x": Field("long", 7)}),
        ExchangeBind(destination="first", source="amq.fanout"),
    )
    channel.confirm_select()
    for headers in ({"CC": keys("a")}, {"BCC": keys("z"), "x": Field("long", 7)}, {}):
        properties = Properties(headers=headers)
        for exchange in ("first", "amq.headers", "amq.fanout"):
            channel.publish("k", exchange.encode(), properties, exchange=exchange)
        channel.confirms(3)
        drain(channel, "a", "b", "c")
    # A binding on the header that is taken out.
    method = QueueBind(queue="a", exchange="amq.headers", arguments={"BCC": keys("z")})
    channel.ask(method)
    channel.publish("k", b"", Properties(headers={"BCC": keys("z")}), exchange="amq.headers")
    channel.confirms(1)
    drain(channel, "a")


def copies_that_go_nowhere(session: Session) -> None:
    channel = session.channel()
    properties = Properties(headers={"CC": keys("one"), "BCC": keys("two")})
    channel.publish("nowhere", b"lost", properties, mandatory=True)
    channel.read()


def copies_that_are_no_array(session: Session) -> None:
    channel = session.channel()
    for field in (
        Field("longstr", "a"),
        Field("signedint", 1),
        Field("table", {}),
        Field("void", None),
    ):
        for name in ("CC", "BCC"):
            channel.publish("a", b"", Properties(headers={name: field}))
            channel.read()


def several_mistakes_in_one_publish(session: Session) -> None:
    channel = session.channel()
    headers = {"CC": Field("bool", True), "BCC": Field("long", 1)}
    everything = Properties(headers=headers, user_id="other", expiration="x", reply_to=REPLY_TO)
    for properties in (
        everything,
        everything._replace(user_id=None),
        everything._replace(user_id=None, reply_to=None),
        everything._replace(user_id=None, reply_to=None, expiration=None),
        everything._replace(reply_to=None),
    ):
        channel.publish("a", b"", properties)
        channel.read()


test_a_request_and_its_reply = compared(a_request_and_its_reply)
test_several_replies = compared(several_replies)
test_a_mandatory_reply = compared(a_mandatory_reply)
test_the_pseudo_queue = compared(the_pseudo_queue)
test_mistakes_of_who_asks = compared(mistakes_of_who_asks)
test_copies = compared(copies)
test_copies_by_headers_and_alternates = compared(copies_by_headers_and_alternates)
test_copies_that_go_nowhere = compared(copies_that_go_nowhere)
test_copies_that_are_no_array = compared(copies_that_are_no_array)
test_several_mistakes_in_one_publish = compared(several_mistakes_in_one_publish)
