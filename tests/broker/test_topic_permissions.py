"""Topic permissions: keys that may be published and bound with, as RabbitMQ 3.10 has them."""

from __future__ import annotations

from collections.abc import Iterator

import leveret
import pytest
from insides import context_of
from leveret.amqp_frames.methods import (
    ChannelClose,
    ChannelCloseOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueBindOk,
    QueueUnbind,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.commands.control_client import ask_broker
from leveret.core.users.access import Access
from wire import TRANSIENT, Client, publish


def allow(broker: leveret.Broker, exchange: str, write: str, read: str) -> None:
    permission = {"user": "guest", "vhost": "/", "exchange": exchange, "write": write, "read": read}
    ask_broker(broker.configuration.data_dir, "topic permissions set", permission)


@pytest.fixture
def client(broker: leveret.Broker) -> Iterator[Client]:
    """With topic exchanges "keys" and "free", a direct one "direct", and a queue "q"."""
    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(1)
        for name, kind in (("keys", "topic"), ("free", "topic"), ("direct", "direct")):
            declare = ExchangeDeclare(exchange=name, type=kind)
            assert client.ask(1, declare) == ExchangeDeclareOk()
        client.declare("q")
        yield client


def text_of(key: str, exchange: str = "keys") -> str:
    named = f"exchange '{exchange}' in vhost '/'"
    return f"ACCESS_REFUSED - access to topic '{key}' in {named} refused for user 'guest'"


def published(
    client: Client, key: str, exchange: str = "keys", properties: Properties = TRANSIENT
) -> bool:
    """Is it accepted? If it is refused the channel is opened anew."""
    client.send(publish(key, b"", properties, exchange=exchange))
    client.send_methods(1, ExchangeDeclare(exchange="keys", type="topic", passive=True))
    answer = client.read_method(1)
    if answer == ExchangeDeclareOk():
        return True
    assert answer == ChannelClose(403, text_of(key, exchange), 60, 40)
    client.send_methods(1, ChannelCloseOk())
    client.open_channel(1)
    return False


def refusal(client: Client, method: Method) -> str | None:
    answer = client.ask(1, method)
    if not isinstance(answer, ChannelClose):
        return None
    ids = method.class_id, method.method_id
    assert answer == ChannelClose(403, answer.reply_text, *ids)
    client.send_methods(1, ChannelCloseOk())
    client.open_channel(1)
    return answer.reply_text


def test_publishes(broker: leveret.Broker, client: Client) -> None:
    assert published(client, "x")
    allow(broker, "keys", "^{username}.{vhost}.a", "^b")
    assert published(client, "guest./.a")
    assert not published(client, "x")
    assert published(client, "x", "free")
    # Keys in CC are not looked at.
    headers = Properties(headers=table_of({"CC": ["x"]}))
    assert published(client, "guest./.a", properties=headers)
    # An empty pattern fits the empty key only.
    allow(broker, "keys", "", "")
    assert published(client, "")
    assert not published(client, "x")
    # Only topic exchanges have them.
    allow(broker, "direct", "^q$", "")
    assert published(client, "x", "direct")
    allow(broker, "amq.topic", "^a", "")
    assert not published(client, "z", "amq.topic")
    named = {"user": "guest", "vhost": "/"}
    ask_broker(broker.configuration.data_dir, "topic permissions clear", named)
    assert published(client, "z", "amq.topic")


def test_bindings(broker: leveret.Broker, client: Client) -> None:
    allow(broker, "keys", "", "^b")
    to_queue = QueueBind(queue="q", exchange="keys", routing_key="b.x")
    assert client.ask(1, to_queue) == QueueBindOk()
    to_exchange = ExchangeBind(destination="free", source="keys", routing_key="b")
    assert client.ask(1, to_exchange) == ExchangeBindOk()
    # As the destination it is written to, whatever the key.
    from_exchange = ExchangeBind(destination="keys", source="free", routing_key="x")
    assert client.ask(1, from_exchange) == ExchangeBindOk()
    for method in (
        QueueBind(queue="q", exchange="keys", routing_key="x"),
        QueueUnbind(queue="q", exchange="keys", routing_key="x"),
        ExchangeBind(destination="free", source="keys", routing_key="x"),
        ExchangeUnbind(destination="free", source="keys", routing_key="x"),
    ):
        assert refusal(client, method) == text_of("x")


def test_a_name_in_a_pattern_is_no_pattern(broker: leveret.Broker, client: Client) -> None:
    data = broker.configuration.data_dir
    password_hash = "scrypt$10$8$1$AAAAAAAAAAAAAAAAAAAAAA==$" + "A" * 43 + "="
    user = {"user": ".*", "password_hash": password_hash, "tags": []}
    ask_broker(data, "user add", user)
    context = context_of(broker)
    named = {"user": ".*", "vhost": "/", "exchange": "keys"}
    ask_broker(data, "topic permissions set", named | {"write": "^{username}$", "read": ""})
    access = Access(context.accounts, ".*", context.vhosts["/"])
    access.check_topic("write", "keys", ".*")
    with pytest.raises(Exception, match="access to topic 'x'"):
        access.check_topic("write", "keys", "x")
