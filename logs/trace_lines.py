"""Renders the trace's events as JSON lines: with the least work, for it takes the broker's turns.

Rendering runs on the trace's own thread, but one interpreter lock is for all threads: what a line
costs is missing elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime

from .trace import Entry

try:
    import orjson
except ModuleNotFoundError:  # it is for CPython only
    orjson = None  # type: ignore[assignment]


class TraceLines:
    """Lines of one boot."""

    def __init__(self, boot_id: str) -> None:
        self._boot_id = boot_id
        # The second that was written last, and its text: most events share it with the one before.
        self._second = -1
        self._second_text = b""
        # What stands between an event's time and its fields.
        self._middles: dict[tuple[str, str], bytes] = {}
        self._render = _by_json if orjson is None else _by_orjson

    def rendered(self, entries: Iterable[Entry], wall_offset_ns: int) -> bytes:
        """All of them; `wall_offset_ns` is how far the wall clock is before the monotonic one."""
        return b"".join([self._line(entry, wall_offset_ns) for entry in entries])

    def _line(self, entry: Entry, wall_offset_ns: int) -> bytes:
        at_ns, event, actor, fields = entry
        second, rest_ns = divmod(at_ns + wall_offset_ns, 1_000_000_000)
        if second != self._second:
            self._second = second
            moment = datetime.fromtimestamp(second, UTC)
            self._second_text = moment.strftime("%Y-%m-%dT%H:%M:%S").encode()
        middle = self._middles.get((event, actor)) or self._middle(event, actor)
        return b'{"t_ns":%d,"time":"%b.%06d+00:00",%b%b%b\n' % (
            at_ns,
            self._second_text,
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


def _by_orjson(fields: dict[str, object]) -> bytes:
    try:
        return orjson.dumps(fields)
    except TypeError:
        # A name that is not UTF-8 has surrogate escapes, which orjson refuses.
        return _by_json(fields)


def _by_json(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
