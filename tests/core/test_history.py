"""Histories, and the rates and samples that RabbitMQ's API answers with."""

from __future__ import annotations

import pytest
from leveret.core.statistics.history import History, Moment, Range, details

TICK_MS = 5_000


def history_of(**values: int) -> History:
    """One column: t3=7 is the value 7 at tick 3."""
    history = History(1)
    for name, value in values.items():
        history.record(int(name[1:]), (value,), 0)
    return history


def moment(tick: int, first_kept: int = 0) -> Moment:
    return Moment(tick, tick - 1, TICK_MS, first_kept)


def test_a_value_holds_until_the_next_row() -> None:
    history = history_of(t3=7, t6=9)
    assert [history.at(0, tick) for tick in range(1, 9)] == [0, 0, 7, 7, 7, 9, 9, 9]


def test_a_value_that_has_not_changed_makes_no_row() -> None:
    history = history_of(t1=4, t2=4, t3=4, t4=5)
    assert (len(history), history.last_tick) == (2, 4)


def test_a_tick_recorded_again_has_one_row() -> None:
    history = history_of(t1=4, t01=6)
    assert (len(history), history.at(0, 1)) == (1, 6)


def test_what_is_kept_has_the_values_of_all_kept_ticks() -> None:
    history = history_of(t1=1, t2=2, t3=3, t5=5)
    history.forget(4)
    assert len(history) == 2
    assert [history.at(0, tick) for tick in (4, 5, 6)] == [3, 5, 5]


def test_a_rate_is_that_between_the_last_two_ticks() -> None:
    history = history_of(t1=10, t2=13)
    assert details([history], (0,), moment(2)) == {"rate": 0.6}
    assert details([history], (0,), moment(3)) == {"rate": 0.0}


def test_a_tick_that_came_late_counts_for_its_whole_time() -> None:
    history = history_of(t1=10, t4=25)
    assert details([history], (0,), Moment(4, 1, TICK_MS, 0)) == {"rate": 1.0}


def test_samples_and_averages_are_as_rabbitmq_has_them() -> None:
    # Measured on RabbitMQ 3.10.8: 3 acks in the last of 60 seconds.
    tick = 1795411290000 // TICK_MS
    history = History(1)
    history.record(tick, (3,), 0)
    found = details([history], (0,), moment(tick), Range(60, 5))
    samples = found.pop("samples")
    assert found == {"rate": 0.6, "avg_rate": 0.05, "avg": 0.23076923076923078}
    assert samples[:2] == [
        {"sample": 3, "timestamp": 1795411290000},
        {"sample": 0, "timestamp": 1795411285000},
    ]
    assert samples[-1] == {"sample": 0, "timestamp": 1795411230000}
    assert len(samples) == 13


def test_samples_are_at_multiples_of_the_increment_and_no_older_than_what_is_kept() -> None:
    history = history_of(t1=1, t5=5, t13=13)
    found = details([history], (0,), moment(13, first_kept=6), Range(600, 10))
    assert found["samples"] == [
        {"sample": sample, "timestamp": tick * TICK_MS}
        for tick, sample in ((12, 5), (10, 5), (8, 5), (6, 5))
    ]


def test_columns_and_histories_are_added_up() -> None:
    history = History(2)
    history.record(1, (1, 2), 0)
    history.record(2, (11, 22), 0)
    assert details([history, None, history], (0, 1), moment(2)) == {"rate": 12.0}


@pytest.mark.parametrize("wanted", [(0, 1), (60, 0), (1001, 1)])
def test_a_range_without_samples_or_with_too_many_is_not_valid(wanted: tuple[int, int]) -> None:
    assert not Range(*wanted).is_valid()


def test_a_range_of_a_thousand_samples_is_valid() -> None:
    assert Range(5_000, 5).is_valid()
