"""The outgoing half of a connection: everything that is written goes through here, in order.

Channels tell it frames; at the end of its turn it writes all gathered frames in one go. When
the transport's buffer is full, deliveries are still taken, but the windows that count them stay
closed until the socket has taken them: a client that does not read stops getting messages, and
the broker's memory does not grow. One that takes nothing at all for two heartbeat intervals is
taken for dead.
"""

from __future__ import annotations

from ...amqp_frames.constants import HEARTBEAT_FRAME
from ...core.connection.heartbeat import HeartbeatWatch
from ...core.statistics.traffic import Traffic
from ..messages import (
    CloseTransport,
    Down,
    Flush,
    Flushed,
    Ref,
    Sent,
    StartHeartbeats,
    WakeAt,
    Woken,
    WriteBuffer,
    WriteDeliveries,
    WriteStalled,
)
from ..runtime.room_offers import tell_opened
from ..runtime.runtime import LoopActor, tell
from .transport import Transport, acknowledged_bytes

# So many bytes are not joined, which copies them, but handed over piece by piece.
GATHERED_BYTES_MIN = 65_536


class Writer(LoopActor):
    """Writes for one connection; `reader` is its parent, `ticker` drives its heartbeats."""

    def __init__(self, transport: Transport, reader: Ref, ticker: Ref, traffic: Traffic) -> None:
        super().__init__()
        self._transport = transport
        self._reader = reader
        self._ticker = ticker
        self._frames: list[bytes] = []
        self._unsent: list[WriteDeliveries] = []
        self._is_full = False
        self._is_closing = False
        self._is_flush_asked = False
        self._heartbeat_seconds = 0.0
        self._has_written = False
        self._traffic = traffic
        self._watch = HeartbeatWatch()

    def on_receive(self, message: object) -> None:
        """Take frames, or news of the transport."""
        if isinstance(message, bytes):
            self._frames.append(message)
        elif isinstance(message, WriteDeliveries):
            self._frames += message.frames
            self._unsent.append(message)
        elif isinstance(message, WriteBuffer):
            self._is_full = message.is_full
        elif isinstance(message, Woken):
            self._heartbeat(message)
        elif isinstance(message, CloseTransport):
            self._is_closing = True
        elif isinstance(message, Flush):
            self._is_flush_asked = True
        elif isinstance(message, StartHeartbeats):
            self._heartbeat_seconds = message.interval_seconds
            if message.interval_seconds > 0:
                self._wake_for_heartbeat()

    def on_idle(self) -> None:
        """Write the gathered frames; open the windows of deliveries that the socket has taken."""
        if self._transport.is_closing():
            # Frames that arrive now go nowhere, and no window opens for more.
            self._frames.clear()
            return
        frames = self._frames
        if frames:
            traffic = self._traffic
            traffic.sent_count += 1
            if len(frames) == 1:
                traffic.sent_bytes += len(frames[0])
                self._transport.write(frames[0])
            else:
                self._write(frames)
            self._frames = []
            self._has_written = True
        if self._is_flush_asked:
            self._is_flush_asked = False
            tell(self._reader, Flushed())
        if self._unsent and not self._is_full:
            self._open_windows()
        if self._is_closing:
            self._transport.close()

    def _write(self, frames: list[bytes]) -> None:
        count = sum(map(len, frames))
        self._traffic.sent_bytes += count
        if count >= GATHERED_BYTES_MIN:
            self._transport.writelines(frames)
        else:
            self._transport.write(b"".join(frames))

    def _open_windows(self) -> None:
        outlet = self._unsent[0].outlet.outlet
        for sent in self._unsent:
            sent.outlet.remove(sent.window_bytes)
            consumer = sent.consumer
            if consumer is not None and consumer.sent(sent.window_bytes) and sent.queue is not None:
                tell(sent.queue, Sent(consumer))
        self._unsent.clear()
        tell_opened(outlet)

    def _heartbeat(self, _woken: Woken) -> None:
        if not self._heartbeat_seconds:
            return
        # An interval without a write is half of what the client was promised.
        if not self._has_written:
            self._frames.append(HEARTBEAT_FRAME)
        self._wake_for_heartbeat()
        self._has_written = False
        # While the buffer is full the client is not read, so nothing else tells whether it lives.
        if self._is_full:
            self._watch.signs = acknowledged_bytes(self._transport, self._traffic.sent_bytes)
        if not self._watch.look(is_listening=self._is_full):
            tell(self._reader, WriteStalled())

    def _wake_for_heartbeat(self) -> None:
        when = self.runtime.scheduler.time() + self._heartbeat_seconds
        tell(self._ticker, WakeAt(when, self.actor_ref, "heartbeat"))

    def on_failure(self, *_exception: object) -> None:
        """Tell the reader, which ends the connection."""
        tell(self._reader, Down(self.actor_ref, "writer"))
