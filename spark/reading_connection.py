"""A blocking connection of pika's that can read every message.

Pika's decoder raises where a header's value is none of Python's: a timestamp behind the year 9999,
as one in milliseconds is, an infinity, no number. Its connection is lost by that, the broker
delivers the message again, and so on for ever: nobody would ever be told. So what pika cannot
decode is decoded by Leveret's codec. What that cannot either (RabbitMQ lets tables nest as deep as
they like) ends the reading, loudly.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from struct import Struct
from typing import Any, Final

import pika
from pika import frame

from ..amqp_frames.constants import CONTENT_HEADER_BYTES, FRAME_HEADER
from ..amqp_frames.errors import HardError
from ..amqp_frames.field_types import Field, Table
from ..amqp_frames.properties import Properties, decode_properties
from ..amqp_frames.short_strings import encode_text, is_utf8
from .broker_errors import SourceError

# Type, channel and payload size; then class, weight and body size.
_HEADER: Final = Struct(">BHIHHQ")
_FRAME_HEAD_BYTES: Final = 7
_FRAME_END_BYTES: Final = 1


class ReadingConnection(pika.BlockingConnection):
    """Pika's, but for how content headers are decoded."""

    def __init__(self, parameters: pika.ConnectionParameters) -> None:
        super().__init__(parameters, _impl_class=_Connection)

    def check(self) -> None:
        """Raise SourceError if a message came that cannot be read, now or at another try."""
        unreadable = getattr(self._impl, "unreadable", None)
        if unreadable is not None:
            raise SourceError(f"a message cannot be read: {unreadable}")


class _Connection(pika.SelectConnection):
    unreadable: str | None = None

    def _read_frame(self) -> tuple[int, Any]:
        try:
            read: tuple[int, Any] = super()._read_frame()
            return read
        # OSError and OverflowError: of datetime, by platform and size.
        except (ValueError, OverflowError, OSError, RecursionError):
            return self._read_header()

    def _read_header(self) -> tuple[int, frame.Header]:
        """The content header that is first in the buffer, all of it."""
        data = self._frame_buffer
        kind, channel, size, _class, _weight, body_bytes = _HEADER.unpack_from(data)
        if kind != FRAME_HEADER:
            raise ValueError(f"a frame of type {kind} cannot be decoded")
        end = _FRAME_HEAD_BYTES + size
        try:
            found = decode_properties(data, _FRAME_HEAD_BYTES + CONTENT_HEADER_BYTES, end)
        except HardError as error:
            self.unreadable = str(error)
            raise
        return end + _FRAME_END_BYTES, frame.Header(channel, body_bytes, _as_pika_has(found))


def _as_pika_has(properties: Properties) -> pika.BasicProperties:
    values: dict[str, Any] = properties._asdict()
    headers: Table | None = values.pop("headers")
    texts = {name: _text(each) if isinstance(each, str) else each for name, each in values.items()}
    return pika.BasicProperties(headers=None if headers is None else _table(headers), **texts)


def _table(table: Table) -> dict[Any, Any]:
    return {_text(name): _value(field) for name, field in table.items()}


def _value(field: Field) -> Any:
    """As pika has it; a timestamp that is none of Python's stays a number of seconds."""
    kind, value = field
    if kind == "table":
        assert isinstance(value, dict)
        return _table(value)
    if kind == "array":
        assert isinstance(value, list)
        return [_value(each) for each in value]
    if kind == "decimal":
        assert isinstance(value, tuple)
        scale, unscaled = value
        return Decimal(unscaled).scaleb(-scale)
    if kind == "timestamp":
        assert isinstance(value, int)
        try:
            return datetime.fromtimestamp(value, UTC)
        except (ValueError, OverflowError, OSError):
            return value
    return value


def _text(text: str) -> str | bytes:
    """What is not UTF-8 is bytes, as pika has it."""
    return text if is_utf8(text) else encode_text(text)
