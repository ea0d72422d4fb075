"""pynsq as its users have it: a Writer and a Reader on tornado's loop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import leveret
import nsq
import pytest
from certificates import Certificates
from insides import context_of, in_flight_count
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
    await until(lambda: bool(client.conns))


async def until(is_so: Callable[[], bool]) -> None:
    """Nobody tells: look once in each of many rounds of the loop."""
    loop = asyncio.get_running_loop()
    while not is_so():
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


class Reading:
    """A Reader whose messages wait here, unanswered."""

    def __init__(
        self, broker: leveret.Broker, topic: str = "t", channel: str = "c", **options: Any
    ) -> None:
        self._messages: asyncio.Queue[Any] = asyncio.Queue()
        self.reader = nsq.Reader(
            topic,
            channel,
            nsqd_tcp_addresses=address(broker),
            message_handler=self._keep,
            **options,
        )

    def _keep(self, message: Any) -> None:
        message.enable_async()
        self._messages.put_nowait(message)

    async def next(self) -> Any:
        return await self._messages.get()

    @property
    def waiting(self) -> int:
        return self._messages.qsize()


async def published_bodies(broker: leveret.Broker, *bodies: bytes, topic: str = "t") -> None:
    writer = nsq.Writer(address(broker))
    await connected(writer)
    for body in bodies:
        assert await published(writer.pub, topic, body) == b"OK"
    close(writer)


def close(writer: Any) -> None:
    for conn in list(writer.conns.values()):
        conn.close()


def test_a_requeued_message_comes_when_its_delay_is_over(broker: leveret.Broker) -> None:
    async def main() -> None:
        await published_bodies(broker, b"x")
        reading = Reading(broker)
        message = await reading.next()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        message.requeue(time_ms=300, backoff=False)
        again = await reading.next()
        assert loop.time() - begun >= 0.29
        assert (again.id, again.attempts) == (message.id, 2)
        again.touch()
        again.finish()
        await settled(broker)
        assert reading.waiting == 0
        reading.reader.close()

    run(main)


async def settled(broker: leveret.Broker, in_flight: int = 0) -> None:
    await until(lambda: in_flight_count(broker, "t:c") == in_flight)


def test_a_message_that_is_not_answered_in_time_comes_again(broker: leveret.Broker) -> None:
    async def main() -> None:
        await published_bodies(broker, b"x")
        reading = Reading(broker, msg_timeout=1.0)
        message = await reading.next()
        again = await reading.next()
        assert (again.id, again.attempts) == (message.id, 2)
        again.finish()
        reading.reader.close()

    run(main)


def test_a_reader_that_backs_off_gets_nothing_and_then_one(broker: leveret.Broker) -> None:
    async def main() -> None:
        await published_bodies(broker, b"0")
        reading = Reading(broker, max_in_flight=5, max_backoff_duration=10)
        first = await reading.next()
        first.requeue(time_ms=0, backoff=True)
        [conn] = reading.reader.conns.values()
        assert conn.rdy == 0
        await published_bodies(broker, *(b"%d" % k for k in range(1, 5)))
        # What came before the broker had read RDY 0, if anything did; it counts for RDY 1, too.
        message = await reading.next()
        assert conn.rdy <= 1
        await settled(broker, 1)
        assert reading.waiting == 0
        bodies = {message.body}
        message.finish()
        while len(bodies) < 5:
            message = await reading.next()
            bodies.add(message.body)
            message.finish()
        await settled(broker)
        reading.reader.close()

    run(main)


def test_an_ephemeral_channel_goes_with_its_reader(broker: leveret.Broker) -> None:
    async def main() -> None:
        reading = Reading(broker, "t#ephemeral", "c#ephemeral")
        await connected(reading.reader)
        await published_bodies(broker, b"x", topic="t#ephemeral")
        (await reading.next()).finish()
        reading.reader.close()
        table = context_of(broker).vhosts["/"].table
        await until(lambda: not list(table.queues()))

    run(main)


@pytest.mark.parametrize("secret", ["guest:guest", "guest:wrong"])
def test_auth(broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    monkeypatch.setattr("leveret.actors.nsq.entrance.is_loopback", lambda _host: False)

    async def main() -> None:
        assert broker.nsq_port
        conn = nsq.AsyncConn("127.0.0.1", broker.nsq_port, auth_secret=secret)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answered(data: Any = None, error: Any = None, **_others: Any) -> None:
            if not answer.done():
                answer.set_result(data if error is None else error)

        conn.on("auth_response", answered)
        conn.on("error", answered)
        conn.connect()
        result = await answer
        if secret == "guest:guest":
            assert result["identity"] == "guest"
        else:
            assert "E_AUTH_FAILED" in str(result)
        conn.close()

    run(main)


@pytest.mark.parametrize("stream", ["tls_v1", "deflate", "snappy"])
def test_messages_go_through_a_stream(
    stream: str, tmp_path: Path, certificates: Certificates
) -> None:
    settings: dict[str, Any] = certificates.settings()
    options = {stream: True}
    if stream == "tls_v1":
        options["tls_options"] = {
            "cert_reqs": ssl.CERT_REQUIRED,
            "ca_certs": certificates.authority,
        }  # type: ignore[assignment]

    async def main() -> None:
        writer = nsq.Writer(address(broker), **options)
        await connected(writer)
        bodies = [b"x", b"y" * 200_000, bytes(range(256)) * 100]
        for body in bodies:
            assert await published(writer.pub, "t", body) == b"OK"
        reading = Reading(broker, max_in_flight=3, **options)
        assert [(await reading.next()).body for _ in bodies] == bodies
        reading.reader.close()
        close(writer)

    with leveret.Broker(
        data_dir=tmp_path / "data", port=0, nsq_port=0, log_level="error", **settings
    ) as broker:
        run(main)
