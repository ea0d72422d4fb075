"""docs/TRACE.md lists the events and fields that there are, in the words of the table."""

from __future__ import annotations

from pathlib import Path

from leveret.logs.report.figures import HOPS
from leveret.logs.trace.events import COMMON, EVENTS, FIELDS
from leveret.logs.trace.kinds import KINDS

TEXT = (Path(__file__).parents[2] / "docs" / "TRACE.md").read_text()


def test_every_event_is_documented_with_its_fields() -> None:
    for name, event in EVENTS.items():
        fields = ", ".join(f"`{field}`" for field in event.fields) or "-"
        assert f"| `{name}` | {event.actor} | {fields} | {event.meaning} |\n" in TEXT


def test_every_field_is_documented_and_used() -> None:
    for name, meaning in (COMMON | FIELDS).items():
        assert f"| `{name}` | {meaning} |\n" in TEXT
    used = {field for event in EVENTS.values() for field in event.fields}
    assert used == set(FIELDS)


def test_every_field_has_a_kind() -> None:
    assert list(KINDS) == [*COMMON, *FIELDS]


def test_every_hop_of_the_report_is_documented_and_between_events_that_there_are() -> None:
    for hop in HOPS:
        assert f"| {hop.name} | `{hop.begin}` | `{hop.end}` |" in TEXT
        assert {hop.begin, hop.end} <= set(EVENTS)
