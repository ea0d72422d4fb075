"""Values as the witnesses have them, which know no kinds of fields."""

from __future__ import annotations

from typing import Any

from leveret.amqp_frames.values.field_table import Field


def plain(value: Any) -> Any:
    """A value as a witness has it: no kinds, long strings as text."""
    if isinstance(value, Field):
        return plain(value.value)
    if isinstance(value, dict):
        return {name: plain(field) for name, field in value.items()}
    if isinstance(value, list):
        return [plain(field) for field in value]
    return value.decode() if isinstance(value, bytes) else value
