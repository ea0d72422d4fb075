"""Stand-ins for actors and their references that record the messages told to them."""

from __future__ import annotations

import threading
from typing import Any

from leveret.actors.runtime.runtime import LoopActor
from timeouts import TIMEOUT_SECONDS


class RecordingReference:
    """Stands for the reference of a queue, of the disk's watch, or of who waits for an answer."""

    def __init__(self) -> None:
        self.actor_stopped = threading.Event()
        self.actor_inbox = self
        self.received: list[Any] = []
        self._has_received = threading.Condition()

    def put(self, message: Any) -> None:
        with self._has_received:
            self.received.append(message)
            self._has_received.notify_all()

    def wait_for(self, count: int) -> list[Any]:
        """All messages, once there are so many."""
        with self._has_received:
            is_received = self._has_received.wait_for(
                lambda: len(self.received) >= count, TIMEOUT_SECONDS
            )
            assert is_received, self.received
            return list(self.received)


class RecordingActor(LoopActor):
    """Stands for an actor, and receives messages in turns of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[object] = []

    def on_receive(self, message: object) -> None:
        self.received.append(message)
