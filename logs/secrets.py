"""Finds secrets, by name or by form, so that no log and no trace shows them.

Clients put things where they do not belong: an address with its password as the name of a virtual
host, a login that is no frame. The log quotes what they sent, so this module searches each quoted
value.
"""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"
# Fields that hold one.
SECRETS: Final = frozenset(
    {"password", "default_password", "response", "secret", "new_secret", "token", "authorization"}
)
# Of `amqp://user:password@host/vhost`; a password may itself have an @ or a slash.
_USER_OF_URI: Final = re.compile(r"(?<=://)[^\s\"'<>]*@")
# What a frame was that is none, as Erlang shows it: it may have been a login.
_OCTETS: Final = re.compile(r'(?<=octets = <<)(?:"(?:[^"\\]|\\.)+"|[0-9,]+)(?=>>)')


def masked(text: str) -> str:
    """The text without what looks like a secret."""
    if "://" in text:
        text = _USER_OF_URI.sub(MASK + "@", text)
    return _OCTETS.sub(MASK, text) if "octets = <<" in text else text
