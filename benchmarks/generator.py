"""The load generator, a process of its own: one scenario against one broker, its figures as JSON.

    python -m benchmarks.generator --port 5672 --scenario real --seconds 2 --broker-pid 4711

It declares what the scenario needs, warms up, measures, waits until every publish is confirmed (so
that a confirm that is missing fails the run), and deletes what it declared. Its own share of a CPU
core is among the figures: the load must cost next to nothing.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
from functools import partial
from pathlib import Path

from benchmarks import many_publishers, many_workers, wire
from benchmarks.client import Client
from benchmarks.load import Consumer, Load, LoadedConnection, Publisher
from benchmarks.many_publishers import ManyPublishers, Messages
from benchmarks.many_workers import ManyWorkers
from benchmarks.measuring import AnyLoad, BrokerCpu, Figures, measured, one_at_a_time
from benchmarks.messages import pool
from benchmarks.scenarios import SCENARIOS, Scenario, scenario_named
from benchmarks.tag_frames import TagFrames
from benchmarks.tls import context_of
from benchmarks.topology import EXCHANGE, NO_QUEUE, Connect, declared

# What the workers' queue holds at least, so that no worker waits for a publish.
BACKLOG_MESSAGES = 2_000


def blocks_of(scenario: Scenario, queues: list[str]) -> list[bytes]:
    """Encode the blocks that are sent in turn: many that differ, or a single one."""
    if not scenario.different:
        return [block_of(scenario, queues)]
    messages = pool_of(scenario, queues)
    size = scenario.block
    return [b"".join(messages[at : at + size]) for at in range(0, len(messages), size)]


def pool_of(scenario: Scenario, queues: list[str]) -> list[bytes]:
    """Encode messages that differ, with the scenario's routing keys in turn."""
    [delivery_mode] = scenario.delivery_modes
    return pool(
        queues or [NO_QUEUE], delivery_mode, scenario.mandatory, count=scenario.pool_messages
    )


def block_of(scenario: Scenario, queues: list[str]) -> bytes:
    """Encode one block: channels, routing keys and delivery modes in turn, message by message."""
    spread = scenario.body_bytes_spread
    sizes = [
        scenario.body_bytes - spread + i * 37 % (2 * spread + 1) for i in range(scenario.block)
    ]
    exchange = EXCHANGE if scenario.fanout else ""
    keys = [""] if scenario.fanout else queues or [NO_QUEUE]
    modes = scenario.delivery_modes
    return b"".join(
        wire.publish(
            1 + i % scenario.channels,
            exchange,
            keys[i % len(keys)],
            wire.body_of(size),
            modes[i % len(modes)],
            scenario.mandatory,
        )
        for i, size in enumerate(sizes)
    )


def publisher_of(scenario: Scenario, queues: list[str]) -> Publisher:
    """Make the publisher of a connection."""
    channels = list(range(1, scenario.channels + 1))
    return Publisher(blocks_of(scenario, queues), scenario.block, channels, scenario.window)


def consumer_of(scenario: Scenario, queue: str) -> Consumer:
    """Make the consumer of a connection."""
    channel = scenario.consumer_channel
    ack = wire.ack(channel, 0)
    if scenario.consuming == "single":
        return Consumer(channel, TagFrames(ack, 11))
    if scenario.consuming == "republish":
        publish = wire.publish(channel, "", queue, wire.body_of(scenario.body_bytes))
        return Consumer(channel, TagFrames(publish + ack, len(publish) + 11))
    return Consumer(channel)


def connected(
    connect: Connect, scenario: Scenario, queues: list[str]
) -> tuple[AnyLoad, list[Client]]:
    """Open the connections of the scenario, each with its part of the queues."""
    clients = []
    connections = []
    for number in range(scenario.connections):
        client = connect()
        clients.append(client)
        for channel in range(1, scenario.channels + 1):
            client.open_channel(channel, confirm=True)
        part = queues[number * scenario.queues : (number + 1) * scenario.queues]
        publisher = publisher_of(scenario, part)
        consumer = None
        if scenario.consuming != "none" and scenario.consumer_frame_bytes_max is None:
            if scenario.consumer_channel > scenario.channels:
                client.open_channel(scenario.consumer_channel)
            consumer = consumer_of(scenario, part[0])
            client.consume(scenario.consumer_channel, part[0], scenario.prefetch)
        republishing = scenario.consuming == "republish"
        connections.append(LoadedConnection(client.socket, publisher, consumer, republishing))
    if scenario.consumer_frame_bytes_max is not None:
        client = connect(scenario.consumer_frame_bytes_max)
        clients.append(client)
        client.open_channel(scenario.consumer_channel)
        client.consume(scenario.consumer_channel, queues[0], scenario.prefetch)
        consumer = consumer_of(scenario, queues[0])
        connections.append(LoadedConnection(client.socket, None, consumer))
    return Load(connections), clients


