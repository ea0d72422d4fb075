"""What a connection has on its way out: closed past its bound, and nobody passed over forgotten."""

from __future__ import annotations

from leveret.core.consumers import UNLIMITED, ChannelCredit, Consumer, Consumers
from leveret.core.outlet import Outlet


def test_who_is_passed_over_is_told_once_when_half_of_it_is_free() -> None:
    outlet = Outlet(100)
    share = outlet.share()
    assert not outlet.is_closed("first")
    share.take(100)
    assert outlet.is_closed("first")
    assert outlet.is_closed("second")
    assert outlet.is_closed("first")
    share.give_back(49)
    assert outlet.opened() == []
    share.give_back(1)
    assert outlet.opened() == ["first", "second"]
    assert outlet.opened() == []


def test_all_channels_of_a_connection_count_together() -> None:
    outlet = Outlet(100)
    one, other = outlet.share(), outlet.share()
    one.take(60)
    other.take(60)
    assert outlet.is_closed("queue")
    one.give_back(60)
    assert not outlet.is_closed("queue")


def test_what_a_channel_that_ended_had_out_counts_no_more() -> None:
    outlet = Outlet(100)
    one, other = outlet.share(), outlet.share()
    one.take(100)
    other.take(30)
    assert outlet.is_closed("queue")
    one.release()
    assert outlet.opened() == ["queue"]
    # What still reaches it is dropped; what the socket still takes of it was given back.
    one.take(100)
    one.give_back(100)
    one.give_back(100)
    other.take(70)
    assert outlet.is_closed("queue")


def test_what_is_written_counts_until_the_socket_takes_it_whatever_becomes_of_its_channel() -> None:
    outlet = Outlet(100)
    one, other = outlet.share(), outlet.share()
    one.take(100)
    written = one.wrote(70)
    assert (one.used_bytes, written.used_bytes) == (30, 70)
    one.release()
    other.take(30)
    assert outlet.is_closed("queue")
    written.give_back(70)
    assert outlet.opened() == ["queue"]


def test_replies_count_over_all_channels_and_until_the_socket_takes_them() -> None:
    outlet = Outlet(100)
    one, other = outlet.share(), outlet.share()
    assert one.outlet.replies is other.outlet.replies
    other.take(10)
    outlet.replies.take(90)
    assert outlet.replies.used_bytes == 90
    assert outlet.is_closed("queue")
    # They wait for the socket whatever becomes of their channel.
    one.release()
    assert outlet.replies.used_bytes == 90
    outlet.replies.give_back(60)
    assert outlet.opened() == ["queue"]


def test_a_queue_passes_over_the_consumers_of_a_closed_outlet_only() -> None:
    full, empty = Outlet(100), Outlet(100)
    closed = ChannelCredit(full.share())
    consumers = Consumers(1000, "queue")
    for number, no_ack in enumerate((False, True)):
        consumers.add(Consumer("a", bytes([number]), 0, closed, no_ack, False))
    other = Consumer("b", b"\1t", 0, ChannelCredit(empty.share()), False, False)
    consumers.add(other)
    closed.outlet.take(100)
    assert consumers.next() == (other, UNLIMITED, 1)
    closed.outlet.give_back(100)
    assert full.opened() == ["queue"]
    consumers.all_changed()
    chosen = consumers.next()
    assert chosen is not None
    assert chosen[0].channel == "a"
