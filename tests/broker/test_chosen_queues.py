"""Consistent hash and random exchanges on a live node, also over a restart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import leveret
from dashed import dashed
from leveret.amqp_frames.methods import ExchangeDeclare, ExchangeDeclareOk, QueueBind, QueueBindOk
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from wire import PERSISTENT, Client, publish

MESSAGES = 60
QUEUES = "abc"


def declare(client: Client, type_name: str, **arguments: str) -> None:
    """Exchange x with three queues; all durable."""
    named = table_of(dashed(arguments))
    exchange = ExchangeDeclare(exchange="x", type=type_name, durable=True, arguments=named)
    assert client.ask(1, exchange) == ExchangeDeclareOk()
    for queue in QUEUES:
        client.declare(queue, durable=True)
        assert client.ask(1, QueueBind(0, queue, "x", "1")) == QueueBindOk()


def publish_all(client: Client, turn: int = 0, headers: bool = False) -> dict[bytes, str]:
    """Publish a message of each value, in confirm mode; the queue of each."""
    for number in range(MESSAGES):
        body = b"%d" % number
        properties = Properties(headers=table_of({"h": number})) if headers else PERSISTENT
        client.send(publish(f"k{number}", body, properties, exchange="x", mandatory=True))
    client.expect_acks(range(turn * MESSAGES + 1, (turn + 1) * MESSAGES + 1))
    found: dict[bytes, str] = {}
    for queue in QUEUES:
        while (got := client.get(queue, no_ack=True)) is not None:
            assert got.body not in found, "in two queues"
            found[got.body] = queue
    assert len(found) == MESSAGES
    return found


def test_values_stay_with_their_queues_over_a_restart(tmp_path: Path) -> None:
    found: list[dict[bytes, str]] = []
    for is_new in (True, False):
        with (
            leveret.Broker(data_dir=tmp_path, port=0, log_level="error") as broker,
            Client(broker.host, broker.port).log_in() as client,
        ):
            client.open_channel(1, confirms=True)
            if is_new:
                declare(client, "x-consistent-hash")
            found.append(publish_all(client))
    assert set(found[0].values()) == set(QUEUES)
    assert found[1] == found[0]


def test_a_header_decides(broker: leveret.Broker) -> None:
    with Client(broker.host, broker.port).log_in() as client:
        client.open_channel(1, confirms=True)
        declare(client, "x-consistent-hash", hash_header="h")
        found = publish_all(client, headers=True)
        assert publish_all(client, 1, headers=True) == found
        assert set(found.values()) == set(QUEUES)
        # Without the header they are together, though their keys differ.
        assert len(set(publish_all(client, 2).values())) == 1


def test_chance_decides_for_each_message(broker: leveret.Broker) -> None:
    with Client(broker.host, broker.port).log_in() as client:
        client.open_channel(1, confirms=True)
        declare(client, "x-random")
        counts = Counter(publish_all(client).values())
        # A queue is left out by chance once in ten thousand million turns.
        assert set(counts) == set(QUEUES), counts
