"""A well-behaved client that goes on working while others misbehave."""

from __future__ import annotations

import threading
import time

import frames_by_hand as wire
from socket_client import Delivery, SocketClient

# A broker that serves everybody answers within this time, whatever one client does.
ANSWER_SECONDS_MAX = 20.0


class Bystander(threading.Thread):
    """Publishes, waits for the confirm, gets the message back, acks it; again and again."""

    def __init__(self, port: int) -> None:
        super().__init__(name="bystander", daemon=True)
        self._client = SocketClient(port)
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
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while self.served < rounds:
            assert self.failure is None, repr(self.failure)
            assert time.monotonic() < deadline, f"served {self.served} times"
            self._ended.wait(0.005)

    def end(self) -> None:
        """It was served to the end, and never waited long."""
        self._ended.set()
        self.join(60)
        assert self.failure is None, repr(self.failure)
        print(f"\nbystander: {self.served} rounds, slowest {self.slowest_seconds * 1e3:.0f} ms")
        assert self.slowest_seconds < ANSWER_SECONDS_MAX
        self._client.close()
