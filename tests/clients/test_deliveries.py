"""In-flight time-outs, touch, delays and delivery limits, as others' clients use them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

import leveret
import pika
import pytest
from driven_consumers import ForeignConsumer, Got, aio_pika_consumer, c_consumer, pika_consumer
from held_clock import HeldClock
from insides import deferred_count, in_flight_count, wait_until
from pika.adapters.blocking_connection import BlockingChannel

TIMEOUT_MS, DELAY_MS, ASKED_MS = 1_000, 500, 7_000
ARGUMENTS = {
    "x-in-flight-timeout": TIMEOUT_MS,
    "x-requeue-delay": DELAY_MS,
    "x-delivery-limit": 3,
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "dead",
}

Open = Callable[[str, int, str], AbstractContextManager[ForeignConsumer]]


@pytest.fixture(params=["pika", "aio_pika", "c"])
def open_consumer(request: pytest.FixtureRequest) -> Open:
    """Connects a client of each kind with a consumer."""
    if request.param == "pika":
        return pika_consumer
    if request.param == "aio_pika":
        if importlib.util.find_spec("aio_pika") is None:
            pytest.skip("aio-pika is not installed: pip install 'aio-pika>=9.4' to run this")
        return aio_pika_consumer
    program: Path = request.getfixturevalue("compiled")("delivered")
    return lambda _host, port, queue: c_consumer(program, port, queue)


@pytest.fixture
def channel(broker: leveret.Broker) -> Iterator[BlockingChannel]:
    """Declares, publishes, and looks at dead letters."""
    parameters = pika.ConnectionParameters(broker.host, broker.port, heartbeat=0)
    with pika.BlockingConnection(parameters) as connection:
        opened = connection.channel()
        opened.confirm_delivery()
        yield opened


def test_a_message_is_touched_times_out_is_given_back_and_leaves_over_its_limit(
    broker: leveret.Broker, channel: BlockingChannel, open_consumer: Open
) -> None:
    clock = HeldClock(broker)

    def advance(milliseconds: int) -> None:
        clock.advance(milliseconds / 1000)

    in_flight = partial(in_flight_count, broker, "q")
    deferred = partial(deferred_count, broker, "q")
    channel.queue_declare("q", arguments=ARGUMENTS)
    channel.queue_declare("dead")
    channel.basic_publish("", "q", b"work")
    with ExitStack() as stack:
        consumer = stack.enter_context(open_consumer(broker.host, broker.port, "q"))
        assert consumer.next() == Got(1, b"work", False, None)
        # Nearly over, and begun anew.
        advance(TIMEOUT_MS - 1)
        consumer.touch(1)
        advance(TIMEOUT_MS - 1)
        assert (in_flight(), deferred()) == (1, 0)
        # Its time is over: it is deferred.
        advance(1)
        wait_until(lambda: deferred() == 1)
        advance(DELAY_MS)
        assert consumer.next() == Got(2, b"work", True, 1)
        # A late answer has no effect.
        consumer.ack(1)
        consumer.nack(2)
        wait_until(lambda: deferred() == 1)
        # The second time for twice as long.
        advance(2 * DELAY_MS - 1)
        assert (in_flight(), deferred()) == (0, 1)
        advance(1)
        assert consumer.next() == Got(3, b"work", True, 2)
        # A delay of the client's own.
        consumer.requeue(3, ASKED_MS)
        wait_until(lambda: deferred() == 1)
        advance(ASKED_MS - 1)
        assert (in_flight(), deferred()) == (0, 1)
        advance(1)
        assert consumer.next() == Got(4, b"work", True, 3)
        # It came back three times; once more is too often.
        consumer.nack(4)
        wait_until(lambda: (in_flight(), deferred()) == (0, 0))
        wait_until(lambda: channel.queue_declare("dead", passive=True).method.message_count == 1)
    _, properties, body = channel.basic_get("dead", auto_ack=True)
    assert (properties.headers["x-death"][0]["reason"], body) == ("delivery_limit", b"work")
