"""A queue for tests of reading, filled and looked at with pika."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pika
from timeouts import TIMEOUT_SECONDS

POLL_SECONDS = 0.01


class SourceQueue:
    """A durable queue of numbered messages: body and message id are the number."""

    def __init__(self, port: int, name: str = "source", arguments: dict[str, Any] | None = None):
        self.port = port
        self.name = name
        self._arguments = arguments
        self.connect()

    def connect(self) -> None:
        parameters = pika.ConnectionParameters("127.0.0.1", self.port, heartbeat=0)
        self.connection = pika.BlockingConnection(parameters)
        self.channel = self.connection.channel()
        self.channel.queue_declare(self.name, durable=True, arguments=self._arguments)

    def close(self) -> None:
        self.connection.close()

    @property
    def options(self) -> dict[str, str]:
        uri = f"amqp://guest:guest@127.0.0.1:{self.port}/"
        return {"uri": uri, "queue": self.name, "pollTimeoutMs": "100"}

    def publish(self, numbers: Iterable[int], size_bytes: int = 0, waits: bool = True) -> None:
        """Publish, and return once the queue has them all; if it has consumers, it never has."""
        published = 0
        before = self.total() if waits else 0
        for number in numbers:
            properties = pika.BasicProperties(delivery_mode=2, message_id=str(number))
            body = str(number).encode().ljust(size_bytes)
            self.channel.basic_publish("", self.name, body, properties)
            published += 1
        if waits:
            self.wait_for(before + published)

    def total(self) -> int:
        """How many messages are ready; those delivered to somebody are not."""
        return self.channel.queue_declare(self.name, passive=True).method.message_count

    def wait_for(self, messages: int) -> None:
        """Return when so many messages are ready."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while (found := self.total()) != messages:
            assert time.monotonic() < end, f"{found} messages, not {messages}"
            self.connection.process_data_events(POLL_SECONDS)

    def delete(self) -> None:
        self.channel.queue_delete(self.name)

    def drained(self) -> list[int]:
        """Take all that is ready, and give the numbers."""
        return [int(body) for body in self.drained_bodies()]

    def drained_bodies(self) -> list[bytes]:
        """Take all that is ready."""
        bodies = []
        while (got := self.channel.basic_get(self.name, auto_ack=True))[0] is not None:
            bodies.append(got[2])
        return bodies
