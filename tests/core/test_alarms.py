"""Publishers stop with the first alarm and go on after the last; the words name what is low."""

from __future__ import annotations

from leveret.core.alarms import Alarms, MemoryLevel, Resource


def test_the_reason_names_all_that_is_low_in_rabbitmq_s_words() -> None:
    alarms = Alarms()
    assert alarms.reason == ""
    alarms.change(Resource.DISK, True)
    assert alarms.reason == "low on disk"
    alarms.change(Resource.MEMORY, True)
    assert alarms.reason == "low on memory & disk"
    alarms.change(Resource.DISK, False)
    assert alarms.reason == "low on memory"
    assert alarms.is_low(Resource.MEMORY)
    assert not alarms.is_low(Resource.DISK)


def test_publishers_go_on_when_the_last_alarm_ends() -> None:
    alarms = Alarms()
    assert not alarms.change(Resource.DISK, False)
    assert not alarms.change(Resource.DISK, True)
    assert not alarms.change(Resource.MEMORY, True)
    assert not alarms.change(Resource.DISK, False)
    assert alarms.change(Resource.MEMORY, False)
    assert alarms.reason == ""


def test_the_memory_is_high_above_one_bound_until_it_is_no_more_than_the_lower_one() -> None:
    level = MemoryLevel(100, 60)
    changes = [(held, level.look(held), level.is_high) for held in (100, 101, 90, 61, 60, 61, 101)]
    assert changes == [
        (100, False, False),
        (101, True, True),
        (90, False, True),
        (61, False, True),
        (60, True, False),
        (61, False, False),
        (101, True, True),
    ]
