"""ansq, NSQ's client for asyncio, unmodified."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import ansq
import leveret
import pytest
from ansq.tcp.connection import NSQConnection, open_connection
from ansq.tcp.types import ConnectionFeatures, ConnectionOptions
from insides import in_flight_count
from timeouts import TIMEOUT_SECONDS


def run(main: Callable[[], Awaitable[object]]) -> None:
    asyncio.run(asyncio.wait_for(main(), TIMEOUT_SECONDS))  # type: ignore[arg-type]


async def connected(broker: leveret.Broker, **features: Any) -> NSQConnection:
    assert broker.nsq_port
    options = ConnectionOptions(features=ConnectionFeatures(**features), auto_reconnect=False)
    return await open_connection("127.0.0.1", broker.nsq_port, connection_options=options)


async def next_message(connection: NSQConnection) -> Any:
    return await connection.message_queue.get()


def test_a_writer_and_a_reader_publish_and_consume(broker: leveret.Broker) -> None:
    async def main() -> None:
        addresses = [f"127.0.0.1:{broker.nsq_port}"]
        writer = await ansq.create_writer(nsqd_tcp_addresses=addresses)
        assert (await writer.pub("topic", b"one")).is_ok
        assert (await writer.mpub("topic", b"two", b"three")).is_ok
        assert (await writer.dpub("topic", b"four", 50)).is_ok
        reader = await ansq.create_reader("topic", "channel", nsqd_tcp_addresses=addresses)
        got = []
        async for message in reader.messages():
            got.append((message.body, message.attempts))
            # "two" comes back once.
            if got[-1] == (b"two", 1):
                await message.req(0)
            else:
                await message.touch()
                await message.fin()
            if len(got) == 5:
                break
        assert sorted(got) == [(b"four", 1), (b"one", 1), (b"three", 1), (b"two", 1), (b"two", 2)]
        await reader.close()
        await writer.close()

    run(main)


def test_rdy_0_brings_nothing_and_rdy_1_one(broker: leveret.Broker) -> None:
    async def main() -> None:
        connection = await connected(broker)
        await connection.mpub("topic", b"a", b"b", b"c")
        await connection.sub("topic", "channel")
        await connection.rdy(0)
        assert (await connection.pub("other", b"x")).is_ok
        assert in_flight_count(broker, "topic:channel") == 0
        await connection.rdy(1)
        first = await next_message(connection)
        assert first.body == b"a"
        assert (await connection.pub("other", b"x")).is_ok
        assert in_flight_count(broker, "topic:channel") == 1
        await first.fin()
        assert (await next_message(connection)).body == b"b"
        await connection.close()

    run(main)


def test_a_message_comes_again_after_its_delay_and_after_its_time(broker: leveret.Broker) -> None:
    async def main() -> None:
        connection = await connected(broker, msg_timeout=1000)
        await connection.pub("topic#ephemeral", b"x")
        await connection.sub("topic#ephemeral", "channel#ephemeral")
        await connection.rdy(1)
        message = await next_message(connection)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await message.req(300)
        again = await next_message(connection)
        assert loop.time() - begun >= 0.29
        third = await next_message(connection)
        assert loop.time() - begun >= 1.29
        assert [each.attempts for each in (message, again, third)] == [1, 2, 3]
        assert message.id == again.id == third.id
        await connection.close()

    run(main)


def test_auth(broker: leveret.Broker) -> None:
    """Where it is required ansq 0.3 sends AUTH, and then refuses to publish, with nsqd, too."""

    async def main() -> None:
        connection = await connected(broker)
        answer: Any = await connection.auth("guest:guest")
        assert b'"identity":"guest"' in answer.body
        assert (await connection.pub("topic", b"x")).is_ok
        await connection.close()

    run(main)


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (("AUTH", (), b"guest:wrong"), "E_AUTH_FAILED"),
        (("PUB", ("bad!",), b"x"), "E_BAD_TOPIC"),
        (("SUB", ("topic", "bad!"), None), "E_BAD_CHANNEL"),
    ],
)
def test_errors_are_ansqs_own(
    broker: leveret.Broker, command: tuple[str, tuple[str, ...], bytes | None], error: str
) -> None:
    async def main() -> None:
        connection = await connected(broker)
        name, words, data = command
        answer: Any = await connection.execute(name, *words, data=data)
        assert answer.code == error

    run(main)
