"""The publish window closes at its limit, opens at half of it, and forgets no byte."""

from __future__ import annotations

from leveret.core.connection.publish_window import PublishWindow, WindowShare


def test_the_window_closes_above_its_limit_and_opens_at_half_of_it() -> None:
    window = PublishWindow(100)
    window.add(100)
    assert not window.is_closed
    window.add(1)
    assert window.is_closed
    assert not window.remove(50)
    assert window.is_closed
    assert window.remove(1)
    assert not window.is_closed
    # Told once.
    assert not window.remove(50)


def test_a_channel_that_ends_gives_back_input_that_it_had_not_handled() -> None:
    window = PublishWindow(100)
    one, other = WindowShare(window), WindowShare(window)
    one.add(150)
    other.add(10)
    assert not one.remove(20)
    assert window.is_closed
    assert one.release()
    assert window.used_bytes == 10


def test_bytes_that_reach_a_channel_that_has_ended_do_not_count() -> None:
    window = PublishWindow(100)
    share = WindowShare(window)
    assert not share.release()
    share.add(1000)
    assert not share.remove(1000)
    assert not share.release()
    assert (window.used_bytes, window.is_closed) == (0, False)
