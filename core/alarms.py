"""Why publishers are not read: the disk is nearly full, the memory is, or both.

Each alarm is raised and cleared by its own watch. Publishers stop with the first, and go on when
none is left. The words are RabbitMQ's, which `connection.blocked` carries.
"""

from __future__ import annotations

from enum import Enum


class Resource(Enum):
    """What can run low; the value is its name in the words for the client."""

    MEMORY = "memory"
    DISK = "disk"


class Alarms:
    """The resources that are low. `reason` says which, and is "" while none is."""

    __slots__ = ("_low", "reason")

    def __init__(self) -> None:
        self._low: set[Resource] = set()
        self.reason = ""

    def is_low(self, resource: Resource) -> bool:
        """Is there an alarm for this?"""
        return resource in self._low

    def change(self, resource: Resource, is_low: bool) -> bool:
        """Raise or clear one alarm; true if publishers may go on because of this."""
        was_on = bool(self._low)
        if is_low:
            self._low.add(resource)
        else:
            self._low.discard(resource)
        names = [each.value for each in Resource if each in self._low]
        self.reason = "low on " + " & ".join(names) if names else ""
        return was_on and not names


class MemoryLevel:
    """Whether the broker holds too much: more than `high_bytes`, until less than `low_bytes`.

    The gap keeps publishers from being stopped and let go for every message. The numbers are bytes
    that the broker counts itself, not those that the system says of the process: Python keeps
    memory that it has freed, and an alarm by that might never end.
    """

    __slots__ = ("high_bytes", "is_high", "low_bytes")

    def __init__(self, high_bytes: int, low_bytes: int) -> None:
        self.high_bytes = high_bytes
        self.low_bytes = low_bytes
        self.is_high = False

    def look(self, held_bytes: int) -> bool:
        """Note the held bytes; true if it has become, or is no longer, too much."""
        is_high = held_bytes > (self.low_bytes if self.is_high else self.high_bytes)
        has_changed = is_high != self.is_high
        self.is_high = is_high
        return has_changed
