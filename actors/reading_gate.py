"""When a connection's socket is not read: while the broker has not kept up with what it brought."""

from __future__ import annotations

from ..core.publish_window import PublishWindow
from .transport import ReadableTransport


class ReadingGate:
    """Pauses and resumes reading; part of the reader's actor.

    Closed while too many publishes wait inside the broker, or while the client does not take what
    is written to it: it would only ask for more. Never while the connection is closing: the
    close-ok must be heard.
    """

    def __init__(self, transport: ReadableTransport, window: PublishWindow) -> None:
        self._transport = transport
        self._window = window
        self.is_write_blocked = False
        self.is_paused = False

    def balance(self, is_running: bool) -> None:
        """Pause or resume, if what is waiting has come to ask for it."""
        must_pause = is_running and (self._window.is_closed or self.is_write_blocked)
        if must_pause and not self.is_paused:
            self._transport.pause_reading()
        elif self.is_paused and not must_pause:
            self._transport.resume_reading()
        self.is_paused = must_pause
