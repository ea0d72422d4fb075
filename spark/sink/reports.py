"""Reports of partitions about their rows, and the driver's summary of them.

Each task gives one `Tally` back in its commit message; the sum of them is the event
`spark.sink.batch` in the log. Tallies are small however many rows there were: latencies are counted
in steps of a twentieth, and no more than `maxReturnedSamples` rows are named.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

# Each step is so much longer than the one before; the first ends at a tenth of a millisecond.
_STEP: Final = 1.05
_LEAST_S: Final = 0.0001


class ReturnedSample(NamedTuple):
    """One of the rows that were not taken; code 0 is a nack. Says nothing of the body."""

    row: int
    message_id: str
    exchange: str
    routing_key: str
    code: int
    text: str


class InvalidSample(NamedTuple):
    """One of the rows that could not be published. Says nothing of its values."""

    partition: int
    row: int
    column: str
    what: str


class Latencies:
    """Counts of durations by their logarithm: percentiles within a twentieth."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, seconds: float, count: int) -> None:
        """So many took so long."""
        step = math.ceil(math.log(max(seconds, _LEAST_S) / _LEAST_S, _STEP))
        self._counts[step] = self._counts.get(step, 0) + count

    def merge(self, other: Latencies) -> None:
        """And those."""
        for step, count in other._counts.items():
            self._counts[step] = self._counts.get(step, 0) + count

    def percentile_ms(self, percent: float) -> float:
        """So many of a hundred took no longer; 0 if there are none."""
        left = sum(self._counts.values()) * percent / 100
        for step in sorted(self._counts):
            left -= self._counts[step]
            if left <= 0:
                return round(_LEAST_S * _STEP**step * 1000, 2)
        return 0.0


@dataclass
class Tally:
    """Counts of rows. When a task has ended well, the next four add up to `rows`."""

    rows: int = 0
    confirmed: int = 0
    # Unroutable; if onReturned is deadletter, their dead letters are confirmed.
    returned: int = 0
    # Given up after all retries.
    nacked: int = 0
    # Not publishable; if onInvalid is deadletter, their dead letters are confirmed.
    invalid: int = 0
    # Published again after a nack; after a lost connection, when perhaps they had arrived.
    nacked_retried: int = 0
    republished: int = 0
    deadlettered: int = 0
    reconnects: int = 0
    latencies: Latencies = field(default_factory=Latencies)
    samples: list[ReturnedSample] = field(default_factory=list)
    invalid_samples: list[InvalidSample] = field(default_factory=list)

    def merge(self, other: Tally) -> None:
        """Add another partition's."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.latencies.merge(other.latencies)
        self.samples += other.samples
        self.invalid_samples += other.invalid_samples


COUNTS: Final = (
    "rows",
    "confirmed",
    "returned",
    "nacked",
    "invalid",
    "nacked_retried",
    "republished",
    "deadlettered",
    "reconnects",
)


def total(tallies: Iterable[Tally]) -> Tally:
    """The sum of all partitions."""
    result = Tally()
    for tally in tallies:
        result.merge(tally)
    return result


def fields(tally: Tally, samples_max: int) -> dict[str, object]:
    """The fields of a batch for the log."""
    shown: dict[str, object] = {name: getattr(tally, name) for name in COUNTS}
    shown["confirm_p50_ms"] = tally.latencies.percentile_ms(50)
    shown["confirm_p99_ms"] = tally.latencies.percentile_ms(99)
    if tally.samples and samples_max:
        shown["samples"] = [sample._asdict() for sample in tally.samples[:samples_max]]
    if tally.invalid_samples and samples_max:
        shown["invalid_samples"] = [each._asdict() for each in tally.invalid_samples[:samples_max]]
    return shown
