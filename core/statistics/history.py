"""Short histories of counts and gauges, and the rates and samples that follow from them.

Time is counted in ticks, one for each sample of the node; the caller knows the tick. A history has
a row only for those ticks at which the values had changed, so that an idle object costs nothing.
Before its first row every value is 0: the object was not there, or had counted nothing.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

# More samples than this RabbitMQ's own page never asks for.
SAMPLES_PER_ANSWER_MAX: Final = 1_000


class Range(NamedTuple):
    """Samples wanted: of the last `age_seconds`, one for each `increment_seconds`."""

    age_seconds: int
    increment_seconds: int

    def is_valid(self) -> bool:
        """Are there a positive number of samples, and not too many?"""
        age, increment = self
        return age > 0 and increment > 0 and age // increment <= SAMPLES_PER_ANSWER_MAX


class History:
    """Rows of as many whole numbers as there are `columns`, in the order of their ticks."""

    __slots__ = ("_rows", "_width")

    def __init__(self, columns: int) -> None:
        self._width = columns + 1
        # Each row behind its tick.
        self._rows = array("q")

    def __len__(self) -> int:
        """How many rows it has."""
        return len(self._rows) // self._width

    @property
    def last_tick(self) -> int:
        """The tick of the last change; -1 if there was none."""
        return self._rows[-self._width] if self._rows else -1

    def record(self, tick: int, values: Sequence[int], first_kept: int) -> None:
        """Note the values of a tick; forget rows that nobody needs from `first_kept` on."""
        rows, width = self._rows, self._width
        row = array("q", (tick, *values))
        if not rows or rows[1 - width :] != row[1:]:
            if rows and rows[-width] == tick:
                del rows[-width:]
            rows.extend(row)
        self.forget(first_kept)

    def forget(self, first_kept: int) -> None:
        """Keep the values at `first_kept` and later ticks."""
        rows, width = self._rows, self._width
        end = 0
        while end + width < len(rows) and rows[end + width] <= first_kept:
            end += width
        if end:
            del rows[:end]

    def at(self, column: int, tick: int) -> int:
        """A value at this tick."""
        rows, width = self._rows, self._width
        place = bisect_right(range(len(self)), tick, key=lambda number: rows[number * width])
        return rows[(place - 1) * width + 1 + column] if place else 0


class Moment(NamedTuple):
    """The last tick of a node and the one before, the milliseconds of a tick, the first kept."""

    tick: int
    previous: int
    interval_ms: int
    first_kept: int


def details(
    histories: Iterable[History | None],
    columns: Sequence[int],
    moment: Moment,
    wanted: Range | None = None,
) -> dict[str, Any]:
    """The rate of the sum of these columns of all histories, with samples if some are wanted.

    As in RabbitMQ: the rate is that between the last two ticks, a second; samples begin with the
    last, at times that are multiples of the increment, in milliseconds since the epoch; `avg` is
    their mean, `avg_rate` their change a second.
    """
    found = [each for each in histories if each is not None]

    def value(tick: int) -> int:
        return sum([each.at(column, tick) for each in found for column in columns])

    tick, previous, interval_ms, first_kept = moment
    rate = 0.0
    if any(each.last_tick == tick for each in found):
        rate = (value(tick) - value(previous)) * 1000 / (interval_ms * (tick - previous))
    if wanted is None:
        return {"rate": rate}
    age_ms, increment_ms = wanted.age_seconds * 1000, wanted.increment_seconds * 1000
    now_ms = tick * interval_ms
    last_ms = now_ms - now_ms % increment_ms
    first_ms = max(last_ms - age_ms, first_kept * interval_ms)
    times = range(last_ms, first_ms - 1, -increment_ms)
    samples = [{"sample": value(at // interval_ms), "timestamp": at} for at in times]
    answer: dict[str, Any] = {"rate": rate, "samples": samples}
    if samples:
        counts = [each["sample"] for each in samples]
        answer["avg"] = sum(counts) / len(counts)
        seconds = (times[0] - times[-1]) / 1000
        answer["avg_rate"] = (counts[0] - counts[-1]) / seconds if seconds else 0.0
    return answer
