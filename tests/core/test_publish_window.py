"""The publish window closes at its limit, opens at half of it, and forgets no byte."""

from __future__ import annotations

from leveret.core.connection.publish_window import NodeWindow, PublishWindow, WindowShare


def window_of(bytes_max: int, node: NodeWindow | None = None, reader: str = "r") -> PublishWindow:
    return PublishWindow(bytes_max, node or NodeWindow(1_000_000), reader)


def test_the_window_closes_above_its_limit_and_opens_at_half_of_it() -> None:
    window = window_of(100)
    window.add(100)
    assert not window.is_closed
    window.add(1)
    assert window.is_closed
    assert not window.remove(50)
    assert window.is_closed
    assert window.remove(1) == ["r"]
    assert not window.is_closed
    # Told once.
    assert not window.remove(50)


def test_a_channel_that_ends_gives_back_input_that_it_had_not_handled() -> None:
    window = window_of(100)
    one, other = WindowShare(window), WindowShare(window)
    one.add(150)
    other.add(10)
    assert not one.remove(20)
    assert window.is_closed
    assert one.release() == (("r",), 130)
    assert window.used_bytes == 10


def test_bytes_that_reach_a_channel_that_has_ended_do_not_count() -> None:
    window = window_of(100)
    share = WindowShare(window)
    assert share.release() == ((), 0)
    share.add(1000)
    assert not share.remove(1000)
    assert share.release() == ((), 0)
    assert (window.used_bytes, window.is_closed) == (0, False)


def test_the_node_s_window_stops_each_connection_that_publishes_whatever_their_number() -> None:
    node = NodeWindow(1000)
    windows = [window_of(100, node, f"r{number}") for number in range(100)]
    # 100 bytes each would be 10,000 in all.
    for window in windows:
        if not node.is_closed:
            window.add(100)
            window.published()
    assert node.used_bytes == 1100
    stopped = [window for window in windows if window.is_closed]
    assert [window.reader for window in stopped] == ["r10"]
    # A further one brings what is read while the window is closed, and waits as well.
    windows[50].add(5)
    windows[50].published()
    assert windows[50].is_closed
    assert node.waiting_count == 2


def test_a_connection_that_does_not_publish_is_read_on_while_the_node_s_window_is_closed() -> None:
    node = NodeWindow(1000)
    publisher, consumer = window_of(10_000, node), window_of(10_000, node)
    publisher.add(1001)
    publisher.published()
    # Acks behind an unanswered command, or the command itself.
    consumer.add(100)
    assert publisher.is_closed
    assert publisher.waits_for_node
    assert not consumer.is_closed


def test_the_node_s_window_opens_at_half_for_those_that_waited_longest_first() -> None:
    node = NodeWindow(1000)
    first, second, third = (window_of(10_000, node, name) for name in ("r1", "r2", "r3"))
    for window, count in ((second, 1001), (third, 10), (first, 10)):
        window.add(count)
        window.published()
    assert not second.remove(520)
    assert node.is_closed
    assert second.remove(1) == ["r2", "r3", "r1"]
    assert not node.is_closed
    assert not any(window.is_closed for window in (first, second, third))
    # Told once.
    assert not second.remove(100)


def test_a_connection_whose_own_window_is_closed_does_not_go_on_with_the_node_s() -> None:
    node = NodeWindow(1000)
    one, other = window_of(600, node, "one"), window_of(600, node, "other")
    for window in (one, other):
        window.add(601)
        window.published()
    assert one.remove(601) == ["one"]
    # The node's opens, and the other's own stays closed.
    assert not other.remove(200)
    assert (node.is_closed, other.is_closed) == (False, True)
    assert other.remove(101) == ["other"]
