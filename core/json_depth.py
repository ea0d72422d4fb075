"""How deep JSON may be nested.

Its text is read by decoders that bear a thousand levels and more; what checks and prints the values
calls itself for each level, and would come to Python's limit in the middle of a change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

# More than a field table's in a definitions file. RabbitMQ's own files have less than ten.
JSON_DEPTH_MAX: Final = 100


def check_depth(value: object) -> None:
    """ValueError if the value is nested deeper than that."""
    iterators: list[Iterator[object]] = [iter((value,))]
    while iterators:
        for each in iterators[-1]:
            if isinstance(each, dict | list) and each:
                if len(iterators) > JSON_DEPTH_MAX:
                    raise ValueError(f"nested deeper than {JSON_DEPTH_MAX} levels")
                iterators.append(iter(each.values() if isinstance(each, dict) else each))
                break
        else:
            iterators.pop()
