"""A few messages of a batch in a batch of their own: each is what it was, and nothing else is."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st
from leveret.amqp_frames.messages.batch import TTL_NONE, Batch, Indexes
from leveret.amqp_frames.messages.copies import excerpt
from leveret.amqp_frames.messages.publishes import decode_publishes
from wire import PERSISTENT, TRANSIENT, publish

ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 40), st.booleans()), min_size=1, max_size=9
)


def batch_of(rows: list[tuple[str, int, bool]], gap: bool) -> Batch:
    batch = decode_publishes(
        b"".join(
            publish(key, b"%d" % index * size, PERSISTENT if is_persistent else TRANSIENT)
            for index, (key, size, is_persistent) in enumerate(rows)
        )
    )
    batch.number = 7
    batch.received_ns = 8
    batch.ttls_ms = array("Q", [TTL_NONE if index % 2 else index for index in range(len(rows))])
    batch.durable = array("I", [index for index, row in enumerate(rows) if row[2]])
    batch.traced = range(1, len(rows))
    if gap:
        # As if another channel's frames lay in front of the last message.
        end = batch.starts[-1]
        batch.wire = batch.wire[:end] + b"gap" + batch.wire[end:]
        for column in (batch.starts, batch.headers, batch.ends):
            column[-1] += 3
        batch.contiguous = len(rows) == 1
    return batch


def frames(batch: Batch) -> list[tuple[bytes, bytes, bytes]]:
    """Of each message its key, its method frame, and its header and body frames."""
    return [
        (batch.distinct[key], batch.wire[start:header], batch.wire[header:end])
        for key, start, header, end in zip(
            batch.keys, batch.starts, batch.headers, batch.ends, strict=True
        )
    ]


def places(numbers: Indexes | list[int] | None, chosen: Indexes) -> list[int]:
    """Where those of the numbers that are chosen stand among the chosen."""
    return [place for place, index in enumerate(chosen) if index in (numbers or ())]


@given(ROWS, st.booleans(), st.data())
def test_everything_about_a_message_is_as_it_was(
    rows: list[tuple[str, int, bool]], gap: bool, data: st.DataObject
) -> None:
    batch = batch_of(rows, gap)
    numbers = sorted(data.draw(st.sets(st.sampled_from(range(len(rows))), min_size=1)))
    chosen: Indexes = array("I", numbers)
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        chosen = range(numbers[0], numbers[-1] + 1)
    made = excerpt(batch, chosen)
    assert frames(made) == [frames(batch)[index] for index in chosen]
    assert len(made.wire) == made.wire_bytes == sum(made.ends) - sum(made.starts)
    assert made.contiguous
    assert set(made.distinct) == {batch.distinct[batch.keys[index]] for index in chosen}
    assert list(made.persistent) == [batch.persistent[index] for index in chosen]
    assert made.ttls_ms == array("Q", [batch.ttls_ms[index] for index in chosen])  # type: ignore[index]
    assert made.flagged is None
    assert list(made.durable or ()) == places(batch.durable, chosen)
    assert list(made.traced or ()) == places(batch.traced, chosen)
    assert (made.number, made.received_ns) == (7, 8)
    assert made.frame_bytes_max == batch.frame_bytes_max
    assert list(made.excerpted or ()) == numbers


def test_an_excerpt_of_an_excerpt_has_the_numbers_of_the_batch_as_it_was_routed() -> None:
    batch = batch_of([("a", 3, True)] * 6, False)
    again = excerpt(excerpt(batch, array("I", [1, 3, 5])), range(1, 3))
    assert list(again.excerpted or ()) == [3, 5]
    assert frames(again) == [frames(batch)[index] for index in (3, 5)]


def test_an_excerpt_of_which_nothing_is_traced_says_so() -> None:
    batch = batch_of([("a", 3, True)] * 3, False)
    assert excerpt(batch, range(1)).traced is None


def test_messages_that_must_be_looked_into_still_must() -> None:
    batch = batch_of([("a", 3, True)] * 6, False)
    batch.flagged = [0, 2, 3, 5]
    assert excerpt(batch, array("I", [1, 2, 5])).flagged == [1, 2]
    assert excerpt(batch, range(2)).flagged == [0]
