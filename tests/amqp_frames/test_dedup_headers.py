"""The identity of a message: its producer and id, found where it lies."""

from __future__ import annotations

from hashlib import blake2b

from hypothesis import given
from hypothesis import strategies as st
from leveret.amqp_frames.messages.dedup_headers import DIGEST_BYTES, IdentityReader
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Plain, encode_table, field_of
from wire import publish

PRODUCER, ID = "x-dedup-producer", "x-dedup-id"

values: st.SearchStrategy[Plain] = st.one_of(
    st.sampled_from(["", "p", "q", "\x0ax-dedup-idS\0\0\0\1p", "x-dedup-id"]),
    st.sampled_from([b"p", None, True, 1, 2**40, 1.5, [1, "p"], {ID: "p", PRODUCER: "p"}]),
)
names = st.sampled_from([PRODUCER, ID, "other", "x-dedup-i", "x-dedup-idS", "X-Dedup-Id"])
headers = st.one_of(
    st.none(),
    st.lists(st.tuples(names, values), max_size=5).map(dict),
    st.tuples(values, values).map(lambda both: {PRODUCER: both[0], ID: both[1]}),
)
properties = st.builds(
    lambda table, kind, coding, priority: Properties(
        headers=None if table is None else {name: field_of(value) for name, value in table.items()},
        content_type=kind,
        content_encoding=coding,
        priority=priority,
        message_id="m",
    ),
    headers,
    st.sampled_from([None, "", "text/plain", "\x0ax-dedup-id"]),
    st.sampled_from([None, "gzip"]),
    st.sampled_from([None, 3]),
)


def expected(each: Properties) -> bytes:
    """The digest of both values as they are on the wire."""
    table = each.headers or {}
    if PRODUCER not in table or ID not in table:
        return b""
    # An empty name's length and a table's: five octets before the type.
    wire = b"".join(encode_table({"": table[name]})[5:] for name in (PRODUCER, ID))
    return blake2b(wire, digest_size=DIGEST_BYTES).digest()


@given(st.lists(properties, min_size=1, max_size=8))
def test_each_message_has_the_digest_of_its_producer_and_id_whatever_came_before_it(
    messages: list[Properties],
) -> None:
    batch = decode_publishes(b"".join(publish("q", b"body", each) for each in messages))
    found = IdentityReader().digests(batch, range(len(batch)))
    assert found == [expected(each) for each in messages]


def test_values_of_other_types_or_divided_otherwise_are_other_identities() -> None:
    pairs: list[tuple[Plain, Plain]] = [("a", "b"), ("ab", ""), ("", "ab"), (b"a", "b"), ("a", 1)]
    batch = decode_publishes(
        b"".join(
            publish("q", b"", Properties(headers={PRODUCER: field_of(p), ID: field_of(i)}))
            for p, i in pairs
        )
    )
    assert len(set(IdentityReader().digests(batch, range(len(pairs))))) == len(pairs)


def test_the_first_of_two_headers_with_one_name_counts() -> None:
    once = publish("q", b"", Properties(headers={PRODUCER: field_of("p"), ID: field_of("1")}))
    names = {PRODUCER: field_of("p"), ID: field_of("1"), "x-dedup-iD": field_of("2")}
    twice = publish("q", b"", Properties(headers=names)).replace(b"x-dedup-iD", b"x-dedup-id")
    first, second = IdentityReader().digests(decode_publishes(once + twice), range(2))
    assert first == second != b""
