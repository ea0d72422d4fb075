"""The list of differences, and what the documentation says of it."""

from __future__ import annotations

from pathlib import Path

from standing import STANDING

COMPATIBILITY = Path(__file__).parents[2] / "docs" / "COMPATIBILITY.md"


def test_every_difference_that_stands_is_a_row_of_the_documentation() -> None:
    text = COMPATIBILITY.read_text()
    rows = {line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")}
    assert {difference.row for difference in STANDING} <= rows


def test_no_script_is_listed_twice_for_the_same_lines() -> None:
    listed = [(each.script, tuple(each.rabbitmq), tuple(each.leveret)) for each in STANDING]
    assert len(set(listed)) == len(listed)
