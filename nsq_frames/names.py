"""Names of topics and channels: what nsqd allows, and how it quotes a name in an error."""

from __future__ import annotations

import re
from typing import Final

NAME_BYTES_MAX: Final = 64
_VALID: Final = re.compile(rb"[.a-zA-Z0-9_-]+(#ephemeral)?")
# What Go's %q writes for an octet that it does not show.
_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
# How Python keeps an octet that is no UTF-8.
_LONE_OCTETS: Final = range(0xDC80, 0xDD00)


def is_valid_name(name: bytes) -> bool:
    """May a topic or a channel be called so?"""
    return 0 < len(name) <= NAME_BYTES_MAX and _VALID.fullmatch(name) is not None


def quoted(name: bytes) -> bytes:
    """The name as Go's %q prints it, which nsqd's errors show."""
    shown = [_shown(each) for each in name.decode("utf-8", "surrogateescape")]
    return f'"{"".join(shown)}"'.encode()


def _shown(character: str) -> str:
    code = ord(character)
    if character in _ESCAPES:
        return _ESCAPES[character]
    if code in _LONE_OCTETS:
        return f"\\x{code - 0xDC00:02x}"
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
