"""The regular expressions of permissions and policies: a search takes time linear in the name.

RE2 compiles them, which never tries again: no pattern, however it is nested, and no name that a
client makes up can hold up the event loop. RE2 has no lookaheads and backreferences, for which it
could not promise that; such a pattern is refused when it is set. As in RabbitMQ octets are
compared, not characters.
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
    # A search has no groups to report, and `check_pattern` reports errors.
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


def literal_pattern(text: str) -> str:
    """A pattern that is found where the text is."""
    escaped: str = re2.escape(text)
    return escaped


def compiled_pattern(pattern: str) -> Any:
    """The pattern as RE2 has it, with `search(octets)`; an empty one fits the empty name only.

    None if RE2 refuses it because another version of it was in use when the pattern was set: a
    right that cannot be shown is not given.
    """
    try:
        return _compiled(pattern)
    except re2.error:
        return None
