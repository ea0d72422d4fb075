"""Renders the trace's events as JSON lines, with the least work: actors do it in their turns."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime

try:
    import orjson
except ModuleNotFoundError:  # it is for CPython only
    orjson = None  # type: ignore[assignment]


class TraceLines:
    """Lines of one boot. Threads may share it, because each cache is replaced in one step."""

    def __init__(self, boot_id: str, wall_offset_ns: Callable[[], int] | None = None) -> None:
        """`wall_offset_ns` says how far the wall clock is ahead of the monotonic one."""
        self._boot_id = boot_id
        self._wall_offset_ns = wall_offset_ns or _wall_offset_ns
        # The second of the wall clock that was written last, its text, and the offset then: most
        # events share the second with the one before.
        self._clock = (-1, b"", 0)
        # What stands between an event's time and its fields.
        self._middles: dict[tuple[str, str], bytes] = {}
        self._render = _by_json if orjson is None else _by_orjson

    def line(self, at_ns: int, event: str, actor: str, fields: dict[str, object]) -> bytes:
        """The line of an event at that moment of the monotonic clock."""
        second, text, offset_ns = self._clock
        of_event, rest_ns = divmod(at_ns + offset_ns, 1_000_000_000)
        if of_event != second:
            offset_ns = self._wall_offset_ns()
            of_event, rest_ns = divmod(at_ns + offset_ns, 1_000_000_000)
            text = datetime.fromtimestamp(of_event, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()
            self._clock = of_event, text, offset_ns
        middle = self._middles.get((event, actor)) or self._middle(event, actor)
        return b'{"t_ns":%d,"time":"%b.%06d+00:00",%b%b%b\n' % (
            at_ns,
            text,
            rest_ns // 1000,
            middle,
            b"," if fields else b"",
            self._render(fields)[1:],
        )

    def _middle(self, event: str, actor: str) -> bytes:
        """Names of events and actors are the broker's own: nothing in them is to be escaped."""
        text = f'"boot":"{self._boot_id}","event":"{event}","actor":"{actor}"'
        middle = self._middles[event, actor] = text.encode()
        return middle


def _wall_offset_ns() -> int:
    return time.time_ns() - time.monotonic_ns()


def _by_orjson(fields: dict[str, object]) -> bytes:
    try:
        return orjson.dumps(fields)
    except TypeError:
        # A name that is not UTF-8 has surrogate escapes, which orjson refuses.
        return _by_json(fields)


def _by_json(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
