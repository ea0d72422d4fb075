"""A blocking connection of pika's that reads every message, with its headers' types.

pika's decoder makes Python values of headers: an integer no longer says how wide it was, a fraction
is cut off. And it raises where a value is none of Python's, such as a timestamp behind the year
9999, as one in milliseconds is: its connection is lost by that, the broker delivers the message
again, and so on for ever. So content headers are decoded by Leveret's codec. What that cannot
either (tables that nest deeper than 64; RabbitMQ sets no limit) ends the reading, loudly.
"""

from __future__ import annotations

from contextlib import suppress
from struct import Struct
from typing import Any, Final

import pika
from pika import exceptions, frame

from ...amqp_frames.constants import CONTENT_HEADER_BYTES, FRAME_HEADER
from ...amqp_frames.errors import HardError
from ...amqp_frames.properties import decode_properties
from ..errors import SourceError

# Type, channel and payload size; then class, weight and body size.
_HEADER: Final = Struct(">BHIHHQ")
_FRAME_HEAD_BYTES: Final = 7
_FRAME_END_BYTES: Final = 1


class ReadingConnection(pika.BlockingConnection):
    """pika's, but messages have Leveret's `Properties`, with headers as typed fields."""

    def __init__(self, parameters: pika.ConnectionParameters) -> None:
        super().__init__(parameters, _impl_class=TypedConnection)

    @property
    def cluster_name(self) -> str | None:
        """The name of RabbitMQ's cluster; None for a broker that has none."""
        # A blocking connection shows only some of what the broker said of itself.
        name: str | None = (self._impl.server_properties or {}).get("cluster_name")
        return name

    def wake(self) -> None:
        """End the wait for the socket of the thread that reads; from any thread."""
        # If the connection has just been lost, that has woken the thread already.
        with suppress(exceptions.ConnectionWrongStateError):
            self.add_callback_threadsafe(_nothing)

    def check(self) -> None:
        """Raise SourceError if a message came that cannot be read, now or at another try."""
        unreadable = getattr(self._impl, "unreadable", None)
        if unreadable is not None:
            raise SourceError(f"a message cannot be read: {unreadable}")


def _nothing() -> None:
    """A callback that only wakes."""


def decode_header_frame(data: bytes) -> tuple[int, frame.Header | None]:
    """Decode the content header that the data begin with, and say how many octets it takes up.

    (0, None) if it has not come whole. HardError if its properties cannot be decoded.
    """
    _kind, channel, size, _class, _weight, body_bytes = _HEADER.unpack_from(data)
    end = _FRAME_HEAD_BYTES + size
    if len(data) < end + _FRAME_END_BYTES:
        return 0, None
    properties = decode_properties(data, _FRAME_HEAD_BYTES + CONTENT_HEADER_BYTES, end)
    return end + _FRAME_END_BYTES, frame.Header(channel, body_bytes, properties)


class TypedConnection(pika.SelectConnection):
    """Reads content headers with Leveret's codec; `unreadable` says why it could not."""

    unreadable: str | None = None

    def _read_frame(self) -> tuple[int, Any]:
        data = self._frame_buffer
        if len(data) >= _HEADER.size and data[0] == FRAME_HEADER:
            try:
                return decode_header_frame(data)
            except HardError as error:
                self.unreadable = str(error)
                raise
        read: tuple[int, Any] = super()._read_frame()
        return read
