"""Two intervals without a sign of life; the watch looks twice in each."""

from __future__ import annotations

from leveret.core.connection.heartbeat import SILENT_LOOKS_MAX, HeartbeatWatch


def looks(watch: HeartbeatWatch, count: int) -> list[bool]:
    return [watch.look(is_listening=True) for _ in range(count)]


def test_four_looks_without_a_sign_are_two_intervals() -> None:
    assert SILENT_LOOKS_MAX == 4
    assert looks(HeartbeatWatch(), 4) == [True, True, True, False]


def test_any_change_is_a_sign() -> None:
    watch = HeartbeatWatch()
    for signs in (1, 2, 100, 99):
        assert looks(watch, 2) == [True, True]
        watch.signs = signs
    assert looks(watch, 5) == [True, True, True, True, False]


def test_a_client_that_the_broker_does_not_read_misses_no_heartbeat() -> None:
    watch = HeartbeatWatch()
    assert looks(watch, 3) == [True, True, True]
    assert watch.look(is_listening=False)
    assert looks(watch, 3) == [True, True, True]
