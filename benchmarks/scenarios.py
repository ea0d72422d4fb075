"""The measured scenarios: one row per scenario, with the ratio to RabbitMQ that is promised.

"Durable" is a persistent message to a durable classic queue. Unless a row says otherwise: confirm
mode, a window of 2,000 unconfirmed publishes, one connection, one channel, one queue.

The rows of `DIFFERENT` have messages that differ as those of real programs do (messages.py), and
among them are many connections that wait for each confirm. In the rows of `IDENTICAL` every
message of a block is the same to the byte, with a body of 200 bytes: they show what one read, one
route and one batch cost, and a rate that no program's messages reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .messages import POOL_MESSAGES

WINDOW = 2000
PREFETCH = 2000
ACK_EVERY = 100

# How the consumer answers: multiple acks, one ack per delivery, or a publish and an ack for each.
Consuming = Literal["none", "multiple", "single", "republish"]


@dataclass(frozen=True)
class Scenario:
    """One row of the table; `*_ratio_*` are what Leveret over RabbitMQ must reach.

    A row without any is there to be read: how a rate depends on messages being alike, for example.
    """

    name: str
    title: str
    different: bool = False  # messages as in messages.py; else a block of messages that are alike
    pool_messages: int = POOL_MESSAGES  # so many messages that differ are sent in turn
    publishers: int = 0  # so many connections, each with `window` unconfirmed
    workers: int = 0  # so many connections that consume, each with `prefetch`
    prefetch: int = PREFETCH
    rate_ratio_min: float | None = None
    p50_ratio_max: float | None = None
    p99_ratio_max: float | None = None
    body_bytes: int = 200
    body_bytes_spread: int = 0  # bodies are that much smaller or larger, message by message
    window: int = WINDOW
    block: int = 50  # publishes encoded once and sent together
    delivery_modes: tuple[int, ...] = (2,)  # in turn, message by message
    queues: int = 1  # routing keys of the default exchange, in turn
    durable_queues: bool = True
    mandatory: bool = False  # to a routing key without a queue
    fanout: bool = False  # through a fanout exchange to all the queues
    connections: int = 1  # each with its own queue
    channels: int = 1  # publishing in turn on one connection
    consuming: Consuming = "none"
    consumer_channel: int = 1
    consumer_frame_bytes_max: int | None = None  # then the consumer has a connection of its own


def _publishers(connections: int, window: int, *, is_transient: bool = False) -> Scenario:
    suffix, kind = ("-transient", "transient") if is_transient else ("", "durable")
    return Scenario(
        f"real-{connections}x{window}{suffix}",
        f"{connections:,} connections, {window} unconfirmed each, {kind}",
        different=True,
        publishers=connections,
        window=window,
        delivery_modes=(1,) if is_transient else (2,),
    )


def _workers(connections: int, prefetch: int) -> Scenario:
    return Scenario(
        f"workers-{connections}x{prefetch}",
        f"one queue consumed by {connections} connections, prefetch {prefetch}, each acked, "
        "durable",
        different=True,
        workers=connections,
        prefetch=prefetch,
    )


DIFFERENT = (
    Scenario("real", "durable confirmed", different=True),
    Scenario("real-transient", "transient confirmed", different=True, delivery_modes=(1,)),
    Scenario("real-keys", "ten routing keys, durable", different=True, queues=10),
    Scenario(
        "real-consume",
        f"durable publish and consume (prefetch {PREFETCH:,}, each acked)",
        different=True,
        consuming="single",
    ),
    Scenario("real-unroutable", "mandatory unroutable", different=True, queues=0, mandatory=True),
    _publishers(20, 1),
    _publishers(200, 1),
    _publishers(200, 8),
    _publishers(1000, 1),
    _publishers(200, 1, is_transient=True),
    _workers(20, 1),
    _workers(200, 1),
    _workers(200, 10),
)

IDENTICAL = (
    Scenario("durable", "durable confirmed", rate_ratio_min=12, p99_ratio_max=0.333),
    Scenario("transient", "transient confirmed", rate_ratio_min=10, delivery_modes=(1,)),
    Scenario("unroutable", "mandatory unroutable", rate_ratio_min=2.5, queues=0, mandatory=True),
    Scenario(
        "consume",
        f"durable publish and consume (prefetch {PREFETCH:,}, ack every {ACK_EVERY})",
        rate_ratio_min=8,
        consuming="multiple",
    ),
    Scenario("keys", "ten routing keys mixed, durable", rate_ratio_min=6, queues=10),
    Scenario("large", "8 KB durable", rate_ratio_min=2.5, body_bytes=8192, block=10),
    Scenario(
        "connections", "four connections on four queues, durable", rate_ratio_min=5, connections=4
    ),
    Scenario(
        "crossing",
        "publish on channel 1, consume on channel 7, durable",
        rate_ratio_min=3,
        consuming="multiple",
        consumer_channel=7,
    ),
    Scenario("single-acks", "durable, one ack per delivery", rate_ratio_min=3, consuming="single"),
    Scenario(
        "republish",
        "consume, republish and ack on one channel, durable",
        rate_ratio_min=3,
        consuming="republish",
    ),
    Scenario("channels", "ten channels taking turns, durable", rate_ratio_min=3, channels=10),
    Scenario("fanout", "fan-out to 5 durable queues", rate_ratio_min=3, queues=5, fanout=True),
    Scenario("mixed", "durable and transient mixed", rate_ratio_min=3, delivery_modes=(2, 1)),
    Scenario(
        "small-frames",
        "8 KB to a consumer with frame_max 4096, durable",
        rate_ratio_min=3,
        body_bytes=8192,
        block=10,
        consuming="multiple",
        consumer_frame_bytes_max=4096,
    ),
    Scenario(
        "small-frames-transient",
        "8 KB to a consumer with frame_max 4096, transient",
        rate_ratio_min=3,
        body_bytes=8192,
        block=10,
        delivery_modes=(1,),
        consuming="multiple",
        consumer_frame_bytes_max=4096,
    ),
    Scenario("assorted", "durable, bodies of 100 to 300 bytes", body_bytes_spread=100),
    Scenario("window-1", "one at a time, durable", p50_ratio_max=1.15, window=1, block=1),
    Scenario(
        "window-1-transient",
        "one at a time, transient",
        p50_ratio_max=1.15,
        window=1,
        block=1,
        delivery_modes=(1,),
    ),
)


SCENARIOS = (*DIFFERENT, *IDENTICAL)


def scenario_named(name: str) -> Scenario:
    """Give the scenario with this name."""
    for scenario in SCENARIOS:
        if scenario.name == name:
            return scenario
    raise KeyError(name)
