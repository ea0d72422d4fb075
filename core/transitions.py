"""A table of transitions: the only ways from one state to another.

An object with states keeps its own, and asks its table at each event. A transition that the table
does not list is a mistake of ours: the error ends the actor whose state it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

AnyState = TypeVar("AnyState", bound=Enum)


class Transitions(dict[tuple[str, AnyState], AnyState]):
    """Event and state -> state; AssertionError for a transition that is not listed.

    `subject` begins the sentence that names such a transition.
    """

    def __init__(self, subject: str, listed: Mapping[tuple[str, AnyState], AnyState]) -> None:
        super().__init__(listed)
        self._subject = subject

    def __missing__(self, key: tuple[str, AnyState]) -> AnyState:
        """Raise, because the event must not happen in this state."""
        event, state = key
        raise AssertionError(f"{event} while {self._subject} {state.value}")
