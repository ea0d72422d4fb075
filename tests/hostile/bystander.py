"""A well-behaved client that goes on working while others misbehave."""

from __future__ import annotations

import threading
import time

import frames_by_hand as wire
from socket_client import Delivery, EndedError, SocketClient
from timeouts import TIMEOUT_SECONDS


def logged_in(port: int, heartbeat: int = 0) -> SocketClient:
    """A client of a broker that may be impatient: it tries again if it was not in time."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return SocketClient(port, heartbeat=heartbeat)
        except EndedError:
            assert time.monotonic() < deadline, "no login is in time"


class Bystander(threading.Thread):
    """Publishes, waits for the confirm, gets the message back, acks it; again and again."""

    def __init__(self, port: int) -> None:
        super().__init__(name="bystander", daemon=True)
        self._client = logged_in(port)
        self._client.open_channel(confirm=True)
        self._client.declare("bystander")
        self._ended = threading.Event()
        self.failure: BaseException | None = None
        self.served = 0
        self.slowest_seconds = 0.0

    def run(self) -> None:
        """Until `end`, or the first thing that goes wrong."""
        try:
            while True:
                started = time.monotonic()
                self._once(b"message %d" % self.served)
                self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - started)
                self.served += 1
                if self._ended.wait(0.005):
                    return
        except BaseException as error:
            self.failure = error

    def _once(self, body: bytes) -> None:
        client = self._client
        client.publish_confirmed("", "bystander", body)
        client.send(wire.get(1, "bystander"))
        got = client.delivery()
        assert isinstance(got, Delivery), got
        assert got.body == body
        client.send(wire.ack(1, got.delivery_tag))

    def wait_until_served(self, rounds: int) -> None:
        """Return when it has been served so many times in all."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.served < rounds:
            assert self.failure is None, repr(self.failure)
            assert time.monotonic() < deadline, f"served {self.served} times"
            self._ended.wait(0.005)

    def end(self) -> None:
        """It was served to the end."""
        self._ended.set()
        self.join(TIMEOUT_SECONDS)
        assert self.failure is None, repr(self.failure)
        print(f"\nbystander: {self.served} rounds, slowest {self.slowest_seconds * 1e3:.0f} ms")
        self._client.close()
