"""JSON text, by orjson where there is one."""

from __future__ import annotations

import json
from typing import Any

try:
    import orjson
except ModuleNotFoundError:  # it is for CPython only

    def encoded(value: object) -> bytes:
        """The value as JSON."""
        # In ASCII: a name that is not UTF-8 has surrogate escapes, which have no encoding.
        return json.dumps(value, separators=(",", ":")).encode()

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
            return json.dumps(value, separators=(",", ":")).encode()

    def decoded(text: bytes) -> Any:
        """The JSON's value; ValueError."""
        return orjson.loads(text)
