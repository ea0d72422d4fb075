"""x-death and its kin, as RabbitMQ 3.10 writes them; and which way round is a cycle."""

from __future__ import annotations

import pytest
from leveret.amqp_frames.values.field_table import Field
from leveret.core.dead_letters.letters import Death, headers_of_dead, is_cycle, names_in

FIRST = Death("rejected", "q", 1_700_000_000, "x", ["k", "cc"], None)


def longstr(text: str | bytes) -> Field:
    return Field("longstr", text)


def array(*fields: Field) -> Field:
    return Field("array", list(fields))


def deaths(headers) -> list[tuple[str, str, int]]:
    """Queue, reason and count of each death."""
    return [
        tuple(entry.value[name].value for name in ("queue", "reason", "count"))
        for entry in headers["x-death"].value
    ]


def test_the_first_death_is_written_out_and_the_names_are_sorted() -> None:
    headers = headers_of_dead({"z": longstr("1"), "a": longstr("2")}, FIRST)
    entry = {
        "count": Field("long", 1),
        "reason": longstr("rejected"),
        "queue": longstr("q"),
        "time": Field("timestamp", 1_700_000_000),
        "exchange": longstr("x"),
        "routing-keys": array(longstr("k"), longstr("cc")),
    }
    assert headers == {
        "z": longstr("1"),
        "a": longstr("2"),
        "x-death": array(Field("table", entry)),
        "x-first-death-reason": longstr("rejected"),
        "x-first-death-queue": longstr("q"),
        "x-first-death-exchange": longstr("x"),
    }
    assert list(headers) == sorted(headers)
    # In RabbitMQ's order, which a client may see.
    assert list(headers["x-death"].value[0].value) == list(entry)


def test_an_expiration_is_kept_in_the_death() -> None:
    headers = headers_of_dead(None, FIRST._replace(original_expiration="500"))
    assert headers["x-death"].value[0].value["original-expiration"] == longstr("500")


def test_the_newest_death_stands_first_and_the_first_one_is_remembered() -> None:
    headers = headers_of_dead(None, FIRST)
    headers = headers_of_dead(headers, Death("expired", "r", 2, "y", ["l"], None))
    headers = headers_of_dead(headers, Death("maxlen", "s", 3, "z", ["m"], None))
    assert deaths(headers) == [("s", "maxlen", 1), ("r", "expired", 1), ("q", "rejected", 1)]
    # Sorted, but for the first, as RabbitMQ has it.
    fields = [list(entry.value) for entry in headers["x-death"].value]
    assert fields[:2] == [sorted(fields[0]), sorted(fields[1])]
    assert fields[2] == ["count", "reason", "queue", "time", "exchange", "routing-keys"]
    assert headers["x-first-death-queue"] == longstr("q")
    assert headers["x-first-death-reason"] == longstr("rejected")
    assert headers["x-first-death-exchange"] == longstr("x")


def test_a_death_of_the_same_queue_and_reason_is_counted_and_moves_to_the_front() -> None:
    headers = headers_of_dead(None, FIRST)
    headers = headers_of_dead(headers, Death("expired", "r", 2, "y", ["l"], None))
    headers = headers_of_dead(headers, FIRST._replace(time_seconds=9, exchange="other"))
    assert deaths(headers) == [("q", "rejected", 2), ("r", "expired", 1)]
    # Its other fields are those of the first time, sorted.
    entry = headers["x-death"].value[0].value
    assert entry["time"].value == 1_700_000_000
    assert entry["exchange"] == longstr("x")
    assert list(entry) == sorted(entry)


def test_another_reason_in_the_same_queue_is_another_death() -> None:
    headers = headers_of_dead(None, FIRST)
    headers = headers_of_dead(headers, FIRST._replace(reason="expired"))
    assert deaths(headers) == [("q", "expired", 1), ("q", "rejected", 1)]


