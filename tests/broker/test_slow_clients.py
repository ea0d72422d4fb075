"""A client that does not read: it stops getting, the broker does not grow, others go on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import leveret
import psutil
import pytest
from insides import readers, reading_gate, transport_of, wait_until
from leveret.actors.connection.listener import READ_BYTES_MAX
from leveret.amqp_frames.methods import BasicAck, BasicDeliver, BasicGet, BasicGetOk, BasicReturn
from timeouts import TIMEOUT_SECONDS
from wire import Client, publish

Connect = Callable[..., Client]
WINDOW_BYTES = 65_536
BODY_BYTES = 50_000
MIB = 1 << 20


@pytest.fixture
def settings() -> dict[str, object]:
    return {
        "delivery_window_bytes_max": WINDOW_BYTES,
        "write_buffer_bytes_max": WINDOW_BYTES,
        "publish_window_bytes_max": WINDOW_BYTES,
    }


def body(number: int) -> bytes:
    return b"%08d" % number + bytes(BODY_BYTES - 8)


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_consumer_that_does_not_read_stops_getting_and_then_gets_all_in_order(
    client: Client, connect: Connect, broker: leveret.Broker, no_ack: bool
) -> None:
    slow = connect()
    slow.open_channel()
    client.declare("q")
    slow.consume("q", no_ack=no_ack)
    count = 600
    client.publish_all("q", *(body(number) for number in range(count)))
    transport = transport_of(readers(broker)[1])
    # What the kernel's buffers take is out; the rest stays in the queue.
    left = client.counts("q")[0]
    assert left > count // 2
    # A delivery may be as large as what one read brought, or as its one message, and the writer
    # hears that the buffer is full when the next is on its way.
    assert transport.get_write_buffer_size() < 2 * READ_BYTES_MAX + 4 * WINDOW_BYTES
    for number in range(count):
        slow.expect_delivery(BasicDeliver("c", number + 1, False, "", "q"), body(number))
    client.wait_for_counts("q", (0, 1))


def test_a_consumer_that_does_not_read_holds_up_no_other(client: Client, connect: Connect) -> None:
    slow, quick = connect(), connect()
    client.declare("q")
    for consumer in (slow, quick):
        consumer.open_channel()
        consumer.consume("q", no_ack=True)
    count = 600
    for number in range(count):
        client.send(publish("q", body(number)))
        client.expect(1, BasicAck(number + 1, False))
    # The slow one got its turn until it was full; all else was the quick one's.
    got = 0
    while client.counts("q")[0] or got < count // 2:
        quick.expect_type(1, BasicDeliver)
        quick.read_content(1)
        got += 1


def test_the_channels_of_a_connection_that_does_not_read_hold_up_no_publisher(
    client: Client, connect: Connect
) -> None:
    slow = connect()
    for channel in range(1, 11):
        slow.open_channel(channel)
        client.declare(f"q{channel}")
        slow.consume(f"q{channel}", channel=channel)
    for channel in range(1, 11):
        client.publish_all(f"q{channel}", *(body(number) for number in range(100)))
    client.declare("other")
    client.publish_all("other", b"")
    assert client.get("other") is not None


def test_a_client_that_does_not_read_what_it_asks_for_is_read_no_further(
    client: Client, connect: Connect, broker: leveret.Broker
) -> None:
    slow = connect()
    slow.open_channel()
    client.declare("q")
    count = 600
    client.publish_all("q", *(body(number) for number in range(count)))
    slow.send_methods(1, *[BasicGet(queue="q", no_ack=True)] * count)
    gate = reading_gate(readers(broker)[1])
    wait_until(lambda: gate.is_write_blocked)
    for number in range(count):
        slow.expect_type(1, BasicGetOk)
        assert slow.read_content(1).body == body(number)


def test_a_publisher_that_does_not_read_its_returns_is_read_no_further(
    connect: Connect, broker: leveret.Broker
) -> None:
    client = connect()
    client.open_channel()
    client.socket.settimeout(0.3)
    wire = publish("nowhere", body(0), mandatory=True)
    sent_bytes = 0
    before = psutil.Process().memory_info().rss
    with suppress(TimeoutError):
        while sent_bytes < 100 * MIB:
            sent_bytes += client.socket.send(wire[sent_bytes % len(wire) :])
    assert sent_bytes < 100 * MIB, "the broker goes on reading"
    assert transport_of(readers(broker)[0]).get_write_buffer_size() < 4 * MIB
    assert psutil.Process().memory_info().rss - before < 50 * MIB
    client.socket.settimeout(TIMEOUT_SECONDS)
    for _ in range(sent_bytes // len(wire)):
        client.expect(1, BasicReturn(312, "NO_ROUTE", "", "nowhere"))
        assert client.read_content(1).body == body(0)


def test_a_client_that_does_not_read_and_goes_gives_everything_back(
    client: Client, connect: Connect
) -> None:
    slow = connect()
    slow.open_channel()
    client.declare("q")
    slow.consume("q")
    client.publish_all("q", *(body(number) for number in range(300)))
    slow.drop()
    client.wait_for_counts("q", (300, 0))
    got = client.get("q")
    assert got is not None
    assert (got.redelivered, got.body) == (True, body(0))
