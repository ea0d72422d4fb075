"""When a connection's socket is not read: while the broker has not kept up with what it brought."""

from __future__ import annotations

from ..core.publish_window import PublishWindow
from .transport import ReadableTransport

# One client may bring so much before the event loop looks at everything else again. An event loop
# may read a socket dozens of times in a row, while confirms wait to be sent and others to be read.
BURST_BYTES_MAX = 1024 * 1024
# A smaller read has emptied the socket: the event loop went on by itself.
_FULL_READ_BYTES_MIN = 128 * 1024


class ReadingGate:
    """Pauses and resumes reading; part of the reader's actor.

    Closed while too many publishes wait inside the broker, or while the client does not take what
    is written to it: it would only ask for more. Or while it publishes though there is an alarm.
    While the connection is opening or closing for a round of the event loop at most, or for its
    login: the close-ok must be heard.
    """

    def __init__(self, transport: ReadableTransport, window: PublishWindow) -> None:
        self._transport = transport
        self._window = window
        self.is_write_blocked = False
        self.is_alarmed = False
        self.is_paused = False
        # Until the event loop's next round.
        self.is_resting = False
        self._burst_bytes = 0

    def received(self, count: int) -> bool:
        """A read of so many bytes; true if the next one is to wait for the loop's next round."""
        if count < _FULL_READ_BYTES_MIN:
            return False
        self._burst_bytes += count
        if self._burst_bytes < BURST_BYTES_MAX or self.is_resting:
            return False
        self._burst_bytes = 0
        self.is_resting = True
        return True

    def reason(self) -> str:
        """Why it is closed for longer than a round of the event loop; "" if it is not."""
        if self.is_alarmed:
            return "there is an alarm"
        if self.is_write_blocked:
            return "its client does not read"
        return "its publishes wait inside the broker" if self._window.is_closed else ""

    def balance(self, is_running: bool, awaits_login: bool = False) -> None:
        """Pause or resume, if what is waiting has come to ask for it."""
        if self._transport.is_closing():
            # A rest may end behind the socket's own end.
            return
        must_pause = awaits_login or self.is_resting
        if is_running:
            is_full = self._window.is_closed or self.is_write_blocked
            must_pause = must_pause or is_full or self.is_alarmed
        if must_pause and not self.is_paused:
            self._transport.pause_reading()
        elif self.is_paused and not must_pause:
            self._transport.resume_reading()
        self.is_paused = must_pause
