"""Work in steps, between which its owner may do something else.

A generator that yields before each step which may take long: whoever drives it decides, by a clock
that core/ does not have, when to go on. What it returns is the result.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")
Steps = Generator[None, None, Result]


def carry_out(steps: Steps[Result]) -> Result:
    """Do all of it at once."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: Result = end.value
        return result
