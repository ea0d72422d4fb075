"""Several batches as one: every message is what it was, in the order of the batches."""

from __future__ import annotations

from array import array

from decoding import Publish, ack, decoder
from hypothesis import given
from hypothesis import strategies as st
from leveret.amqp_frames.decoder import ChannelInput
from leveret.amqp_frames.messages.batch import TTL_NONE, Batch
from leveret.amqp_frames.messages.merging import merged

PUBLISHES = st.lists(
    st.builds(
        Publish,
        body=st.binary(max_size=30),
        key=st.sampled_from([b"\0\1a\0", b"\0\1b\0", b"\1x\1c\1"]),
        properties=st.sampled_from([b"\0\0", b"\x10\0\2", b"\x01\0\x0260"]),
        part_bytes=st.sampled_from([1 << 30, 7]),
    ),
    min_size=1,
    max_size=6,
)


def batch_of(publishes: list[Publish], channel: int = 1, *, gap: bool = False) -> Batch:
    """The publishes as one read of the channel brings them, with an ack in front of the last."""
    wires = [publish._replace(channel=channel).wire() for publish in publishes]
    if gap:
        wires.insert(-1, ack(1, channel=channel))
    [event] = decoder().feed(b"".join(wires))
    assert isinstance(event, ChannelInput)
    assert event.batch is not None
    return event.batch


def messages(batch: Batch) -> list[tuple[bytes, bytes, bytes, int]]:
    """Of each message its key, its method frame, its content and whether it is persistent."""
    return [
        (batch.distinct[key], batch.wire[start:header], batch.wire[header:end], persistent)
        for key, start, header, end, persistent in zip(
            batch.keys, batch.starts, batch.headers, batch.ends, batch.persistent, strict=True
        )
    ]


@given(
    st.lists(st.tuples(PUBLISHES, st.sampled_from([1, 1, 2]), st.booleans()), min_size=1),
)
def test_every_message_is_what_it_was_in_the_order_of_the_batches(
    rows: list[tuple[list[Publish], int, bool]],
) -> None:
    batches = [batch_of(publishes, channel, gap=gap) for publishes, channel, gap in rows]
    made = merged(batches)
    assert messages(made) == [message for batch in batches for message in messages(batch)]
    channels = {batch.channel_number for batch in batches}
    assert made.channel_number == (channels.pop() if len(channels) == 1 else -1)
    assert made.contiguous
    assert made.wire_bytes == len(made.wire) == made.ends[-1]
    assert list(made.starts) == [0, *made.ends[:-1]]
    assert len(set(made.distinct)) == len(made.distinct)
    assert set(made.keys) == set(range(len(made.distinct)))
    assert made.frame_bytes_max == max(batch.frame_bytes_max for batch in batches)
    flagged: list[int] = []
    first = 0
    for batch in batches:
        flagged += [first + index for index in batch.flagged or ()]
        first += len(batch)
    assert made.flagged == (flagged or None)
    assert made.ttls_ms is None
    assert made.durable is None
    assert made.received_ns == batches[0].received_ns
    assert (made.number, made.traced, made.excerpted) == (0, None, None)


def test_messages_of_a_batch_without_times_to_live_have_none_in_the_merged_one() -> None:
    batches = [batch_of([Publish()] * 2) for _ in range(3)]
    batches[1].ttls_ms = array("Q", [5, TTL_NONE])
    made = merged(batches)
    assert made.ttls_ms == array("Q", [TTL_NONE, TTL_NONE, 5, TTL_NONE, TTL_NONE, TTL_NONE])


def test_a_batch_that_is_durable_as_a_whole_is_durable_in_the_merged_one() -> None:
    batches = [batch_of([Publish()] * 2) for _ in range(4)]
    batches[1].durable = array("I", [1])
    batches[2].durable = range(0)
    assert list(merged(batches).durable or ()) == [0, 1, 3, 6, 7]
    assert list(merged(batches[1:]).durable or ()) == [1, 4, 5]


def test_the_merged_batches_stay_as_they_were() -> None:
    batches = [batch_of([Publish(b"x", b"\0\1%d\0" % key)]) for key in range(3)]
    before = [(messages(batch), list(batch.distinct)) for batch in batches]
    made = merged(batches)
    made.keys[0] = 2
    made.persistent[0] = 1
    assert [(messages(batch), list(batch.distinct)) for batch in batches] == before
