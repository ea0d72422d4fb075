"""Consumers of foreign clients with the same few methods, so that one test can drive each of them.

`next` waits for a delivery: its tag, body, `redelivered` and x-delivery-count (None without one).
`touch` and `requeue` publish a command about a delivery and wait for its confirm.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import pika
from pika.adapters.blocking_connection import BlockingChannel
from timeouts import TIMEOUT_SECONDS

COMMANDS = "amq.leveret.delivery"


class Got(NamedTuple):
    tag: int
    body: bytes
    redelivered: bool
    delivery_count: int | None


class ForeignConsumer(Protocol):
    def next(self) -> Got: ...

    def ack(self, tag: int) -> None: ...

    def nack(self, tag: int) -> None: ...

    def touch(self, tag: int) -> None: ...

    def requeue(self, tag: int, delay_ms: int) -> None: ...


class PikaConsumer:
    def __init__(self, channel: BlockingChannel, queue: str) -> None:
        self._channel = channel
        channel.confirm_delivery()
        self._deliveries = channel.consume(queue, inactivity_timeout=TIMEOUT_SECONDS)

    def next(self) -> Got:
        method, properties, body = next(self._deliveries)
        assert method is not None, "no delivery came"
        count = (properties.headers or {}).get("x-delivery-count")
        return Got(method.delivery_tag, body, method.redelivered, count)

    def ack(self, tag: int) -> None:
        self._channel.basic_ack(tag)

    def nack(self, tag: int) -> None:
        self._channel.basic_nack(tag, requeue=True)

    def touch(self, tag: int) -> None:
        self._command("touch", {"delivery-tag": tag})

    def requeue(self, tag: int, delay_ms: int) -> None:
        self._command("requeue", {"delivery-tag": tag, "delay-ms": delay_ms})

    def _command(self, name: str, headers: dict[str, Any]) -> None:
        self._channel.basic_publish(COMMANDS, name, b"", pika.BasicProperties(headers=headers))


@contextmanager
def pika_consumer(host: str, port: int, queue: str) -> Iterator[ForeignConsumer]:
    # The broker's clock is held, so that nobody sends heartbeats.
    parameters = pika.ConnectionParameters(host, port, heartbeat=0)
    with pika.BlockingConnection(parameters) as connection:
        yield PikaConsumer(connection.channel(), queue)


class AioPikaConsumer:
    def __init__(self, runner: asyncio.Runner, channel: Any, messages: Any) -> None:
        self._runner = runner
        self._channel = channel
        self._messages = messages
        self._held: dict[int, Any] = {}

    def next(self) -> Got:
        message = self._run(self._messages.__anext__())
        self._held[message.delivery_tag] = message
        count = cast("int | None", message.headers.get("x-delivery-count"))
        return Got(message.delivery_tag, message.body, message.redelivered, count)

    def ack(self, tag: int) -> None:
        self._run(self._held[tag].ack())

    def nack(self, tag: int) -> None:
        self._run(self._held[tag].nack(requeue=True))

    def touch(self, tag: int) -> None:
        self._run(self._command("touch", {"delivery-tag": tag}))

    def requeue(self, tag: int, delay_ms: int) -> None:
        self._run(self._command("requeue", {"delivery-tag": tag, "delay-ms": delay_ms}))

    async def _command(self, name: str, headers: dict[str, Any]) -> None:
        import aio_pika

        exchange = await self._channel.get_exchange(COMMANDS)
        confirmation = await exchange.publish(aio_pika.Message(b"", headers=headers), name)
        assert confirmation is not None

    def _run(self, awaitable: Any) -> Any:
        async def in_time() -> Any:
            return await asyncio.wait_for(awaitable, TIMEOUT_SECONDS)

        return self._runner.run(in_time())


@contextmanager
def aio_pika_consumer(host: str, port: int, queue: str) -> Iterator[ForeignConsumer]:
    import aio_pika

    with asyncio.Runner() as runner:
        url = f"amqp://guest:guest@{host}:{port}/?heartbeat=0"
        connection = runner.run(aio_pika.connect(url))
        try:
            yield AioPikaConsumer(runner, *runner.run(_consume(connection, queue)))
        finally:
            runner.run(connection.close())


async def _consume(connection: Any, queue: str) -> tuple[Any, Any]:
    channel = await connection.channel()
    return channel, (await channel.get_queue(queue)).iterator()


class CConsumer:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def next(self) -> Got:
        tag, body, redelivered, count = self._answer("next").split()
        known = None if count == "-1" else int(count)
        return Got(int(tag), body.encode(), bool(int(redelivered)), known)

    def ack(self, tag: int) -> None:
        assert self._answer(f"ack {tag}") == "sent"

    def nack(self, tag: int) -> None:
        assert self._answer(f"nack {tag}") == "sent"

    def touch(self, tag: int) -> None:
        assert self._answer(f"touch {tag}") == "confirmed"

    def requeue(self, tag: int, delay_ms: int) -> None:
        assert self._answer(f"requeue {tag} {delay_ms}") == "confirmed"

    def _answer(self, line: str) -> str:
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        stdin.write(line + "\n")
        stdin.flush()
        answer = stdout.readline()
        assert answer, stderr.read()
        return answer.strip()


@contextmanager
def c_consumer(program: Path, port: int, queue: str) -> Iterator[ForeignConsumer]:
    """A process that runs delivered.c."""
    with subprocess.Popen(
        [str(program), str(port), queue],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield CConsumer(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
    assert process.returncode == 0
