"""An event as a line of JSON."""

from __future__ import annotations

import json

import pytest
from leveret.logs.trace import lines as trace_lines
from leveret.logs.trace.lines import TraceLines


@pytest.fixture(autouse=True, params=["orjson", "json"])
def renderer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "json":
        monkeypatch.setattr(trace_lines, "orjson", None)


SECOND_NS = 1_000_000_000
# 2026-11-21T11:03:06 UTC.
WALL_NS = 1_795_258_986 * SECOND_NS


def line_of(at_ns: int, **fields: object) -> dict[str, object]:
    data = new_lines().line(at_ns, "queue.event", "queue", fields)
    assert data.endswith(b"\n")
    line: dict[str, object] = json.loads(data)
    return line


def new_lines() -> TraceLines:
    return TraceLines("boot", wall_offset_ns=lambda: WALL_NS)


def test_a_line_has_when_where_and_what() -> None:
    assert line_of(1_000_042_999, queue="a", messages=[[1, 2]]) == {
        "t_ns": 1_000_042_999,
        "time": "2026-11-21T11:03:07.000042+00:00",
        "boot": "boot",
        "event": "queue.event",
        "actor": "queue",
        "queue": "a",
        "messages": [[1, 2]],
    }


def test_an_event_without_fields_is_a_line_too() -> None:
    assert list(line_of(5)) == ["t_ns", "time", "boot", "event", "actor"]


def test_each_event_has_its_own_second_and_actor() -> None:
    made = new_lines()
    lines = [
        made.line(SECOND_NS * second, "queue.event", actor, {})
        for second, actor in ((1, "a"), (1, "b"), (2, "b"), (1, "a"))
    ]
    shown = [(line["time"][17:19], line["actor"]) for line in map(json.loads, lines)]
    assert shown == [("07", "a"), ("07", "b"), ("08", "b"), ("07", "a")]


def test_a_name_that_is_not_utf_8_and_a_number_of_any_size_are_written() -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert line_of(1, queue=name, bytes=2**70) == line_of(1, queue=name) | {"bytes": 2**70}
    assert line_of(1, queue=name)["queue"] == name
    assert line_of(1, queue='caf\u00e9 "\n')["queue"] == 'caf\u00e9 "\n'
