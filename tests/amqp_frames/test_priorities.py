"""Priorities read from content headers, whatever other properties stand before them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from leveret.amqp_frames.messages.priorities import read_priorities
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from wire import publish

TEXTS = st.none() | st.text(max_size=5)
PROPERTIES = st.builds(
    Properties,
    content_type=TEXTS,
    content_encoding=TEXTS,
    headers=st.none() | st.dictionaries(st.text(max_size=3), st.integers(0, 9)).map(table_of),
    delivery_mode=st.none() | st.integers(0, 255),
    priority=st.none() | st.integers(0, 255),
    correlation_id=TEXTS,
    reply_to=TEXTS,
    expiration=TEXTS,
    message_id=TEXTS,
    timestamp=st.none() | st.integers(0, 2**64 - 1),
    type=TEXTS,
    user_id=TEXTS,
    app_id=TEXTS,
    cluster_id=TEXTS,
)


@given(st.lists(PROPERTIES, min_size=1, max_size=8), st.integers(1, 255), st.data())
def test_each_message_s_priority_is_found_and_none_is_above_the_maximum(
    messages: list[Properties], priority_max: int, data: st.DataObject
) -> None:
    batch = decode_publishes(b"".join(publish("q", b"body", each) for each in messages))
    everything = range(len(messages))
    indexes = data.draw(st.sampled_from([everything, everything[1:], everything[::2]]))
    assert list(read_priorities(batch, indexes, priority_max)) == [
        min(messages[index].priority or 0, priority_max) for index in indexes
    ]
