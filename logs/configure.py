"""The service log: one structlog logger, lines for people on a terminal, JSON lines elsewhere.

The logger carries its own processors and its own output, so structlog's global configuration and
the standard library's logging stay as the host program left them when a broker is embedded. Every
actor binds what it knows (peer, channel) once and keeps the bound logger.

What this module promises:
- a line is one line, whatever bytes a client put into its names: strings are quoted, so nobody can
  forge a line or reach a terminal's escape codes;
- secrets are masked by the name of their field and by how they look (`secrets.py`), and tracebacks
  are printed without local variables;
- a log that cannot be written (a closed pipe, a full disk, a pipe that nobody reads) does not stop
  the broker: the lines are counted, and the count is the first thing that is logged when writing
  works again.
"""

from __future__ import annotations

import io
import json
import os
import select
import stat
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO, cast

import structlog

from .events import LOG_LOST
from .secrets import MASK, SECRETS, masked

if TYPE_CHECKING:
    from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

# A pipe that is full may be read the next moment; a line waits for that, but rarely: the event loop
# waits with it.
_WAIT_MS = 100
_WAITS_APART_SECONDS = 10.0

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("auto", "console", "json")


def service_log(
    level: str = "info", form: str = "auto", stream: TextIO | None = None
) -> FilteringBoundLogger:
    """Make the service log: standard error unless a stream is given; `auto` asks if it is a tty."""
    stream = sys.stderr if stream is None else stream
    on_terminal = logs_for_people(form, stream)
    output = _Output(stream, _lost_on_terminal if on_terminal else _lost_as_json)
    logger = structlog.wrap_logger(
        cast("WrappedLogger", output),
        processors=_processors(on_terminal, colors=_wants_colors(stream)),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        context_class=dict,
        cache_logger_on_first_use=True,
    )
    return cast("FilteringBoundLogger", logger)


def logs_for_people(form: str, stream: TextIO | None = None) -> bool:
    """Whether lines are for people on a terminal, else JSON; as `service_log`."""
    stream = sys.stderr if stream is None else stream
    return form == "console" or (form == "auto" and stream.isatty())


def _processors(on_terminal: bool, colors: bool) -> list[Processor]:
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        mask_secrets,
    ]
    if on_terminal:
        console = structlog.dev.ConsoleRenderer(
            colors=colors,
            timestamp_key="time",
            repr_native_str=True,
            # The one that rich would give shows local variables.
            exception_formatter=_masked_traceback,
            sort_keys=False,
        )
        return [*shared, console]
    return [
        *shared,
        structlog.processors.format_exc_info,
        mask_secrets,
        _head_first,
        structlog.processors.JSONRenderer(default=_json_default),
    ]


def mask_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace what must not be in a log; a processor."""
    for name, value in event.items():
        if name in SECRETS:
            event[name] = MASK
        elif isinstance(value, str):
            event[name] = masked(value)
    return event


def _masked_traceback(into: TextIO, exc_info: Any) -> None:
    text = io.StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    into.write(masked(text.getvalue()))


def _head_first(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Put first what every line has, for whoever reads the lines unaided."""
    head = {name: event.pop(name) for name in ("time", "level", "event")}
    return {**head, **event}


def _json_default(value: object) -> str:
    return masked(repr(value))


def _wants_colors(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def _lost_as_json(lines: int) -> str:
    return json.dumps({"level": "error", "event": LOG_LOST, "lines": lines})


def _lost_on_terminal(lines: int) -> str:
    return f"[error    ] {LOG_LOST} lines={lines}"


class _Output:
    """Writes lines to a stream and counts those that the stream refuses."""

    def __init__(self, stream: TextIO, lost_line: Callable[[int], str]) -> None:
        self._write = structlog.WriteLogger(stream).msg
        self._room = _Room(stream)
        self._lost_line = lost_line
        self._lost = 0

    def msg(self, line: str) -> None:
        try:
            if not self._room.is_there():
                self._lost += 1
                return
            if self._lost:
                self._write(self._lost_line(self._lost))
                self._lost = 0
            self._write(line)
        except (OSError, ValueError):
            # ValueError: the stream is closed.
            self._lost += 1

    debug = info = warning = error = critical = exception = msg


class _Room:
    """Whether a stream takes a line at once; one of no more than a page, as lines are."""

    def __init__(self, stream: TextIO) -> None:
        self._descriptor = _stallable(stream)
        self._waited_at = float("-inf")

    def is_there(self) -> bool:
        """Also if it is known that it takes nothing any more: it says so itself."""
        if self._descriptor is None or _accepts_writes(self._descriptor, 0):
            return True
        now = time.monotonic()
        if now - self._waited_at < _WAITS_APART_SECONDS:
            return False
        self._waited_at = now
        return _accepts_writes(self._descriptor, _WAIT_MS)


def _stallable(stream: TextIO) -> int | None:
    """The descriptor of a pipe, a socket or a terminal; None of a file, which never waits."""
    try:
        descriptor = stream.fileno()
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    except (AttributeError, OSError, ValueError):
        # No descriptor, as of text in memory.
        return None
    return None if is_file else descriptor


def _accepts_writes(descriptor: int, wait_ms: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(wait_ms))
