"""When messages came in, by the wall clock.

A batch has the time of its arrival by a clock that only goes forward. A message is to have the same
timestamp at each delivery, so the distance between the two clocks is kept until they have come
apart by more than DRIFT_NS: because somebody has set the wall clock, or the machine was suspended.
"""

from __future__ import annotations

from typing import Final

DRIFT_NS: Final = 50_000_000


class Arrivals:
    """Of a node; all times are nanoseconds.

    Several threads may look. If the clocks have just come apart, two of them may find distances
    that differ by the time between their looks, and one of these counts from then on.
    """

    def __init__(self) -> None:
        self._distance_ns = 0

    def look(self, wall_ns: int, forward_ns: int) -> int:
        """The nanoseconds to add to a batch's time of arrival, by both clocks as they are now."""
        distance_ns = wall_ns - forward_ns
        if abs(distance_ns - self._distance_ns) > DRIFT_NS:
            self._distance_ns = distance_ns
        return self._distance_ns
