from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pika
import pika.frame
import pytest
from leveret.broker import Broker

from benchmarks.client import Client
from benchmarks.generator import pool_of, run
from benchmarks.load import Load, LoadedConnection, Publisher
from benchmarks.measuring import BrokerCpu
from benchmarks.scenarios import SCENARIOS, Scenario, scenario_named


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with Broker(data_dir=tmp_path_factory.mktemp("data"), port=0, log_level="error") as broker:
        yield broker.port


def few(scenario: Scenario) -> Scenario:
    """The same, with fewer connections and messages."""
    publishers, workers = min(scenario.publishers, 12), min(scenario.workers, 12)
    return replace(scenario, publishers=publishers, workers=workers, pool_messages=1_000)


@pytest.mark.parametrize(
    "scenario", [few(each) for each in SCENARIOS], ids=lambda scenario: scenario.name
)
def test_every_publish_of_every_scenario_is_confirmed(port: int, scenario: Scenario) -> None:
    cpu = BrokerCpu(os.getpid())
    figures = run(partial(Client, port), scenario, seconds=0.15, warmup_seconds=0.1, broker=cpu)
    # How many of them fall into the measured time is up to the machine.
    assert figures["messages"] > 0
    assert figures["rate"] >= 0
    assert not figures["p50_ms"] > figures["p99_ms"]


def test_each_message_of_the_pool_is_consumed_as_it_was_published(port: int) -> None:
    """Each message of the pool arrives as it was encoded, once."""
    sent = pool_of(replace(scenario_named("real"), pool_messages=300), ["bodies"])
    parameters = pika.ConnectionParameters("127.0.0.1", port)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("bodies")
        publisher = Client(port)
        publisher.open_channel(1, confirm=True)
        load = Load(
            [LoadedConnection(publisher.socket, Publisher([b"".join(sent)], 300, [1], 300), None)]
        )
        load.run(0)
        load.drain()
        received = [channel.basic_get("bodies", auto_ack=True) for _ in sent]
        assert channel.basic_get("bodies") == (None, None, None)
        publisher.abandon()
    for message, (method, properties, body) in zip(sent, received, strict=True):
        assert method is not None
        header = pika.frame.Header(1, len(body), properties).marshal()
        assert message.endswith(header + pika.frame.Body(1, body).marshal())
