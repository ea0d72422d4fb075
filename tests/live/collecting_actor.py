"""An actor with a thread of its own that collects what it is told."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from leveret.actors.messages import Ref
from leveret.actors.runtime.thread_actor import ThreadActor


class CollectingActor(ThreadActor):
    """Stands for a queue: whoever asks it gets all that it was told before."""

    def __init__(self) -> None:
        super().__init__(structlog.get_logger("test"), lambda _name, error: pytest.fail(str(error)))
        self.received: list[Any] = []

    def on_gathered(self, messages: list[object]) -> None:
        self.received += messages

    def on_receive(self, _question: object) -> list[Any]:  # type: ignore[override]
        return self.received


def collecting() -> Ref:
    """Start one."""
    return CollectingActor.start_alone()
