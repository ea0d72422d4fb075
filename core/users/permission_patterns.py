"""The regular expressions of permissions, found in a name in time linear in its length.

They are compiled by RE2, which never tries again: no pattern, however it is nested, and no name
that a client makes up can hold up the event loop. What RE2 cannot promise that for it does not
know, lookaheads and backreferences; such a pattern is refused when it is set. As in RabbitMQ
octets are compared, not characters.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import re2

PATTERN_CHARACTERS_MAX: Final = 4096
# Of one compiled pattern: it bounds the time of a search, too.
PATTERN_MEMORY_BYTES_MAX: Final = 1 << 20
_PATTERNS_KEPT_MAX: Final = 1024


class PatternError(Exception):
    """The text is no regular expression; says why."""


def _options() -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = PATTERN_MEMORY_BYTES_MAX
    # Only whether it fits is asked for, and errors are told to whom set it.
    options.never_capture = True
    options.log_errors = False
    return options


@functools.lru_cache(_PATTERNS_KEPT_MAX)
def _compiled(pattern: str) -> Any:
    return re2.compile((pattern or "^$").encode(), _options())


def check_pattern(pattern: str) -> None:
    """PatternError if the pattern cannot be used."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise PatternError(f"a pattern has at most {PATTERN_CHARACTERS_MAX} characters")
    try:
        # The catalog keeps it in UTF-8, which has no surrogates.
        _compiled(pattern)
    except UnicodeEncodeError as fault:
        raise PatternError(f"'{pattern}' is not a regular expression: {fault}") from None
    except re2.error as fault:
        reason = fault.args[0]
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        raise PatternError(f"'{pattern}' is not a regular expression: {text}") from None


def fits(pattern: str, name: str) -> bool:
    """Is the pattern found in the name? An empty one fits the empty name only."""
    try:
        compiled = _compiled(pattern)
    except re2.error:
        # Stored by another version: who cannot be shown to have the right has it not.
        return False
    return compiled.search(name.encode("utf-8", "surrogateescape")) is not None
