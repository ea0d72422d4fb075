"""Values of a control request's arguments, checked; ValueError says which one is wrong."""

from __future__ import annotations

from collections.abc import Mapping

Arguments = Mapping[str, object]


def text_argument(arguments: Arguments, name: str) -> str:
    """The argument, a string that must be there."""
    value = arguments.get(name)
    if not isinstance(value, str):
        raise ValueError(f"'{name}' must be a string")
    return value


def optional_text(arguments: Arguments, name: str) -> str | None:
    """The argument, a string if it is there."""
    return None if arguments.get(name) is None else text_argument(arguments, name)
