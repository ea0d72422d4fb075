"""Brokers for the sink and the source to talk to, and what is looked at there with pika."""

from __future__ import annotations

import atexit
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika
from dashed import dashed

from benchmarks.brokers import RabbitMQ, free_port


@dataclass
class Message:
    """The messages of a queue."""

    body: bytes
    exchange: str
    routing_key: str
    properties: pika.BasicProperties

    @property
    def headers(self) -> dict[str, Any]:
        return self.properties.headers or {}


class Target:
    """A running broker."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.port = port

    @property
    def options(self) -> dict[str, str]:
        return {"uri": f"amqp://guest:guest@127.0.0.1:{self.port}/"}

    @contextmanager
    def channel(self) -> Iterator[Any]:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port))
        try:
            yield connection.channel()
        finally:
            connection.close()

    def declare(self, queue: str, **arguments: object) -> str:
        named = dashed(arguments)
        with self.channel() as channel:
            channel.queue_declare(queue, durable=True, arguments=named)
        return queue

    def bind_fanout(self, exchange: str, *queues: str) -> None:
        with self.channel() as channel:
            channel.exchange_declare(exchange, "fanout", durable=True)
            for queue in queues:
                channel.queue_bind(queue, exchange)

    def depth(self, queue: str) -> int:
        with self.channel() as channel:
            count: int = channel.queue_declare(queue, passive=True).method.message_count
            return count

    def drain(self, queue: str) -> list[Message]:
        """All that it holds; it is empty then."""
        messages = []
        with self.channel() as channel:
            left = channel.queue_declare(queue, passive=True).method.message_count
            if not left:
                return []
            for method, properties, body in channel.consume(queue, auto_ack=True):
                message = Message(body, method.exchange, method.routing_key, properties)
                messages.append(message)
                if len(messages) == left:
                    break
            channel.cancel()
        return messages


class RestartableLeveret(Target):
    """Leveret in a process of its own that is killed, and started again on its port and data."""

    def __init__(self, directory: Path) -> None:
        super().__init__("leveret", free_port())
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        arguments = ["serve", "--port", str(self.port), "--data-dir", str(self._directory / "data")]
        environment = {name: value for name, value in os.environ.items() if "LEVERET_" not in name}
        # Its port is free, the one so far above it for HTTP may not be.
        environment["LEVERET_HTTP_LISTENER"] = "off"
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "leveret", *arguments],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        # Whatever becomes of the test.
        atexit.register(self._process.kill)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert re.search(r" listening on ", line), line

    def kill(self) -> None:
        """As a crash of the machine's power, but for the disk's cache."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class KillableRabbitMQ:
    """RabbitMQ from Debian, to be killed and started again on its data."""

    def __init__(self, directory: Path) -> None:
        self._node = RabbitMQ(directory)
        self._node.start()
        self.port = self._node.port

    def start(self) -> None:
        self._node.start()

    def kill(self) -> None:
        """As kill -9 does: the Erlang machine, without a word to it."""
        process = self._node.process()
        process.kill()
        process.wait()
        self._node.stop()
