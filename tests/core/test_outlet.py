"""A connection's outlet closes past its bound, and offers its room to all who found it closed."""

from __future__ import annotations

from leveret.core.connection.channel_credit import UNLIMITED, ChannelCredit
from leveret.core.connection.outlet import KEPT_OPEN_BYTES, NodeOutlet, Outlet
from leveret.core.queue.consumers import Consumer, Consumers


def test_a_consumer_that_was_passed_over_is_informed_once_when_half_the_outlet_is_free() -> None:
    outlet = Outlet(100, NodeOutlet(UNLIMITED))
    share = outlet.share()
    assert not outlet.is_closed("first")
    share.add(100)
    assert outlet.is_closed("first")
    assert outlet.is_closed("second")
    assert outlet.is_closed("first")
    share.remove(49)
    assert outlet.opened() == []
    share.remove(1)
    assert outlet.opened() == ["first", "second"]
    assert outlet.opened() == []


def test_all_channels_of_a_connection_count_together() -> None:
    outlet = Outlet(100, NodeOutlet(UNLIMITED))
    one, other = outlet.share(), outlet.share()
    one.add(60)
    other.add(60)
    assert outlet.is_closed("queue")
    one.remove(60)
    assert not outlet.is_closed("queue")


def test_bytes_of_a_channel_that_has_ended_do_not_count() -> None:
    outlet = Outlet(100, NodeOutlet(UNLIMITED))
    one, other = outlet.share(), outlet.share()
    one.add(100)
    other.add(30)
    assert outlet.is_closed("queue")
    one.release()
    assert outlet.opened() == ["queue"]
    # What still reaches it is dropped; what the socket still takes of it was given back.
    one.add(100)
    one.remove(100)
    one.remove(100)
    other.add(70)
    assert outlet.is_closed("queue")


def test_written_bytes_count_until_the_socket_takes_them_whatever_becomes_of_their_channel() -> (
    None
):
    outlet = Outlet(100, NodeOutlet(UNLIMITED))
    one, other = outlet.share(), outlet.share()
    one.add(100)
    written = one.wrote(70)
    assert (one.used_bytes, written.used_bytes) == (30, 100)
    one.release()
    other.add(30)
    assert outlet.is_closed("queue")
    written.remove(70)
    assert outlet.opened() == ["queue"]


def test_replies_count_over_all_channels_and_until_the_socket_takes_them() -> None:
    outlet = Outlet(100, NodeOutlet(UNLIMITED))
    one, other = outlet.share(), outlet.share()
    other.add(10)
    one.outlet.replies.add(40)
    other.outlet.replies.add(50)
    assert outlet.replies.used_bytes == 90
    assert outlet.is_closed("queue")
    # They wait for the socket whatever becomes of their channel.
    one.release()
    assert outlet.replies.used_bytes == 90
    outlet.replies.remove(60)
    assert outlet.opened() == ["queue"]


def test_a_queue_passes_over_the_consumers_of_a_closed_outlet_only() -> None:
    full, empty = Outlet(100, NodeOutlet(UNLIMITED)), Outlet(100, NodeOutlet(UNLIMITED))
    closed = ChannelCredit(full.share())
    consumers = Consumers(1000, "queue")
    for number, no_ack in enumerate((False, True)):
        consumers.add(Consumer("a", bytes([number]), 0, closed, no_ack, False))
    other = Consumer("b", b"\1t", 0, ChannelCredit(empty.share()), False, False)
    consumers.add(other)
    closed.outlet.add(100)
    assert consumers.next() == (other, UNLIMITED, 1)
    closed.outlet.remove(100)
    assert full.opened() == ["queue"]
    consumers.all_changed()
    chosen = consumers.next()
    assert chosen is not None
    assert chosen[0].channel == "a"


def test_while_the_node_s_is_full_each_connection_gets_only_what_keeps_it_going() -> None:
    node = NodeOutlet(1_000_000)
    stalled, others = Outlet(800_000, node), [Outlet(800_000, node) for _ in range(100)]
    stalled.add(799_999)
    assert not stalled.is_closed("queue")
    others[0].add(300_000)
    # One that has much on its way waits, one that has little does not.
    assert others[0].is_closed("queue")
    for outlet in others[1:]:
        assert not outlet.is_closed("queue")
        outlet.add(KEPT_OPEN_BYTES)
        assert outlet.is_closed("queue")
    assert node.used_bytes == 1_099_999 + 99 * KEPT_OPEN_BYTES
    # Its socket takes some, then nearly all.
    others[1].remove(KEPT_OPEN_BYTES // 2 - 1)
    assert others[1].opened() == []
    others[1].remove(1)
    assert others[1].opened() == ["queue"]


def test_the_end_of_a_connection_makes_room_for_all_others() -> None:
    node = NodeOutlet(1_000)
    stalled, other = Outlet(KEPT_OPEN_BYTES * 4, node), Outlet(KEPT_OPEN_BYTES * 4, node)
    share = stalled.share()
    share.add(1_000)
    other.add(KEPT_OPEN_BYTES)
    assert other.is_closed("queue")
    other.remove(KEPT_OPEN_BYTES)
    stalled.end()
    assert node.used_bytes == 0
    # What its channels still count is its own.
    share.release()
    assert node.used_bytes == 0
    other.add(999)
    assert not other.is_closed("queue")
