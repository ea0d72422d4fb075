"""Shares of a profile: by folder of the broker, without what its start took."""

from __future__ import annotations

from benchmarks.row_profile import EVENT_LOOP, START, Function, lines_of, place_of
from benchmarks.side_by_side import ROOT


def own(path: str, name: str = "on_receive") -> Function:
    return str(ROOT / path), 1, name


def test_functions_belong_to_folders() -> None:
    assert place_of(own("actors/queue/queue.py")) == "actors/queue"
    assert place_of(own("amqp_frames/messages/batch.py")) == "amqp_frames"
    assert place_of(("~", 0, "<built-in method builtins.len>")) == "built-in functions"
    assert place_of(("~", 0, "<built-in method builtins.compile>")) == START
    assert place_of(("/usr/lib/python3.11/asyncio/runners.py", 86, "run")) == EVENT_LOOP
    assert place_of((str(ROOT / ".venv/lib/python3.11/site-packages/h11.py"), 1, "x")) == START


def test_the_dearest_stand_first_and_the_start_does_not_count() -> None:
    times = {
        own("actors/queue/queue.py"): 1.0,
        own("actors/queue/queue.py", "on_idle"): 1.0,
        own("core/queue/rules.py"): 6.0,
        own("storage/stores.py"): 0.01,
        ("~", 0, "<built-in method builtins.compile>"): 100.0,
    }
    assert lines_of(times, 0) == [["core/queue", "74.9%"], ["actors/queue", "25.0%"]]
    assert lines_of(times, 1) == [["core/queue on_receive:1", "74.9%"]]
