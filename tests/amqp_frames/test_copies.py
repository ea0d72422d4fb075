"""Messages published anew: the batch made of them is the one that decoding its bytes would give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from leveret.amqp_frames.messages.copies import BatchOfCopies, new_head
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from wire import PERSISTENT, TRANSIENT, publish

PROPERTIES = st.fixed_dictionaries(
    {
        "delivery_mode": st.sampled_from((None, 1, 2)),
        "expiration": st.sampled_from((None, "7")),
        "headers": st.sampled_from((None, table_of({"CC": ["x"]}), table_of({"a": 1}))),
    }
).map(lambda values: Properties(**values))
MESSAGES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 40), st.booleans(), PROPERTIES),
    min_size=1,
    max_size=6,
)


@given(MESSAGES)
def test_a_batch_of_copies_is_what_decoding_its_bytes_gives(
    messages: list[tuple[str, int, bool, Properties]],
) -> None:
    copies = BatchOfCopies(1)
    for key, size, is_persistent, properties in messages:
        sent = PERSISTENT if is_persistent else TRANSIENT
        original = decode_publishes(publish("first", b"-") + publish(key, b"x" * size, sent))
        copies.add(original, 1, new_head("exchange", key, properties))
    made = copies.batch()
    assert made is not None
    decoded = decode_publishes(made.wire)
    for column in ("channel_number", "starts", "headers", "ends", "keys", "distinct", "flagged"):
        assert getattr(made, column) == getattr(decoded, column), column
    assert made.persistent == decoded.persistent
    assert made.contiguous
    assert made.wire_bytes == len(made.wire)
    # An upper bound: the largest frame may belong to a message that was not copied.
    assert made.frame_bytes_max >= decoded.frame_bytes_max


def test_no_copies_are_no_batch() -> None:
    assert BatchOfCopies(1).batch() is None
