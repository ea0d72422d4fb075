from __future__ import annotations

from leveret.core.arrivals import DRIFT_NS, Arrivals


def test_a_message_has_the_same_timestamp_at_each_delivery() -> None:
    arrivals = Arrivals()
    assert arrivals.look(1_000_000_000_000, 7) == 999_999_999_993
    assert arrivals.look(1_000_000_000_000 + DRIFT_NS, 7) == 999_999_999_993


def test_a_wall_clock_that_was_set_counts_from_then_on() -> None:
    arrivals = Arrivals()
    arrivals.look(1_000_000_000_000, 0)
    assert arrivals.look(1_000_000_000_001 + DRIFT_NS, 0) == 1_000_000_000_001 + DRIFT_NS
    assert arrivals.look(5, 0) == 5
