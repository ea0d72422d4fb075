"""Names of arguments and of keys of policies, which have dashes where Python has underscores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def dashed(named: Mapping[str, Any]) -> dict[str, Any]:
    """`max_length` becomes `max-length`; the values stay."""
    return {name.replace("_", "-"): value for name, value in named.items()}
