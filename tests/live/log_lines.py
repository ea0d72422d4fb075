"""The log of the broker under test."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

from insides import wait_until


class LogLines:
    """The broker's log as JSON lines, read as it grows."""

    def __init__(self) -> None:
        self.stream = StringIO()

    def of(self, event: str) -> list[dict[str, Any]]:
        written = self.stream.getvalue()
        # A line is written in two pieces.
        lines = [json.loads(line) for line in written[: written.rfind("\n") + 1].splitlines()]
        return [line for line in lines if line["event"] == event]

    def reasons(self, event: str = "connection.refused") -> list[str]:
        return [line["reason"] for line in self.of(event)]

    def wait_for_refusal(self) -> str:
        """The reason in the only line about a refused connection."""
        wait_until(lambda: bool(self.reasons()))
        [reason] = self.reasons()
        return reason
