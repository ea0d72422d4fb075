"""The firehose: what is copied to amq.rabbitmq.trace of a traced vhost, with all its headers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from both_brokers import BothBrokers
from command_socket import Command
from granted import TRACED_VHOST
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicGetOk,
    BasicNack,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    TxCommit,
    TxSelect,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field, FieldValue
from scripted_channel import Channel
from scripted_session import Session
from timeouts import TIMEOUT_SECONDS

CONNECTION = re.compile(r"127\.0\.0\.1:\d+ -> 127\.0\.0\.1:\d+")
NODE = re.compile(r"[\w-]+@[\w.-]+")
EVERY = Properties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers={
        "n": Field("signedint", 1),
        "l": Field("array", [Field("table", {"b": Field("bool", True)})]),
    },
    delivery_mode=2,
    priority=3,
    correlation_id="c",
    reply_to="r",
    expiration="60000",
    message_id="m",
    timestamp=1_700_000_000,
    type="t",
    user_id="guest",
    app_id="a",
    cluster_id="i",
)


def shown(name: str, field: Field) -> str:
    """A header; a name that is a broker's own by its form."""
    value: FieldValue = field.value
    if name == "connection" and CONNECTION.fullmatch(str(value)):
        value = "both ends"
    elif name == "node" and NODE.fullmatch(str(value)):
        value = "a node"
    elif name == "routed_queues":
        # The order means nothing.
        value = sorted(item.value for item in value)  # type: ignore[union-attr,type-var,arg-type]
    return f"{name}: {field.kind} {value!r}"


class Listener:
    """A queue that gets all copies, and writes them down."""

    def __init__(self, session: Session, pattern: str = "#") -> None:
        self._session = session
        self._channel = session.connect(vhost=TRACED_VHOST).channel(1)
        self._channel.ask(
            QueueDeclare(queue="copies", exclusive=True),
            QueueBind(0, "copies", "amq.rabbitmq.trace", pattern),
        )

    def record(self, count: int) -> None:
        """So many copies, and no more; copies of copies would be among them."""
        until = time.monotonic() + TIMEOUT_SECONDS
        while count and time.monotonic() < until:
            command = self._get()
            if command is not None:
                count -= 1
                self._write_down(command)
        assert not count, "copies are missing"
        self._session.record("copies", f"one more: {self._get() is not None}")

    def _get(self) -> Command | None:
        self._channel.send(BasicGet(queue="copies", no_ack=True))
        command = self._channel.connection.next_command(1)
        return command if isinstance(command.method, BasicGetOk) else None

    def _write_down(self, command: Command) -> None:
        method = command.method
        assert isinstance(method, BasicGetOk)
        self._session.record("copies", f"{method.exchange} {method.routing_key} {command.body!r}")
        assert command.properties._replace(headers=None) == Properties()
        for name, field in (command.properties.headers or {}).items():
            self._session.record("copies", f"  {shown(name, field)}")


def traced(session: Session) -> Channel:
    channel = session.connect(vhost=TRACED_VHOST).channel(1)
    channel.ask(QueueDeclare(queue="q", exclusive=True))
    return channel


def every_property(session: Session) -> None:
    channel, listener = traced(session), Listener(session)
    channel.publish("q", b"all", EVERY)
    channel.publish("q", b"", Properties())
    channel.publish("nowhere", b"lost", Properties(headers={}))
    channel.publish("late", b"2106", Properties(timestamp=4_102_444_800), exchange="amq.direct")
    listener.record(4)
    for _ in range(2):
        channel.ask(BasicGet(queue="q", no_ack=True))
    listener.record(2)


def several_queues_and_keys(session: Session) -> None:
    channel, listener = traced(session), Listener(session)
    channel.ask(
        QueueDeclare(queue="p", exclusive=True),
        QueueBind(0, "q", "amq.topic", "a.#"),
        QueueBind(0, "p", "amq.topic", "#.b"),
    )
    channel.publish("a.b", b"both", exchange="amq.topic")
    channel.publish("b", b"one", exchange="amq.topic")
    copies = {name: Field("array", [Field("longstr", key)]) for name, key in COPIES.items()}
    channel.publish("q", b"copied", Properties(headers=copies))
    listener.record(3)


COPIES = {"CC": "p", "BCC": "elsewhere"}


def deliveries_and_redeliveries(session: Session) -> None:
    channel, listener = traced(session), Listener(session, "deliver.#")
    copies = {"CC": Field("array", [Field("longstr", "other")])}
    channel.publish("q", b"1", Properties(headers=copies))
    channel.ask(BasicConsume(queue="q", consumer_tag="c"))
    channel.read()
    channel.send(BasicNack(1, False, True))
    channel.read()
    channel.send(BasicAck(2))
    channel.settled()
    channel.publish("q", b"2")
    channel.read()
    listener.record(3)


def dead_letters(session: Session) -> None:
    """Delivered, they are copied; published by the broker, they are not."""
    channel, listener = traced(session), Listener(session)
    letters = {
        "x-dead-letter-exchange": Field("longstr", ""),
        "x-dead-letter-routing-key": Field("longstr", "q"),
    }
    channel.ask(QueueDeclare(queue="dying", exclusive=True, arguments=letters))
    channel.publish("dying", b"1")
    channel.ask(BasicGet(queue="dying"))
    channel.send(BasicNack(1, False, False))
    listener.record(2)


def to_an_exchange_within_the_firehose(session: Session) -> None:
    """The firehose is an exchange like others, but for its publishers."""
    channel = traced(session)
    channel.ask(
        ExchangeDeclare(
            exchange="amq.rabbitmq.trace", type="topic", durable=True, internal=True, passive=True
        )
    )
    channel.publish("k", b"not allowed", exchange="amq.rabbitmq.trace")
    channel.read()


SCRIPTS: tuple[Callable[[Session], None], ...] = (
    every_property,
    several_queues_and_keys,
    deliveries_and_redeliveries,
    dead_letters,
    to_an_exchange_within_the_firehose,
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_copies(both: BothBrokers, script: Callable[[Session], None]) -> None:
    both.compare(f"firehose: {script.__name__}", script)


ASKED: dict[str, list[Method]] = {
    "firehose: declared as it is": [
        ExchangeDeclare(exchange="amq.rabbitmq.trace", type="topic", durable=True, internal=True)
    ],
    "firehose: declared otherwise": [
        ExchangeDeclare(exchange="amq.rabbitmq.trace", type="topic", durable=True)
    ],
}


@pytest.mark.parametrize("name", ASKED)
def test_the_exchange_of_the_firehose(both: BothBrokers, name: str) -> None:
    def script(session: Session) -> None:
        session.channel().ask(*ASKED[name])

    both.compare(name, script)


def in_a_transaction(session: Session) -> None:
    channel, listener = traced(session), Listener(session)
    channel.ask(TxSelect())
    channel.publish("q", b"1")
    channel.ask(TxCommit())
    listener.record(1)


def test_a_publish_in_a_transaction(both: BothBrokers) -> None:
    both.compare("firehose: in a transaction", in_a_transaction)
