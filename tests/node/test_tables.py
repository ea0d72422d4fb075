"""Rows as a table for a person to read."""

from __future__ import annotations

from leveret.commands.tables import listing, table


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    rows = [
        {"queue": "a", "durable": True, "ready": 12, "arguments": {}},
        {"queue": "longer", "durable": False, "ready": None, "arguments": {"x-max-length": 3}},
    ]
    assert table(rows) == (
        "queue   durable  ready  arguments\n"
        "a       yes      12     -\n"
        'longer  no       -      {"x-max-length": 3}\n'
    )


def test_a_row_that_knows_less_than_others_has_gaps() -> None:
    assert table([{"a": "1"}, {"a": "2", "b": ["x", "y"]}]) == "a  b\n1  -\n2  x,y\n"


def test_no_rows_are_said_to_be_none() -> None:
    assert table([]) == "none\n"


def test_a_name_cannot_write_to_the_terminal() -> None:
    shown = table([{"queue": "\x1b[2Jq\n\udcff"}])
    assert shown == "queue\n\\x1b[2Jq\\n\\udcff\n"


def test_a_listing_has_a_line_for_each_value() -> None:
    assert listing({"version": "1", "pid": 7, "tls": ""}) == "version  1\npid      7\ntls\n"
