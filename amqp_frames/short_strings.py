"""Short strings: a length octet and up to 255 octets, UTF-8 by the specification.

Not every peer keeps to UTF-8, and RabbitMQ does not look at what basic.publish carries. So octets
that are not UTF-8 become surrogate escapes (U+DC80 to U+DCFF) in the str and the same octets again
on the wire: decoding never fails and encoding gives back what came. Methods without content are
stricter, see wire_types.py.
"""

from __future__ import annotations

from .constants import SHORT_STRING_BYTES_MAX


def decode_text(octets: bytes) -> str:
    """The str for any octets; `encode_text` gives them back."""
    return octets.decode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    """The octets of a str: UTF-8, and surrogate escapes as the octets they stand for."""
    return text.encode("utf-8", "surrogateescape")


def is_utf8(text: str) -> bool:
    """Whether the octets that `decode_text` made this str of were UTF-8."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def encode_short_string(text: str) -> bytes:
    """Length octet and octets; ValueError if there are more than a length octet can say."""
    octets = encode_text(text)
    if len(octets) > SHORT_STRING_BYTES_MAX:
        raise ValueError(f"a short string of {len(octets)} octets: {text[:40]!r}...")
    return bytes((len(octets),)) + octets
