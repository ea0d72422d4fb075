"""Where messages go: by headers, from exchange to exchange, to alternates."""

from __future__ import annotations

from both_brokers import compared
from leveret.amqp_frames.methods import (
    BasicGet,
    BasicGetEmpty,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDeclare,
    QueueUnbind,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field, Table
from scripted_session import Channel, Session


def number(value: int, kind: str = "signedint") -> Field:
    return Field(kind, value)


def text(value: str) -> Field:
    return Field("longstr", value)


def fanout(name: str, **how: object) -> ExchangeDeclare:
    return ExchangeDeclare(exchange=name, type="fanout", **how)  # type: ignore[arg-type]


def alternate(name: str) -> Table:
    return {"alternate-exchange": text(name)}


def queue_bind(queue: str, exchange: str, key: str = "", **arguments: Field) -> QueueBind:
    return QueueBind(queue=queue, exchange=exchange, routing_key=key, arguments=arguments)


def drain(channel: Channel, *queues: str) -> None:
    """Write down what is in each of these, to the end."""
    for queue in queues:
        while not isinstance(channel.ask(BasicGet(queue=queue, no_ack=True)), BasicGetEmpty):
            pass


def publish_with(channel: Channel, exchange: str, headers: Table, body: bytes) -> None:
    """Mandatory, so that it is written down if it goes nowhere."""
    properties = Properties(headers=headers)
    channel.publish("k", body, properties, exchange=exchange, mandatory=True)


Q = QueueDeclare(queue="q")
X, Y = fanout("x"), fanout("y")
VALUES: dict[str, Field] = {
    "one": number(1),
    "long one": number(1, "long"),
    "byte one": number(1, "byte"),
    "two": number(2),
    "zero": number(0),
    "time one": number(1, "timestamp"),
    "double one": Field("double", 1.0),
    "double half": Field("double", 0.5),
    "float half": Field("float", 0.5),
    "minus zero": Field("double", -0.0),
    "true": Field("bool", True),
    "false": Field("bool", False),
    "void": Field("void", None),
    "empty": text(""),
    "text one": text("1"),
    "binary one": Field("binary", b"1"),
    "octets": Field("longstr", b"\xff"),
    "decimal one": Field("decimal", (0, 1)),
    "decimal ten tenths": Field("decimal", (1, 10)),
    "no array": Field("array", []),
    "array": Field("array", [number(1)]),
    "array of a long": Field("array", [number(1, "long")]),
    "array of a double": Field("array", [Field("double", 1.0)]),
    "no table": Field("table", {}),
    "table": Field("table", {"a": number(1), "b": number(2)}),
    "table in another order": Field("table", {"b": number(2), "a": number(1)}),
}


@compared
def test_which_values_are_the_same(session: Session) -> None:
    channel = session.channel()
    channel.ask(ExchangeDeclare(exchange="x", type="headers"))
    for name, value in VALUES.items():
        channel.ask(QueueDeclare(queue=name), queue_bind(name, "x", v=value))
    for name, value in VALUES.items():
        publish_with(channel, "x", {"v": value}, name.encode())
    publish_with(channel, "x", {"w": number(1)}, b"another header")
    channel.settled()
    drain(channel, *VALUES)


PATTERNS: dict[str, Table] = {
    f"{how} {name}": arguments | ({"x-match": text(how)} if how else {})
    for how in ("", "all", "any", "all-with-x", "any-with-x")
    for name, arguments in {
        "nothing": {},
        "a": {"a": number(1)},
        "a and b": {"a": number(1), "b": text("2")},
        "a and x-a": {"a": number(1), "x-a": number(1)},
        "x-a": {"x-a": number(1)},
        "any a": {"a": Field("void", None)},
    }.items()
}
HEADERS: tuple[Table, ...] = (
    {},
    {"a": number(1)},
    {"a": number(2)},
    {"b": text("2")},
    {"a": number(1), "b": text("2")},
    {"b": text("2"), "a": number(1), "c": number(3)},
    {"x-a": number(1)},
    {"a": number(1), "x-a": number(1)},
    {"a": number(1), "x-a": number(2)},
    {"x-match": text("any"), "z": number(1)},
)


@compared
def test_which_patterns_match(session: Session) -> None:
    channel = session.channel()
    channel.ask(ExchangeDeclare(exchange="x", type="headers"))
    for name, arguments in PATTERNS.items():
        channel.ask(QueueDeclare(queue=name), QueueBind(0, name, "x", "", arguments=arguments))
    for place, headers in enumerate(HEADERS):
        publish_with(channel, "x", headers, b"%d" % place)
    properties = Properties()
    channel.publish("k", b"without headers", properties, exchange="x", mandatory=True)
    channel.settled()
    drain(channel, *PATTERNS)


@compared
def test_messages_go_from_exchange_to_exchange(session: Session) -> None:
    channel = session.channel()
    queues = ("q.direct", "q.topic", "q.fanout", "q.headers", "q.inside")
    channel.ask(*(QueueDeclare(queue=name) for name in queues))
    for kind in ("direct", "topic", "fanout", "headers"):
        channel.ask(ExchangeDeclare(exchange=kind, type=kind))
    channel.ask(
        fanout("inside", internal=True),
        queue_bind("q.direct", "direct", "k"),
        queue_bind("q.topic", "topic", "#"),
        queue_bind("q.fanout", "fanout"),
        queue_bind("q.headers", "headers", a=number(1)),
        queue_bind("q.inside", "inside"),
        ExchangeBind(0, "topic", "direct", "k"),
        ExchangeBind(0, "fanout", "topic", "k"),
        ExchangeBind(0, "fanout", "topic", "*"),
        ExchangeBind(0, "headers", "fanout"),
        ExchangeBind(0, "inside", "headers", arguments={"a": number(1)}),
        # Round again.
        ExchangeBind(0, "direct", "inside"),
    )
    channel.confirm_select()
    for exchange in ("direct", "topic", "fanout", "headers", "inside"):
        for headers in ({"a": number(1)}, {"a": number(2)}):
            publish_with(channel, exchange, headers, exchange.encode())
            channel.read(1 if exchange != "headers" or headers["a"].value == 1 else 2)
    drain(channel, *queues)


@compared
def test_what_goes_to_the_alternate_exchange(session: Session) -> None:
    channel = session.channel()
    queues = ("taken", "saved", "k")
    channel.ask(
        *(QueueDeclare(queue=name) for name in queues),
        ExchangeDeclare(exchange="first", arguments=alternate("second")),
        ExchangeDeclare(exchange="to default", arguments=alternate("")),
        ExchangeDeclare(exchange="round", arguments=alternate("round")),
        queue_bind("taken", "first", "right"),
    )
    channel.confirm_select()

    def publish(exchange: str, key: str, answers: int) -> None:
        body = f"{exchange} {key}".encode()
        channel.publish(key, body, exchange=exchange, mandatory=True)
        channel.read(answers)

    publish("first", "right", 1)
    publish("first", "no alternate yet", 2)
    publish("round", "k", 2)
    publish("to default", "k", 2)
    channel.ask(
        ExchangeDeclare(exchange="second", arguments=alternate("third")),
        fanout("third", internal=True, arguments=alternate("first")),
        queue_bind("saved", "third"),
    )
    publish("first", "wrong", 1)
    channel.ask(QueueUnbind(queue="saved", exchange="third"))
    publish("first", "nobody", 2)
    # To an exchange that nothing is bound to is somewhere, too.
    channel.ask(fanout("empty"), ExchangeBind(0, "empty", "first", "lost"))
    channel.ask(queue_bind("saved", "third"))
    publish("first", "lost", 2)
    channel.ask(ExchangeDelete(exchange="third"))
    publish("first", "wrong", 2)
    drain(channel, *queues)


@compared
def test_further_keys_and_alternates(session: Session) -> None:
    channel = session.channel()
    queues = ("one", "two", "saved")
    channel.ask(
        *(QueueDeclare(queue=name) for name in queues),
        ExchangeDeclare(exchange="x", arguments=alternate("amq.fanout")),
        queue_bind("one", "x", "1"),
        queue_bind("two", "x", "2"),
        queue_bind("saved", "amq.fanout"),
    )
    for keys in (["1"], ["1", "2", "1"], ["3"], ["2", "3"]):
        headers = {"CC": Field("array", [text(key) for key in keys])}
        channel.publish("none", ",".join(keys).encode(), Properties(headers=headers), exchange="x")
    channel.settled()
    drain(channel, *queues)


@compared
def test_bindings_go_with_their_exchanges(session: Session) -> None:
    channel = session.channel()
    channel.ask(
        Q,
        X,
        Y,
        ExchangeBind(0, "y", "x"),
        ExchangeBind(0, "x", "amq.fanout"),
        queue_bind("q", "y"),
    )
    channel.publish("", b"1", exchange="amq.fanout", mandatory=True)
    channel.settled()
    channel.ask(ExchangeDelete(exchange="x"), X)
    channel.publish("", b"2", exchange="amq.fanout", mandatory=True)
    channel.settled()
    channel.publish("", b"3", exchange="x", mandatory=True)
    channel.settled()
    channel.publish("", b"4", exchange="y", mandatory=True)
    channel.settled()
    drain(channel, "q")
