"""The columns and properties of a batch."""

from __future__ import annotations

from decoding import Publish, ack, decoder
from leveret.amqp_frames.decoder import Acks, ChannelInput
from leveret.amqp_frames.messages.batch import Batch


def batch_of(wire: bytes) -> Batch:
    event = decoder().feed(wire)[0]
    assert isinstance(event, ChannelInput)
    assert event.batch is not None
    return event.batch


def test_wire_bytes_are_those_of_the_messages_alone() -> None:
    publish = Publish(b"x" * 100)
    size = len(publish.wire())
    assert batch_of(publish.wire() * 3).wire_bytes == 3 * size
    assert batch_of(publish.wire() + ack(1) * 9 + publish.wire()).wire_bytes == 2 * size
    turns = b"".join(publish._replace(channel=1 + at % 10).wire() for at in range(100))
    assert batch_of(turns).wire_bytes == 10 * size


def test_body_bytes_are_those_that_the_header_announces() -> None:
    batch = batch_of(Publish(b"").wire() + Publish(b"12345", part_bytes=2).wire())
    assert [batch.body_bytes(index) for index in range(2)] == [0, 5]


def test_a_new_batch_is_empty_and_of_no_number() -> None:
    batch = Batch(b"", 7)
    assert (len(batch), batch.wire_bytes, batch.number, batch.channel_number) == (0, 0, 0, 7)
    assert batch.durable is None
    assert batch.journal_place is None


def test_a_channel_input_has_no_batch_and_no_acks_that_were_not_sent() -> None:
    channel_input = ChannelInput(3)
    assert channel_input.channel_number == 3
    assert channel_input.batch is None
    assert channel_input.acks is None
    assert not Acks().tags
