"""Exchanges that lead on, over a restart: what is durable is there again, and nothing else."""

from __future__ import annotations

from pathlib import Path

import leveret
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicReturn,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    QueueBind,
    QueueBindOk,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Plain, table_of
from served import Served
from wire import Client, publish


def start(tmp_path: Path) -> leveret.Broker:
    return leveret.Broker(data_dir=tmp_path / "data", port=0, log_level="error")


def connected(broker: leveret.Broker | Served) -> Client:
    client = Client(broker.host, broker.port).log_in()
    client.open_channel(1, confirms=True)
    return client


def declare(client: Client, name: str, kind: str = "fanout", **how: object) -> None:
    method = ExchangeDeclare(exchange=name, type=kind, **how)  # type: ignore[arg-type]
    assert client.ask(1, method) == ExchangeDeclareOk()


def bind(client: Client, queue: str, exchange: str, **arguments: Plain) -> None:
    method = QueueBind(queue=queue, exchange=exchange, arguments=table_of(arguments))
    assert client.ask(1, method) == QueueBindOk()


def join(client: Client, destination: str, source: str, **arguments: Plain) -> None:
    method = ExchangeBind(0, destination, source, arguments=table_of(arguments))
    assert client.ask(1, method) == ExchangeBindOk()


def is_routed(client: Client, exchange: str, **headers: Plain) -> bool:
    properties = Properties(headers=table_of(headers))
    client.send(publish("k", properties=properties, exchange=exchange, mandatory=True))
    answer = client.read_method(1)
    if isinstance(answer, BasicReturn):
        client.read_content(1)
        assert isinstance(client.read_method(1), BasicAck)
        return False
    assert isinstance(answer, BasicAck)
    return True


def test_headers_alternates_and_bindings_between_exchanges_survive(tmp_path: Path) -> None:
    with start(tmp_path) as broker, connected(broker) as client:
        client.declare("q", durable=True)
        declare(client, "match", "headers", durable=True)
        bind(client, "q", "match", **{"x-match": "any-with-x", "x-n": 1, "flag": True})
        declare(client, "in", durable=True)
        join(client, "match", "in", a=1)
        # In a cycle, too.
        join(client, "in", "match", n=1)
        alternate = table_of({"alternate-exchange": "in"})
        declare(client, "spare", "direct", durable=True, arguments=alternate)
        declare(client, "transient")
        join(client, "match", "transient")
        join(client, "transient", "amq.fanout")
        assert is_routed(client, "transient", flag=True)
    # Twice: what was restored is also there to be restored again.
    for _ in range(2):
        with start(tmp_path) as broker, connected(broker) as client:
            for exchange in ("match", "in", "spare"):
                assert is_routed(client, exchange, flag=True)
                assert is_routed(client, exchange, **{"x-n": 1})
                assert not is_routed(client, exchange, flag=False)
            declare(client, "transient")
            assert not is_routed(client, "transient", flag=True)
            assert not is_routed(client, "amq.fanout", flag=True)
            # The same declarations are the same exchanges and bindings.
            declare(client, "spare", "direct", durable=True, arguments=alternate)
            join(client, "match", "in", a=1)


def test_answered_declarations_outlive_a_kill(tmp_path: Path) -> None:
    with Served(tmp_path) as served, connected(served) as client:
        client.declare("q", durable=True)
        alternate = table_of({"alternate-exchange": "in"})
        declare(client, "spare", "direct", durable=True, arguments=alternate)
        declare(client, "in", "headers", durable=True)
        declare(client, "gone", durable=True, auto_delete=True)
        bind(client, "q", "amq.fanout")
        join(client, "amq.fanout", "in", a=1)
        join(client, "amq.fanout", "gone")
        unbind = ExchangeUnbind(0, "amq.fanout", "gone")
        assert client.ask(1, unbind) == ExchangeUnbindOk()
        served.process.kill()
    with Served(tmp_path) as served, connected(served) as client:
        assert is_routed(client, "spare", a=1)
        assert not is_routed(client, "spare", a=2)
        # It may be declared as another one.
        declare(client, "gone", "topic")


def test_removed_bindings_and_deleted_exchanges_stay_so_after_a_restart(tmp_path: Path) -> None:
    with start(tmp_path) as broker, connected(broker) as client:
        client.declare("q", durable=True)
        for name in ("one", "two", "three"):
            declare(client, name, durable=True)
        # An auto-delete exchange goes with the exchange that it leads to.
        declare(client, "auto", durable=True, auto_delete=True)
        for name in ("one", "two", "three"):
            bind(client, "q", name)
            for arguments in ({}, {"n": 1}):
                join(client, name, "amq.fanout", **arguments)
        join(client, "three", "auto")
        join(client, "auto", "amq.direct", n=1)
        for arguments in ({}, {"n": 1}):
            unbind = ExchangeUnbind(0, "one", "amq.fanout", arguments=table_of(arguments))
            assert client.ask(1, unbind) == ExchangeUnbindOk()
        # Of two bindings only this one.
        unbind = ExchangeUnbind(0, "two", "amq.fanout", arguments=table_of({"n": 1}))
        assert client.ask(1, unbind) == ExchangeUnbindOk()
        assert client.ask(1, ExchangeDelete(exchange="three")) == ExchangeDeleteOk()
    with start(tmp_path) as broker, connected(broker) as client:
        for name in ("three", "auto"):
            declare(client, name, "topic", durable=False)
        assert is_routed(client, "amq.fanout")
        assert client.ask(1, ExchangeDelete(exchange="two")) == ExchangeDeleteOk()
        assert not is_routed(client, "amq.fanout")
        assert is_routed(client, "one")
