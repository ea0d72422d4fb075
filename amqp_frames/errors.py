"""A peer's mistake, as the exception that ends its channel or its connection.

Raised by the codec and by core; turned into channel.close or connection.close in one place, the
actor that owns the channel or the connection. A fault of our own is never one of these.

The reply text is a short string on the wire, so it holds 255 octets at most. Longer ones are cut
at 252 octets, never inside a UTF-8 sequence, and end in "...", as RabbitMQ does it. Octets of the
peer that were not UTF-8 (surrogate escapes, see amqp_frames/methods/wire_types.py) show as "?", so
that every client can decode the text.
"""

from __future__ import annotations

from .constants import REPLY_NAMES, SHORT_STRING_BYTES_MAX, SOFT_REPLY_CODES

_ELLIPSIS = "..."


class AmqpError(Exception):
    """The base: a reply code, its text, and the method that caused it (0, 0 when none did)."""

    def __init__(
        self, reply_code: int, explanation: str, class_id: int = 0, method_id: int = 0
    ) -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text(reply_code, explanation)
        self.class_id = class_id
        self.method_id = method_id
        super().__init__(reply_code, self.reply_text, class_id, method_id)

    def __str__(self) -> str:
        return f"{self.reply_code} {self.reply_text}"


class SoftError(AmqpError):
    """Closes the channel, or the connection when it happened on channel 0."""

    def __init__(
        self, reply_code: int, explanation: str, class_id: int = 0, method_id: int = 0
    ) -> None:
        assert reply_code in SOFT_REPLY_CODES, reply_code
        super().__init__(reply_code, explanation, class_id, method_id)


class HardError(AmqpError):
    """Closes the connection. Soft codes may appear here too: a refused login is 403."""


def reply_text(reply_code: int, explanation: str) -> str:
    """The text for a close method: the code's name and the explanation, at most 255 octets."""
    text = f"{REPLY_NAMES[reply_code]} - {explanation}"
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > SHORT_STRING_BYTES_MAX:
        kept = encoded[: SHORT_STRING_BYTES_MAX - len(_ELLIPSIS)]
        # "ignore" drops the octets of a character that the cut has split, and nothing else: the
        # bytes before the cut are valid.
        return kept.decode("utf-8", "ignore") + _ELLIPSIS
    return encoded.decode("utf-8")