def entry(queue: str, reason: str, **more: Field) -> Field:
    return Field("table", {"queue": longstr(queue), "reason": longstr(reason), **more})


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        # Not an array: some clients turn headers into strings.
        (longstr("[{...}]"), [("q", "rejected", 1)]),
        (array(), [("q", "rejected", 1)]),
        # Counts that a client made up.
        (array(entry("q", "rejected")), [("q", "rejected", 1)]),
        (
            array(entry("q", "rejected", count=Field("long", 2**63 - 1))),
            [("q", "rejected", 2**63 - 1)],
        ),
        (array(entry("q", "rejected", count=longstr("many"))), [("q", "rejected", 1)]),
    ],
)
def test_an_x_death_that_a_client_wrote_breaks_nothing(known, expected) -> None:
    assert deaths(headers_of_dead({"x-death": known}, FIRST)) == expected


COUNTED = Field("long", 7)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        # Of entries without a count there are as many deaths as entries.
        ([entry("o", "expired")] * 3, [("q", "rejected", 1), ("o", "expired", 3)]),
        ([entry("q", "rejected")] * 3, [("q", "rejected", 4)]),
        # Of several with counts the first one counts.
        (
            [entry("o", "expired", count=COUNTED), entry("o", "expired", count=Field("long", 9))],
            [("q", "rejected", 1), ("o", "expired", 7)],
        ),
        (
            [entry("q", "rejected", count=COUNTED), entry("q", "rejected")],
            [("q", "rejected", 8)],
        ),
        # Other entries stand between them.
        (
            [entry("o", "expired"), entry("p", "expired"), entry("o", "expired")],
            [("q", "rejected", 1), ("o", "expired", 2), ("p", "expired", 1)],
        ),
        # Another reason is another death.
        (
            [entry("o", "expired"), entry("o", "maxlen")],
            [("q", "rejected", 1), ("o", "expired", 1), ("o", "maxlen", 1)],
        ),
    ],
)
def test_entries_of_one_queue_and_reason_are_merged(known, expected) -> None:
    assert deaths(headers_of_dead({"x-death": array(*known)}, FIRST)) == expected


def test_the_types_of_queue_and_reason_do_not_tell_entries_apart() -> None:
    binary = Field("table", {"queue": Field("binary", b"q"), "reason": longstr("rejected")})
    none, void = Field("table", {}), Field("table", {"queue": Field("void", None)})
    numbers = [
        Field("table", {"queue": Field(kind, value)})
        for kind, value in (("long", 1), ("signedint", 1), ("bool", True), ("double", 1.0))
    ]
    known = array(binary, none, *numbers, void, longstr("no table"), longstr("no table"))
    headers = headers_of_dead({"x-death": known}, FIRST)
    entries = headers["x-death"].value
    counts = [each.value["count"].value for each in entries if each.kind == "table"]
    assert counts == [2, 2, 2, 1, 1]
    assert entries[-2:] == [longstr("no table")] * 2


def died(*deaths: tuple[str, str]):
    headers = None
    for queue, reason in deaths:
        headers = headers_of_dead(headers, Death(reason, queue, 1, "", [queue], None))
    return headers


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (died(("q", "expired")), True),
        (died(("q", "expired"), ("r", "maxlen")), True),
        (died(("r", "expired")), False),
        (died(("q", "rejected")), False),
        (died(("q", "expired"), ("r", "rejected")), False),
        # A rejection before the message was last here does not count.
        (died(("r", "rejected"), ("q", "expired")), True),
    ],
)
def test_a_cycle_without_a_rejection_is_one(headers, expected) -> None:
    assert is_cycle("q", headers) == expected


def test_an_entry_that_the_broker_did_not_write_ends_the_search_for_a_cycle() -> None:
    headers = died(("q", "expired"))
    headers["x-death"].value.insert(0, longstr("by hand"))
    assert not is_cycle("q", headers)


def test_names_that_are_not_utf_8_are_found_again() -> None:
    headers = {"x-death": array(), "CC": array(longstr(b"\xff"), Field("signedint", 1))}
    assert names_in(headers, "CC") == ["\udcff"]
    assert names_in(headers, "missing") == names_in(None, "CC") == []
    assert names_in({"CC": longstr("k")}, "CC") == []
    death = FIRST._replace(queue="\udcff", reason="expired")
    headers = headers_of_dead({}, death)
    assert is_cycle("\udcff", headers)
