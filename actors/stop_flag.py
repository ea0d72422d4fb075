"""How an actor of the event loop says that it has stopped."""

from __future__ import annotations


class StopFlag:
    """Says whether an actor has stopped: what Pykka needs of a threading.Event, and no lock.

    It is asked several times for each message, and there is one for each actor, so both its time
    and its size count. Nobody waits for it.
    """

    __slots__ = ("_marks", "is_set")

    def __init__(self) -> None:
        self._marks: list[bool] = []
        # The list's own method: no Python function is called.
        self.is_set = self._marks.__len__

    def set(self) -> None:
        """The actor has stopped."""
        self._marks.append(True)
