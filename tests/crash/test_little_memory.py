"""A broker whose control group has less memory than its queues hold: the kernel kills it never."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import frames_by_hand as wire
import pytest
from broker_process import BrokerProcess
from memory_groups import memory_group
from socket_client import SocketClient

from benchmarks.memory_cgroup import MIB, MemoryCgroup

Start = Callable[..., BrokerProcess]
LIMIT_BYTES = 128 * MIB
BODY_BYTES = 1000
# At once, and all together: more than the group has.
TOGETHER = 500
MESSAGES = 200_000


@pytest.fixture
def group() -> Iterator[MemoryCgroup]:
    with memory_group(LIMIT_BYTES) as made:
        yield made


def body(number: int) -> bytes:
    return (b"message-%08d" % number).ljust(BODY_BYTES, b"x")


def fill(broker: BrokerProcess, count: int) -> None:
    client = SocketClient(broker.port)
    client.open_channel(confirm=True)
    client.declare("queue")
    for first in range(0, count, TOGETHER):
        numbers = range(first, first + TOGETHER)
        client.send(b"".join(wire.publish(1, "", "queue", body(number)) for number in numbers))
        answered = first
        while answered < numbers.stop:
            tag, multiple = struct.unpack(">Q?", client.expect(wire.ACK))
            answered = tag if multiple else answered + 1
    client.close()


def drain(broker: BrokerProcess, count: int) -> None:
    """Take everything, in order, and ack it."""
    client = SocketClient(broker.port)
    client.open_channel()
    client.ask(wire.qos(1, TOGETHER), wire.QOS_OK)
    client.ask(wire.consume(1, "queue", "reader"), wire.CONSUME_OK)
    for number in range(count):
        delivery = client.delivery()
        assert not isinstance(delivery, wire.Frame)
        assert delivery.body == body(number)
        if (number + 1) % (TOGETHER // 2) == 0:
            client.send(wire.ack(1, delivery.delivery_tag, multiple=True))
    client.close()


@pytest.mark.soak
def test_a_queue_larger_than_the_memory_is_filled_recovered_and_drained(
    group: MemoryCgroup, start_broker: Start
) -> None:
    assert MESSAGES * BODY_BYTES > 1.4 * LIMIT_BYTES
    broker = start_broker(*group.command).listening()
    fill(broker, MESSAGES)
    filled_bytes = group.resident_bytes
    broker.kill()
    again = start_broker(*group.command).listening()
    drain(again, MESSAGES)
    assert again.faults() == []
    assert again.stop() == 0
    assert group.kills == 0
    print(f"\n{MESSAGES} messages: {filled_bytes} bytes resident, limit {LIMIT_BYTES}")
