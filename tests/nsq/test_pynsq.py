"""pynsq as its users have it: a Writer and a Reader on tornado's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import leveret
import nsq
from timeouts import TIMEOUT_SECONDS

PAUSE_SECONDS = 0.01


def run(main: Callable[[], Awaitable[object]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(main(), TIMEOUT_SECONDS)

    asyncio.run(bounded())


def address(broker: leveret.Broker) -> list[str]:
    return [f"127.0.0.1:{broker.nsq_port}"]


async def connected(client: Any) -> None:
    """Return when the client has identified itself to the broker."""
    loop = asyncio.get_running_loop()
    while not client.conns:
        # It tells nobody: one round of the loop after the other.
        turn = loop.create_future()
        loop.call_later(PAUSE_SECONDS, turn.set_result, None)
        await turn


async def published(send: Callable[..., None], *arguments: Any) -> Any:
    """What the writer calls its callback with."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    send(*arguments, callback=lambda _conn, data: answer.set_result(data))
    return await answer


def test_a_writer_and_a_reader_publish_and_consume(broker: leveret.Broker) -> None:
    async def main() -> None:
        writer = nsq.Writer(address(broker))
        await connected(writer)
        assert await published(writer.pub, "t", b"one") == b"OK"
        assert await published(writer.mpub, "t", [b"two", b"three"]) == b"OK"
        assert await published(writer.dpub, "t", 50, b"four") == b"OK"
        got: list[tuple[bytes, int]] = []
        over = asyncio.Event()

        def handle(message: Any) -> bool:
            got.append((message.body, message.attempts))
            if len(got) == 5:
                over.set()
            # "two" comes back once.
            return bool(message.body != b"two" or message.attempts > 1)

        reader = nsq.Reader(
            "t",
            "c",
            nsqd_tcp_addresses=address(broker),
            message_handler=handle,
            max_in_flight=3,
            requeue_delay=0,
            max_backoff_duration=0.1,
        )
        await over.wait()
        assert sorted(got) == [(b"four", 1), (b"one", 1), (b"three", 1), (b"two", 1), (b"two", 2)]
        reader.close()
        for conn in writer.conns.values():
            conn.close()

    run(main)


def test_a_bad_name_is_pynsqs_error(broker: leveret.Broker) -> None:
    async def main() -> None:
        writer = nsq.Writer(address(broker))
        await connected(writer)
        answer = await published(writer.pub, "bad!", b"x")
        assert isinstance(answer, nsq.Error)
        assert str(answer) == "b'E_BAD_TOPIC PUB topic name \"bad!\" is not valid'"
        for conn in writer.conns.values():
            conn.close()

    run(main)
