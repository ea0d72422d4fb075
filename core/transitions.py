"""A table of transitions: the only ways from one state to another.

An object with states keeps its own, and asks its table at each event. A transition that the table
does not list is a mistake of ours: the error ends the actor whose state it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

AnyState = TypeVar("AnyState", bound=Enum)


class Transitions(Generic[AnyState]):
    """Event and state -> state. `subject` begins the sentence that names a wrong transition."""

    __slots__ = ("_next", "_subject")

    def __init__(self, subject: str, table: Mapping[tuple[str, AnyState], AnyState]) -> None:
        self._subject = subject
        self._next = table

    def after(self, event: str, state: AnyState) -> AnyState:
        """The state that the event leads to; AssertionError if it must not happen in this state."""
        found = self._next.get((event, state))
        assert found is not None, f"{event} while {self._subject} {state.value}"
        return found
