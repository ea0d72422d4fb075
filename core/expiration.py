"""The `expiration` of a message: what is wrong with it, as RabbitMQ prints it."""

from __future__ import annotations

import re
from typing import Final

from .arguments import EXPIRY_MS_MAX

# As Erlang's string:to_integer.
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def expiration_fault(expiration: str) -> str | None:
    """Why a message with this expiration cannot be published; None: it is milliseconds, as text."""
    found = _INTEGER.match(expiration)
    if found is None:
        return "no_integer"
    rest = expiration[found.end() :]
    if rest:
        return f'{{leftover_string,"{rest}"}}'
    milliseconds = int(found[0])
    if milliseconds < 0:
        return f"{{value_negative,{milliseconds}}}"
    if milliseconds > EXPIRY_MS_MAX:
        return f"{{value_too_large,{milliseconds}}}"
    return None
