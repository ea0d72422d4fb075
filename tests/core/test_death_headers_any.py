"""Whatever a client sends as headers, a death can be added, written to the wire and read again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from leveret.amqp_frames.properties import Properties, decode_properties, encode_properties
from leveret.amqp_frames.values.field_table import Field, text_of
from leveret.core.dead_letters.letters import Death, headers_of_dead, is_cycle

NAMES = st.sampled_from(["q", "r", ""])
REASONS = st.sampled_from(["rejected", "expired", "maxlen", "delivery_limit"])
SIMPLE = st.one_of(
    st.builds(Field, st.just("longstr"), st.one_of(NAMES, REASONS, st.binary(max_size=3))),
    st.builds(Field, st.just("long"), st.integers(-(2**63), 2**63 - 1)),
    st.builds(Field, st.just("timestamp"), st.integers(0, 2**64 - 1)),
    st.builds(Field, st.just("bool"), st.booleans()),
    st.builds(Field, st.just("void"), st.none()),
    st.builds(Field, st.just("decimal"), st.tuples(st.integers(0, 255), st.integers(0, 9))),
)
ENTRIES = st.one_of(
    SIMPLE,
    st.builds(
        Field,
        st.just("table"),
        st.dictionaries(
            st.sampled_from(["queue", "reason", "count", "time", "exchange", "mine"]), SIMPLE
        ),
    ),
)
DEATHS = st.one_of(SIMPLE, st.builds(Field, st.just("array"), st.lists(ENTRIES, max_size=5)))
HEADERS = st.one_of(
    st.none(),
    st.dictionaries(
        st.sampled_from(["x-death", "x-first-death-queue", "CC", "BCC", "other", "\udcff"]), DEATHS
    ),
)


@settings(deadline=None)
@given(
    HEADERS,
    st.lists(
        st.builds(Death, REASONS, NAMES, st.integers(0, 2**40), NAMES, st.lists(NAMES), st.none()),
        min_size=1,
        max_size=6,
    ),
)
def test_deaths_can_be_added_to_any_headers(headers, deaths) -> None:
    for death in deaths:
        headers = headers_of_dead(headers, death)
        encoded = encode_properties(Properties(headers=headers))
        decoded = decode_properties(encoded, 0, len(encoded)).headers
        assert encode_properties(Properties(headers=decoded)) == encoded
        newest = decoded["x-death"].value[0].value
        assert (text_of(newest["queue"]), text_of(newest["reason"])) == (death.queue, death.reason)
        # Its last death is in this queue: a cycle, unless somebody rejected.
        assert is_cycle(death.queue, decoded) == (death.reason != "rejected")
        same = [
            entry
            for entry in decoded["x-death"].value
            if isinstance(entry.value, dict)
            and text_of(entry.value.get("queue")) == death.queue
            and text_of(entry.value.get("reason")) == death.reason
        ]
        assert len(same) == 1
