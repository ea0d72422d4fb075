"""The properties of class basic: fourteen optional values behind sixteen flag bits.

    content header payload = class_id:16 weight:16 body_size:64 flags:16 { value }
    flags, from the highest bit: the fourteen below in this order, then two unused ones

The values that are present follow in the order of their flags. `start` is always the place of the
first flag octet, `end` the end of the payload.

As in RabbitMQ (rabbit_framing_amqp_0_9_1:decode_properties), the two low bits mean nothing (the
specification would let the lowest announce more flags) and no string is checked for UTF-8: other
octets become surrogate escapes (amqp_frames/values/field_table.py). Values that end early or late
are HardError 502 SYNTAX_ERROR; in RabbitMQ they crash the channel, which its client sees as 541.

Bounds are not checked value by value, as in amqp_frames/values/field_table.py: a position past the
end stays there.

This module also decides which publishes the broker must examine before their bytes pass. It decides
once for properties that a publisher repeats, by their flags and, where a header's name counts, by
its octets: a name that only looks like such a header costs a check, and no more.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - an exception that struct spells small
from typing import Final, NamedTuple

from .constants import CLASS_BASIC, SYNTAX_ERROR
from .errors import HardError
from .values.field_table import (
    Table,
    decode_table,
    decode_text,
    encode_short_string,
    encode_table,
    skip_table,
)

FLAG_CONTENT_TYPE: Final = 0x8000
FLAG_CONTENT_ENCODING: Final = 0x4000
FLAG_HEADERS: Final = 0x2000
FLAG_DELIVERY_MODE: Final = 0x1000
FLAG_PRIORITY: Final = 0x0800
FLAG_CORRELATION_ID: Final = 0x0400
FLAG_REPLY_TO: Final = 0x0200
FLAG_EXPIRATION: Final = 0x0100
FLAG_MESSAGE_ID: Final = 0x0080
FLAG_TIMESTAMP: Final = 0x0040
FLAG_TYPE: Final = 0x0020
FLAG_USER_ID: Final = 0x0010
FLAG_APP_ID: Final = 0x0008
FLAG_CLUSTER_ID: Final = 0x0004

TRANSIENT: Final = 1
PERSISTENT: Final = 2
# Transient and persistent: there are no others.
DELIVERY_MODES: Final = (1, PERSISTENT)

_FLAGS: Final = Struct(">H")
_LENGTH: Final = Struct(">I")
_OCTET: Final = Struct(">B")
_TIMESTAMP: Final = Struct(">Q")


class Properties(NamedTuple):
    """None: absent. RabbitMQ reads delivery_mode 2 as persistent and all else as transient."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


# Flag and layout of each field, in order. None is a short string; headers are a case of their own.
_LAYOUTS: Final = {"delivery_mode": _OCTET, "priority": _OCTET, "timestamp": _TIMESTAMP}
_VALUES: Final = tuple(
    (0x8000 >> place, _LAYOUTS.get(name)) for place, name in enumerate(Properties._fields)
)


def decode_properties(data: bytes, start: int, end: int) -> Properties:
    """The properties whose flags and values are exactly data[start:end]."""
    values: list[str | int | Table | None] = [None] * len(_VALUES)
    try:
        flags: int = _FLAGS.unpack_from(data, start)[0]
        position = start + _FLAGS.size
        for place, (flag, layout) in enumerate(_VALUES):
            if not flags & flag:
                continue
            if layout is not None:
                values[place] = layout.unpack_from(data, position)[0]
                position += layout.size
            elif flag == FLAG_HEADERS:
                table_end = position + 4 + _LENGTH.unpack_from(data, position)[0]
                if table_end > end:
                    raise _malformed()
                values[place] = decode_table(data, position, table_end)
                position = table_end
            else:
                value_end = position + 1 + data[position]
                values[place] = decode_text(data[position + 1 : value_end])
                position = value_end
    except (IndexError, StructError):
        raise _malformed() from None
    except HardError as error:
        raise _of_publish(error) from None
    if position != end:
        raise _malformed()
    return Properties._make(values)


