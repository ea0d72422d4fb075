"""JSON text, by orjson where there is one."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any


def _plainly_encoded(value: object) -> bytes:
    """By Python's own encoder.

    In ASCII: a name that is not UTF-8 has surrogate escapes, which have no encoding. Numbers that
    are not finite are null, as orjson has them: JSON has no word for them.
    """
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        return json.dumps(_without_infinite(value), separators=(",", ":")).encode()


def _without_infinite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_infinite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinite(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value


try:
    import orjson
except ModuleNotFoundError:  # it is for CPython only

    def encoded(value: object) -> bytes:
        """The value as JSON."""
        return _plainly_encoded(value)

    def decoded(text: bytes) -> Any:
        """The JSON's value; ValueError."""
        try:
            return json.loads(text)
        except RecursionError:
            raise ValueError("nested too deeply") from None

else:

    def encoded(value: object) -> bytes:
        """The value as JSON."""
        try:
            return orjson.dumps(value)
        except TypeError:
            # A name that is not UTF-8 has surrogate escapes, which orjson refuses.
            return _plainly_encoded(value)

    def decoded(text: bytes) -> Any:
        """The JSON's value; ValueError."""
        return orjson.loads(text)
