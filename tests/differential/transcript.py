"""A broker's answers as lines that can be compared, and the few values made alike in them.

A line is the whole content of a method, header and body; one that does not encode back to the
very bytes that came shows those bytes as well. So equal lines are equal bytes, except for:

- names the broker makes: `amq.gen-...` and `amq.ctag-...`, of 22 characters in both brokers, and
  `amq.rabbitmq.reply-to....`, are numbered as they appear in the session;
- the properties in connection.start: only `capabilities` is compared, as the rest is the
  broker's own name, version and licence, and the mechanisms are sorted;
- a timestamp within a minute of the clock is `now` (x-death's time);
- confirms: which numbers were acked and which nacked is compared, not how they were gathered in
  frames, which is a matter of timing (`Channel.confirms`; one confirm alone is read as it came);
- frames of different channels: each channel's own order is compared, not how the channels'
  frames lie between each other;
- the kind of access that is refused, which later versions of RabbitMQ name;
- the tail of a long body is shown as its length and checksum.
"""

from __future__ import annotations

import re
import time
import zlib
from dataclasses import fields

from leveret.amqp_frames.methods import ConnectionStart, Method, encode_method
from leveret.amqp_frames.properties import Properties, encode_properties
from leveret.amqp_frames.values.field_table import Field

MADE_NAMES = re.compile(
    r"amq\.(?:gen|ctag)-[A-Za-z0-9_-]{22}(?![A-Za-z0-9_-])|"
    r"amq\.rabbitmq\.reply-to\.[^'\" ]+"
)
KIND_OF_ACCESS = re.compile("ACCESS_REFUSED - (configure|write|read) access to")
NOW_SECONDS = 60
BODY_SHOWN_BYTES_MAX = 100
_FRAME_OVERHEAD_BYTES = 8


def shown_field(value: object) -> str:
    """A field table's value with RabbitMQ's name of its type."""
    if isinstance(value, Field):
        if value.kind == "timestamp" and _is_now(value.value):
            return "timestamp now"
        return f"{value.kind} {shown_field(value.value)}"
    if isinstance(value, dict):
        inside = ", ".join(f"{name!r}: {shown_field(each)}" for name, each in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{', '.join(shown_field(each) for each in value)}]"
    return repr(value)


def shown_method(method: Method, payload: bytes) -> str:
    """The method with all its arguments that are not their default."""
    if isinstance(method, ConnectionStart):
        return _shown_start(method)
    inside = ", ".join(
        f"{field.name}={shown_field(getattr(method, field.name))}"
        for field in fields(method)  # type: ignore[arg-type]
        if field.name != "reserved_1"
    )
    same = encode_method(0, method)[7:-1] == payload
    return f"{method.name}({inside})" + ("" if same else f" as {payload.hex()}")


def shown_header(properties: Properties, encoded: bytes) -> str:
    """The properties that are there."""
    inside = ", ".join(
        f"{name}={shown_field(value)}"
        for name, value in zip(properties._fields, properties, strict=True)
        if value is not None
    )
    same = encode_properties(properties) == encoded
    return f"header({inside})" + ("" if same else f" as {encoded.hex()}")


def shown_body(sizes: list[int], body: bytes) -> str:
    """The body, and the sizes of its frames when there is more than one."""
    text = repr(body[:BODY_SHOWN_BYTES_MAX])
    if len(body) > BODY_SHOWN_BYTES_MAX:
        text += f"... {len(body)} bytes, crc {zlib.crc32(body):08x}"
    return f"body({text}" + (f", frames of {sizes})" if len(sizes) > 1 else ")")


class Names:
    """Names that the broker made, numbered in order of appearance in one session."""

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}

    def replaced(self, line: str) -> str:
        named = MADE_NAMES.sub(lambda found: self._number(found[0]), line)
        return KIND_OF_ACCESS.sub("ACCESS_REFUSED - access to", named)

    def _number(self, name: str) -> str:
        kind = re.match(r"amq\.(gen|ctag|rabbitmq\.reply-to)", name)
        assert kind is not None
        return self._numbers.setdefault(name, f"<{kind[1]} {len(self._numbers) + 1}>")


def _is_now(value: object) -> bool:
    return isinstance(value, int) and abs(value - time.time()) <= NOW_SECONDS


def _shown_start(start: ConnectionStart) -> str:
    capabilities = start.server_properties["capabilities"].value
    assert isinstance(capabilities, dict)
    announced = [name for name, is_there in capabilities.items() if is_there.value]
    return (
        f"connection.start(version={start.version_major}.{start.version_minor}, "
        f"capabilities={announced}, mechanisms={sorted(start.mechanisms.split())}, "
        f"locales={start.locales!r})"
    )
