"""A stand-in for an actor's reference that keeps what it is told."""

from __future__ import annotations

import threading
from typing import Any

from leveret.actors.runtime.runtime import LoopActor
from timeouts import TIMEOUT_SECONDS


class Told:
    """Stands for the reference of a queue, of the disk's watch, or of who waits for an answer."""

    def __init__(self) -> None:
        self.actor_stopped = threading.Event()
        self.actor_inbox = self
        self.heard: list[Any] = []
        self._has_heard = threading.Condition()

    def put(self, envelope: Any) -> None:
        with self._has_heard:
            self.heard.append(envelope.message)
            self._has_heard.notify_all()

    def wait_for(self, count: int) -> list[Any]:
        """All that it has been told, once that is so much."""
        with self._has_heard:
            is_told = self._has_heard.wait_for(lambda: len(self.heard) >= count, TIMEOUT_SECONDS)
            assert is_told, self.heard
            return list(self.heard)


class Listening(LoopActor):
    """Stands for an actor that is told something, in turns of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[object] = []

    def on_receive(self, message: object) -> None:
        self.heard.append(message)
