"""The load generator, a process of its own: one scenario against one broker, its figures as JSON.

    python -m benchmarks.generator --port 5672 --scenario durable --seconds 2

It declares what the scenario needs, warms up, measures, waits until every publish is confirmed (so
that a confirm that is missing fails the run), and deletes what it declared. Its own share of a CPU
core is among the figures: the load must cost next to nothing.
"""

from __future__ import annotations

import argparse
import gc
import json
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from . import wire
from .client import Client
from .load import Consumer, Load, LoadedConnection, Publisher
from .scenarios import PREFETCH, SCENARIOS, Scenario, scenario_named
from .tag_frames import TagFrames
from .tls import context_of

QUEUE_PREFIX = "leveret-bench"
EXCHANGE = "leveret-bench-fanout"
NO_QUEUE = "leveret-bench-no-queue"
Figures = dict[str, float]
# Opens a connection, with a frame_max if there is one.
Connect = Callable[..., Client]


def queues_of(scenario: Scenario) -> list[str]:
    """Give the names of the queues that the scenario needs."""
    return [f"{QUEUE_PREFIX}-{i}" for i in range(max(scenario.queues, 0) * scenario.connections)]


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
    return Publisher(block_of(scenario, queues), scenario.block, channels, scenario.window)


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


@contextmanager
def declared(connect: Connect, scenario: Scenario) -> Iterator[list[str]]:
    """Declare the queues (and the exchange) afresh, and delete them at the end."""
    client = connect()
    client.open_channel(1)
    queues = queues_of(scenario)

    def delete() -> None:
        for queue in queues:
            client.delete_queue(1, queue)
        client.delete_exchange(1, EXCHANGE)

    delete()
    for queue in queues:
        client.declare_queue(1, queue, scenario.durable_queues)
    if scenario.fanout:
        client.declare_fanout(1, EXCHANGE, queues)
    try:
        yield queues
    finally:
        delete()
        client.close()


def connected(connect: Connect, scenario: Scenario, queues: list[str]) -> tuple[Load, list[Client]]:
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
            client.consume(scenario.consumer_channel, part[0], PREFETCH)
        republishing = scenario.consuming == "republish"
        connections.append(LoadedConnection(client.socket, publisher, consumer, republishing))
    if scenario.consumer_frame_bytes_max is not None:
        client = connect(scenario.consumer_frame_bytes_max)
        clients.append(client)
        client.open_channel(scenario.consumer_channel)
        client.consume(scenario.consumer_channel, queues[0], PREFETCH)
        consumer = consumer_of(scenario, queues[0])
        connections.append(LoadedConnection(client.socket, None, consumer))
    return Load(connections), clients


def prefill(connect: Connect, queue: str, scenario: Scenario) -> None:
    """Put a window of messages into the queue, which then go round."""
    client = connect()
    client.open_channel(1, confirm=True)
    publisher = publisher_of(scenario, [queue])
    load = Load([LoadedConnection(client.socket, publisher, None)])
    load.run(0)
    load.drain()
    client.abandon()


def measured(load: Load, seconds: float, warmup_seconds: float) -> Figures:
    """Run the load; give rates, latencies and the share of a core it took."""
    load.run(warmup_seconds)
    publishers = [c.publisher for c in load.connections if c.publisher is not None]
    for publisher in publishers:
        publisher.latencies.clear()
    confirmed, back = load.confirmed, load.messages_back
    cpu, clock = time.process_time(), time.perf_counter()
    load.run(seconds)
    elapsed = time.perf_counter() - clock
    cpu = time.process_time() - cpu
    confirmed, back = load.confirmed - confirmed, load.messages_back - back
    latencies = sorted(sample for publisher in publishers for sample in publisher.latencies)
    return {
        "confirmed_rate": confirmed / elapsed,
        "back_rate": back / elapsed,
        **quantiles(latencies),
        "generator_cpu_share": cpu / elapsed,
    }


def quantiles(latencies_sorted: list[float]) -> Figures:
    """Give p50 and p99 of sorted seconds, in milliseconds."""
    if not latencies_sorted:
        return {"p50_ms": float("nan"), "p99_ms": float("nan")}
    last = len(latencies_sorted) - 1
    return {
        "p50_ms": latencies_sorted[round(last * 0.50)] * 1e3,
        "p99_ms": latencies_sorted[round(last * 0.99)] * 1e3,
    }


def one_at_a_time(client: Client, block: bytes, seconds: float, warmup_seconds: float) -> Figures:
    """Publish, wait for the confirm, publish again: on a blocking socket, for true latencies."""
    latencies: list[float] = []
    send, receive, clock = client.socket.sendall, client.socket.recv, time.perf_counter
    seq_no = 0
    begin = clock() + warmup_seconds
    cpu, started = time.process_time(), clock()
    while (sent := clock()) < begin + seconds:
        seq_no += 1
        send(block)
        confirm = receive(64)
        done = clock()
        while len(confirm) < 21:
            confirm += receive(64)
        if struct.unpack_from(">Q", confirm, 11)[0] != seq_no or confirm[9:11] != b"\x00P":
            raise ValueError(f"publish {seq_no} was answered with {confirm.hex()}")
        if sent >= begin:
            latencies.append(done - sent)
    cpu_share = (time.process_time() - cpu) / (clock() - started)
    rate = len(latencies) / seconds
    figures = quantiles(sorted(latencies))
    return {"confirmed_rate": rate, "back_rate": 0.0, **figures, "generator_cpu_share": cpu_share}


def run(connect: Connect, scenario: Scenario, seconds: float, warmup_seconds: float) -> Figures:
    """Run one scenario; a publish that is not confirmed (or not returned) is an error."""
    with declared(connect, scenario) as queues:
        if scenario.window == 1:
            client = connect()
            client.open_channel(1, confirm=True)
            figures = one_at_a_time(client, block_of(scenario, queues), seconds, warmup_seconds)
            client.close()
            return {"rate": figures["confirmed_rate"], **figures}
        if scenario.consuming == "republish":
            prefill(connect, queues[0], scenario)
        load, clients = connected(connect, scenario, queues)
        figures = measured(load, seconds, warmup_seconds)
        load.drain()
        if scenario.mandatory and load.messages_back != load.sent:
            raise ValueError(f"{load.sent} published, {load.messages_back} returned")
        for client in clients:
            client.abandon()
    rate = figures["confirmed_rate"]
    if scenario.consuming != "none":
        # What goes in and not out is not throughput.
        rate = min(rate, figures["back_rate"])
    return {"rate": rate, **figures}


def main() -> None:
    """Parse the arguments, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tls-authority", type=Path, help="over TLS; the port is one for TLS")
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument("--scenario", choices=names, required=True)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--warmup-seconds", type=float, default=0.5)
    arguments = parser.parse_args()
    gc.disable()
    scenario = scenario_named(arguments.scenario)
    context = arguments.tls_authority and context_of(arguments.tls_authority)
    connect = partial(Client, arguments.port, context=context)
    figures = run(connect, scenario, arguments.seconds, arguments.warmup_seconds)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
