"""Input that a channel holds back: in order, counted, and without the rest of its read."""

from __future__ import annotations

from batches import numbered
from leveret.amqp_frames.decoder import Acks, ChannelInput
from leveret.core.channel.held_back import ACK_BYTES, INPUT_BYTES, HeldBack, release_unused_bytes
from leveret.core.connection.publish_window import NodeWindow, PublishWindow, WindowShare


def acked(count: int) -> ChannelInput:
    made = ChannelInput(1)
    made.acks = Acks()
    made.acks.tags.extend(range(count))
    return made


def test_messages_come_out_in_order_with_the_bytes_that_they_were_counted_with() -> None:
    window = PublishWindow(1_000_000, NodeWindow(1_000_000), None)
    held: HeldBack[str] = HeldBack(WindowShare(window))
    held.put("publishes", ChannelInput(1))
    held.put("command", None)
    held.put("acks", acked(3))
    sizes = {"publishes": INPUT_BYTES, "command": 0, "acks": INPUT_BYTES + 3 * ACK_BYTES}
    assert window.used_bytes == sum(sizes.values())
    assert [held.pop() for _ in range(len(held))] == list(sizes.items())
    held.put("more", None)
    held.clear()
    assert not held


def test_held_back_acks_close_the_window_of_their_connection() -> None:
    window = PublishWindow(10 * INPUT_BYTES, NodeWindow(1_000_000), None)
    held: HeldBack[int] = HeldBack(WindowShare(window))
    for number in range(10):
        held.put(number, acked(1))
    assert window.is_closed


def test_few_messages_let_go_of_the_read_that_they_came_in() -> None:
    few, whole = ChannelInput(1), ChannelInput(1)
    few.batch = numbered(1)
    few.batch.wire += bytes(10 * INPUT_BYTES)
    whole.batch = kept = numbered(3)
    window = PublishWindow(1_000_000, NodeWindow(1_000_000), None)
    held: HeldBack[str] = HeldBack(WindowShare(window))
    held.put("few", few)
    release_unused_bytes(whole)
    assert len(few.batch.wire) == few.batch.wire_bytes
    assert whole.batch is kept