def many_connected(
    connect: Connect, scenario: Scenario, queue: str
) -> tuple[AnyLoad, list[Client]]:
    """Open the many connections of the scenario, all for one queue."""
    clients = [connect() for _ in range(scenario.publishers or scenario.workers)]
    for client in clients:
        client.open_channel(1, confirm=scenario.publishers > 0)
    if scenario.publishers:
        messages = Messages(pool_of(scenario, [queue]))
        publishers = [
            many_publishers.Publisher(each, messages, scenario.window) for each in clients
        ]
        return ManyPublishers(publishers), clients
    for client in clients:
        client.consume(1, queue, scenario.prefetch)
    filling = connect()
    filling.open_channel(1, confirm=True)
    filler = LoadedConnection(filling.socket, publisher_of(scenario, [queue]), None)
    workers = [many_workers.Worker(client) for client in clients]
    return ManyWorkers(workers, filler, BACKLOG_MESSAGES), [*clients, filling]


def prefill(connect: Connect, queue: str, scenario: Scenario) -> None:
    """Put a window of messages into the queue, which then go round."""
    client = connect()
    client.open_channel(1, confirm=True)
    publisher = publisher_of(scenario, [queue])
    load = Load([LoadedConnection(client.socket, publisher, None)])
    load.run(0)
    load.drain()
    client.abandon()


def run(
    connect: Connect,
    scenario: Scenario,
    seconds: float,
    warmup_seconds: float,
    broker: BrokerCpu | None = None,
) -> Figures:
    """Run one scenario; a publish that is not confirmed (or not returned) is an error."""
    with declared(connect, scenario) as queues:
        if scenario.window == 1 and not scenario.publishers:
            client = connect()
            client.open_channel(1, confirm=True)
            block = block_of(scenario, queues)
            figures = one_at_a_time(client, block, seconds, warmup_seconds, broker)
            client.close()
        else:
            load, clients = prepared(connect, scenario, queues)
            figures = measured(load, seconds, warmup_seconds, broker)
            load.drain()
            if scenario.mandatory and load.messages_back != load.sent:
                raise ValueError(f"{load.sent} published, {load.messages_back} returned")
            figures["messages"] = load.confirmed
            for client in clients:
                client.abandon()
    rate = figures["confirmed_rate"]
    if scenario.workers:
        # As many are published as are delivered, but in steps of a block.
        rate = figures["back_rate"]
    elif scenario.consuming != "none":
        # Messages that go in and do not come out are no throughput.
        rate = min(rate, figures["back_rate"])
    broker_cpu_us = figures["broker_cpu_share"] / rate * 1e6 if rate else math.nan
    return {"rate": rate, "broker_cpu_us": broker_cpu_us, **figures}


def prepared(
    connect: Connect, scenario: Scenario, queues: list[str]
) -> tuple[AnyLoad, list[Client]]:
    """Open the connections of the scenario, few or many."""
    if scenario.publishers or scenario.workers:
        return many_connected(connect, scenario, queues[0])
    if scenario.consuming == "republish":
        prefill(connect, queues[0], scenario)
    return connected(connect, scenario, queues)


def main() -> None:
    """Parse the arguments, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tls-authority", type=Path, help="over TLS; the port is one for TLS")
    parser.add_argument("--broker-pid", type=int, help="whose CPU time is measured")
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument("--scenario", choices=names, required=True)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--warmup-seconds", type=float, default=0.5)
    arguments = parser.parse_args()
    gc.disable()
    scenario = scenario_named(arguments.scenario)
    context = arguments.tls_authority and context_of(arguments.tls_authority)
    connect = partial(Client, arguments.port, context=context)
    broker = BrokerCpu(arguments.broker_pid) if arguments.broker_pid else None
    figures = run(connect, scenario, arguments.seconds, arguments.warmup_seconds, broker)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