def check_properties(data: bytes, start: int, end: int) -> int:
    """Raise what `decode_properties` would raise; return the delivery mode, 0 when absent.

    On the path of every publish whose properties differ from those of the one before: bytes and
    ints only, so that it can be compiled.
    """
    delivery_mode = 0
    try:
        high = data[start]
        low = data[start + 1]
        position = start + 2
        if high & 0x80:  # content_type
            position += 1 + data[position]
        if high & 0x40:  # content_encoding
            position += 1 + data[position]
        if high & 0x20:  # headers
            position = skip_table(data, position, end)
        if high & 0x10:
            delivery_mode = data[position]
            position += 1
        if high & 0x08:  # priority
            position += 1
        if high & 0x04:  # correlation_id
            position += 1 + data[position]
        if high & 0x02:  # reply_to
            position += 1 + data[position]
        if high & 0x01:  # expiration
            position += 1 + data[position]
        if low:
            if low & 0x80:  # message_id
                position += 1 + data[position]
            if low & 0x40:  # timestamp
                position += 8
            if low & 0x20:  # type
                position += 1 + data[position]
            if low & 0x10:  # user_id
                position += 1 + data[position]
            if low & 0x08:  # app_id
                position += 1 + data[position]
            if low & 0x04:  # cluster_id
                position += 1 + data[position]
    except IndexError:
        raise _malformed() from None
    except HardError as error:
        raise _of_publish(error) from None
    if position != end:
        raise _malformed()
    return delivery_mode


def encode_properties(properties: Properties) -> bytes:
    """Flags and values; ValueError if a value does not fit its type."""
    flags = 0
    pieces = [b""]
    for (flag, layout), value in zip(_VALUES, properties, strict=True):
        if value is None:
            continue
        flags |= flag
        if flag == FLAG_HEADERS:
            assert isinstance(value, dict)
            pieces.append(encode_table(value))
        elif layout is None:
            assert isinstance(value, str)
            pieces.append(encode_short_string(value))
        else:
            try:
                pieces.append(layout.pack(value))
            except StructError as error:
                raise ValueError(f"{error}: {properties!r}") from error
    pieces[0] = _FLAGS.pack(flags)
    return b"".join(pieces)


def _malformed() -> HardError:
    return _of_publish(HardError(SYNTAX_ERROR, "malformed basic properties"))


def _of_publish(error: HardError) -> HardError:
    """Name basic.publish, the one method whose properties a client sends, as the culprit."""
    error.class_id = CLASS_BASIC
    error.method_id = 40
    return error


# In the first octet of the flags: headers, delivery_mode, reply_to and expiration; in the second:
# user_id.
_HEADERS_HIGH: Final = 0x20
_DELIVERY_MODE_HIGH: Final = 0x10
_REPLY_TO_HIGH: Final = 0x02
_EXPIRATION_HIGH: Final = 0x01
_USER_ID_LOW: Final = 0x10
# Header names as on the wire: further routing keys (RabbitMQ's sender-selected distribution).
_CC: Final = b"\x02CC"
_BCC: Final = b"\x03BCC"
# The value of reply_to, as on the wire, that asks for a direct reply.
_DIRECT: Final = b"\x15amq.rabbitmq.reply-to"


def must_look(properties: bytes, delivery_mode: int) -> bool:
    """Do these properties, flags and values as on the wire, concern the broker?"""
    high = properties[0]
    if delivery_mode not in DELIVERY_MODES and high & _DELIVERY_MODE_HIGH:
        return True
    if high & _EXPIRATION_HIGH or properties[1] & _USER_ID_LOW:
        return True
    if high & _REPLY_TO_HIGH and _DIRECT in properties:
        return True
    return bool(high & _HEADERS_HIGH) and (_CC in properties or _BCC in properties)
