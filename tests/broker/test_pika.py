"""An unmodified pika, by each of its APIs: confirms, returns, consuming, a broker that stops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import leveret
import pika
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker, UnroutableError
from timeouts import TIMEOUT_SECONDS

PERSISTENT = pika.BasicProperties(delivery_mode=2, headers={"n": 1, "s": "text"})
COUNT = 50


def parameters(broker: leveret.Broker) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(broker.host, broker.port, heartbeat=round(TIMEOUT_SECONDS))


def test_blocking_connection_publishes_with_confirms_and_consumes(broker: leveret.Broker) -> None:
    with pika.BlockingConnection(parameters(broker)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        for number in range(COUNT):
            channel.basic_publish("", "q", b"%d" % number, PERSISTENT, mandatory=True)
        with pytest.raises(UnroutableError) as unroutable:
            channel.basic_publish("", "nowhere", b"lost", mandatory=True)
        [returned] = unroutable.value.messages
        assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
        assert returned.body == b"lost"
        channel.basic_qos(prefetch_count=7)
        bodies = []
        for method, properties, body in channel.consume("q", inactivity_timeout=TIMEOUT_SECONDS):
            assert method is not None
            assert properties.headers == {"n": 1, "s": "text"}
            bodies.append(body)
            channel.basic_ack(method.delivery_tag)
            if len(bodies) == COUNT:
                break
        assert channel.cancel() == 0
        assert bodies == [b"%d" % number for number in range(COUNT)]
        assert channel.queue_declare("q", passive=True).method.message_count == 0


def test_blocking_connection_gets_exceptions_with_the_broker_s_words(
    broker: leveret.Broker,
) -> None:
    with pika.BlockingConnection(parameters(broker)) as connection:
        with pytest.raises(ChannelClosedByBroker) as closed:
            connection.channel().queue_declare("q", passive=True)
        assert closed.value.reply_code == 404
        assert closed.value.reply_text == "NOT_FOUND - no queue 'q' in vhost '/'"
        # The connection goes on.
        assert connection.channel().queue_declare("q").method.message_count == 0


def test_blocking_connection_is_told_that_the_broker_stops(tmp_path: Path) -> None:
    with leveret.Broker(data_dir=tmp_path / "data", port=0, log_level="error") as broker:
        connection = pika.BlockingConnection(parameters(broker))
        stopping = threading.Thread(target=broker.stop)
        stopping.start()
        with pytest.raises(ConnectionClosedByBroker) as closed:
            connection.process_data_events(time_limit=TIMEOUT_SECONDS)
        assert closed.value.reply_code == 320
        stopping.join()


class Session:
    """Publishes COUNT messages and one that is unroutable, then consumes them, by callbacks."""

    def __init__(self, connection_class: Any, broker: leveret.Broker, **loop: Any) -> None:
        self.acks: list[tuple[int, bool]] = []
        self.returns: list[bytes] = []
        self.events: list[str] = []
        self.bodies: list[bytes] = []
        self.errors: list[object] = []
        self.on_done: Callable[[], None] = lambda: None
        self.connection = connection_class(
            parameters(broker),
            on_open_callback=self._on_open,
            on_open_error_callback=lambda _, error: self._failed(error),
            on_close_callback=lambda _, reason: self._closed(reason),
            **loop,
        )

    def _failed(self, error: object) -> None:
        self.errors.append(error)
        self.on_done()

    def _closed(self, reason: Any) -> None:
        if reason.reply_code != 200:
            self.errors.append(reason)
        self.on_done()

    def _on_open(self, connection: Any) -> None:
        self.channel = connection.channel(on_open_callback=self._on_channel)

    def _on_channel(self, channel: Any) -> None:
        channel.add_on_return_callback(self._on_return)
        channel.queue_declare(
            "q",
            durable=True,
            callback=lambda _: channel.confirm_delivery(
                self._on_confirm, callback=lambda _: self._publish()
            ),
        )

    def _publish(self) -> None:
        for number in range(COUNT):
            self.channel.basic_publish("", "q", b"%d" % number, PERSISTENT, mandatory=True)
        self.channel.basic_publish("", "nowhere", b"lost", mandatory=True)

    def _on_return(self, _channel: Any, _method: Any, _properties: Any, body: bytes) -> None:
        self.returns.append(body)
        self.events.append("return")

    def _on_confirm(self, frame: Any) -> None:
        self.acks.append((frame.method.delivery_tag, frame.method.multiple))
        self.events.append(f"ack {frame.method.delivery_tag}")
        confirmed: set[int] = set()
        for tag, multiple in self.acks:
            confirmed |= set(range(1, tag + 1)) if multiple else {tag}
        if len(confirmed) == COUNT + 1:
            self.channel.basic_consume("q", self._on_message)

    def _on_message(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self.bodies.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(self.bodies) == COUNT:
            self.connection.close()

    def check(self) -> None:
        assert self.errors == []
        assert self.returns == [b"lost"]
        # Return before confirm, and nothing in between.
        assert self.events[self.events.index("return") + 1] == f"ack {COUNT + 1}"
        assert self.bodies == [b"%d" % number for number in range(COUNT)]


def test_select_connection_publishes_with_confirms_and_consumes(broker: leveret.Broker) -> None:
    session = Session(pika.SelectConnection, broker)
    loop = session.connection.ioloop
    session.on_done = loop.stop
    loop.call_later(TIMEOUT_SECONDS, loop.stop)
    loop.start()
    session.check()


def test_the_asyncio_adapter_publishes_with_confirms_and_consumes(broker: leveret.Broker) -> None:
    async def main() -> None:
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        session = Session(AsyncioConnection, broker, custom_ioloop=loop)
        session.on_done = done.set
        await asyncio.wait_for(done.wait(), TIMEOUT_SECONDS)
        session.check()

    asyncio.run(main())
