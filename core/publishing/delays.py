"""A delay in milliseconds, in a header of a publish: `x-delay`, and `delay-ms` of a requeue.

Integers of any type, floats, which are cut off, and strings of digits are delays, as for RabbitMQ's
delayed-message plugin. That plugin heeds no other value; here a value that is no delay, negative
or above DELAY_MS_MAX closes the channel, so that no message is due earlier than its publisher
believes.
"""

from __future__ import annotations

import math
import re
from typing import Final

from ...amqp_frames.values.field_table import INTEGER_KINDS, Field

# 2^32 - 1, as the plugin has it: the longest timer of Erlang, 49.7 days.
DELAY_MS_MAX: Final = 2**32 - 1

_FLOAT_KINDS: Final = frozenset({"float", "double"})
_DIGITS: Final = re.compile(r"[+-]?[0-9]+")
# More digits than any delay has; Python takes its time for very long numbers.
_DIGITS_MAX: Final = 20


def delay_in(field: Field) -> int | str:
    """The delay in milliseconds that a header asks for, or why it is none, as RabbitMQ prints it.

    A negative delay is a delay: `delay_fault` refuses it.
    """
    value = field.value
    if field.kind in INTEGER_KINDS:
        assert isinstance(value, int)
        return value
    if field.kind in _FLOAT_KINDS:
        assert isinstance(value, float)
        return int(value) if math.isfinite(value) else f"{{no_number,{value}}}"
    if field.kind == "longstr":
        if isinstance(value, str) and len(value) <= _DIGITS_MAX and _DIGITS.fullmatch(value):
            return int(value)
        return "no_integer"
    return f"{{unacceptable_type,{field.kind}}}"


def delay_fault(field: Field) -> str | None:
    """Why a publish cannot have this delay, as RabbitMQ prints it; None if it can."""
    delay_ms = delay_in(field)
    if isinstance(delay_ms, str):
        return delay_ms
    if delay_ms < 0:
        return f"{{value_negative,{delay_ms}}}"
    if delay_ms > DELAY_MS_MAX:
        return f"{{value_too_large,{delay_ms}}}"
    return None
