"""Policies on a running broker: what they say holds at once, and for queues that come later.

Each key on a queue with messages: tests/differential/test_policies.py and test_policy_keys.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import leveret
import pytest
from held_clock import HeldClock
from insides import context_of, wait_until
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicNack,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    QueueBind,
    QueueBindOk,
)
from leveret.amqp_frames.values.field_table import table_of
from leveret.commands.control_client import ask_broker
from leveret.core.definitions import QueueDefinition
from wire import PERSISTENT, Client, publish


def change(broker: leveret.Broker, request: str, **arguments: object) -> None:
    ask_broker(broker.configuration.data_dir, request, {"vhost": "/"} | arguments)


def set_policy(broker: leveret.Broker, pattern: str, definition: object, **more: object) -> None:
    given = {"name": "p", "pattern": pattern, "definition": definition} | more
    change(broker, "policy set", **given)


def queue_named(broker: leveret.Broker, name: str) -> QueueDefinition:
    found = context_of(broker).vhosts["/"].table.find_queue(name)
    assert found is not None
    return found


def values(broker: leveret.Broker, queue: str) -> dict[str, object]:
    effective = queue_named(broker, queue).effective
    return {name: field.value for name, field in effective.items()}


def test_a_policy_holds_for_queues_that_are_there_and_that_come(broker: leveret.Broker) -> None:
    with Client(broker.host, broker.port).log_in() as client:
        client.open_channel(1)
        client.declare("orders", durable=True, arguments=table_of({"x-max-length": 9}))
        client.declare("other", durable=True)
        set_policy(broker, "^ord", {"max-length": 5, "consumer-timeout": 7000})
        client.declare("ordered", durable=True)
        expected = {"x-max-length": 5, "x-consumer-timeout": 7000}
        assert values(broker, "orders") == values(broker, "ordered") == expected
        assert queue_named(broker, "orders").consumer_timeout_ms == 7000
        assert values(broker, "other") == {}
        # An operator's limit on top, and a declaration as before.
        operators = {"pattern": "ered$", "definition": {"max-length": 3}}
        change(broker, "operator policy set", name="o", **operators)
        assert values(broker, "ordered")["x-max-length"] == 3
        assert values(broker, "orders")["x-max-length"] == 5
        client.declare("orders", durable=True, arguments=table_of({"x-max-length": 9}))
        change(broker, "policy clear", name="p")
        change(broker, "operator policy clear", name="o")
        assert values(broker, "ordered") == {}
        assert values(broker, "orders") == {"x-max-length": 9}
        assert queue_named(broker, "orders").consumer_timeout_ms is None


def test_what_a_policy_says_holds_at_once_for_messages_in_a_queue(broker: leveret.Broker) -> None:
    with Client(broker.host, broker.port).log_in() as client:
        client.open_channel(1, confirms=True)
        client.declare("orders", durable=True)
        client.publish_all("orders", *(b"%d" % number for number in range(9)))
        for length, left in ((5, 5), (3, 3), (7, 3)):
            set_policy(broker, "^ord", {"max-length": length})
            assert client.counts("orders") == (left, 0)
        set_policy(broker, "^ord", {"max-length": 3, "overflow": "reject-publish"})
        client.send(publish("orders", b"rejected"))
        assert isinstance(client.read_method(1), BasicNack)
        change(broker, "policy clear", name="p")
        client.send(publish("orders", b"enters"))
        assert isinstance(client.read_method(1), BasicAck)
        bodies = [client.get("orders", no_ack=True) for _ in range(4)]
        assert [got and got.body for got in bodies] == [b"6", b"7", b"8", b"enters"]


def test_policies_are_there_after_a_restart(tmp_path: Path) -> None:
    with leveret.Broker(data_dir=tmp_path, port=0, log_level="error") as broker:
        with Client(broker.host, broker.port).log_in() as client:
            client.open_channel(1)
            client.declare("orders", durable=True)
        set_policy(broker, "^ord", {"max-length": 1})
    with leveret.Broker(data_dir=tmp_path, port=0, log_level="error") as broker:
        assert values(broker, "orders") == {"x-max-length": 1}
        with Client(broker.host, broker.port).log_in() as client:
            client.open_channel(1, confirms=True)
            client.publish_all("orders", b"first", b"second", properties=PERSISTENT)
            assert client.declare("orders", durable=True).message_count == 1


def test_an_alternate_exchange_comes_and_goes(broker: leveret.Broker) -> None:
    with Client(broker.host, broker.port).log_in() as client:
        client.open_channel(1)
        client.declare("unrouted")
        for name in ("news", "unrouted"):
            declare = ExchangeDeclare(exchange=name, type="fanout")
            assert client.ask(1, declare) == ExchangeDeclareOk()
        bind = QueueBind(queue="unrouted", exchange="unrouted")
        assert client.ask(1, bind) == QueueBindOk()

        def arrived(body: bytes) -> bool:
            client.send(publish("k", body, exchange="news"))
            got = client.get("unrouted", no_ack=True)
            return got is not None and got.body == body

        assert not arrived(b"before")
        definition = {"alternate-exchange": "unrouted"}
        set_policy(broker, "^(news|more)$", definition, **{"apply-to": "exchanges"})
        assert arrived(b"with")
        assert client.ask(1, ExchangeDelete(exchange="news")) == ExchangeDeleteOk()
        declare = ExchangeDeclare(exchange="news", type="fanout")
        assert client.ask(1, declare) == ExchangeDeclareOk()
        assert arrived(b"to a new one")
        change(broker, "policy clear", name="p")
        assert not arrived(b"after")


def test_expires_comes_and_goes(broker: leveret.Broker) -> None:
    clock = HeldClock(broker)
    with Client(broker.host, broker.port).log_in() as client:
        client.open_channel(1)
        client.declare("short")
        client.declare("spared")
        set_policy(broker, "^s", {"expires": 1000})
        set_policy(broker, "^spared$", {"max-length": 1}, name="q", priority=1)
        table = context_of(broker).vhosts["/"].table
        clock.advance(1.5)
        wait_until(lambda: table.find_queue("short") is None)
        clock.advance(1.5)
        assert table.find_queue("spared") is not None


def test_what_cannot_be_is_refused_in_words(broker: leveret.Broker) -> None:
    with pytest.raises(Exception, match=re.escape("-1 is not a valid maximum length")):
        set_policy(broker, "^s", {"max-length": -1})
    with pytest.raises(Exception, match="there is no parameter 'p'"):
        change(broker, "policy clear", name="p")


def test_a_vhost_s_default_queue_type_is_that_of_new_durable_queues(
    broker: leveret.Broker,
) -> None:
    with Client(broker.host, broker.port).log_in() as client:
        client.open_channel(1)
        client.declare("before", durable=True)
        change(broker, "vhost change", default_queue_type="quorum")
        client.declare("before", durable=True)
        client.declare("after", durable=True)
        client.declare("after", durable=True, arguments=table_of({"x-queue-type": "quorum"}))
        client.declare("asked", durable=True, arguments=table_of({"x-queue-type": "classic"}))
        client.declare("transient")
        client.declare("", exclusive=True)
    kinds = {name: queue_named(broker, name).is_quorum for name in ("before", "after", "asked")}
    assert kinds == {"before": False, "after": True, "asked": False}
