"""Spark finds in a trace what `leveret trace check` finds, says what that says, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from damaged_traces import Line, as_boot, damaged, traced_lines, write_lines
from leveret.logs.reading.check import TraceCheck
from leveret.logs.reading.reader import read_trace, trace_files

pytest.importorskip("pyspark")
from leveret.spark.traces import judge, read_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
BOOTS = 60


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    return traced_lines(tmp_path_factory.mktemp("traced"))


def checked(directory: Path) -> tuple[list[str], list[str]]:
    """Faults, and what could not be judged."""
    check = TraceCheck()
    bad: list[str] = []
    files = trace_files([directory])

    def on_bad_line(path: Path, _number: int, wrong: str) -> None:
        bad.append(f"{path.name}: {wrong}")

    check.feed(read_trace(files, on_bad_line=on_bad_line))
    return sorted([*check.faults, *bad]), check.notes()


def found(spark: SparkSession, directory: Path) -> tuple[list[str], list[str]]:
    judged = judge(read_events(spark, [str(directory)]))
    return sorted(row["fault"] for row in judged.faults.collect()), judged.notes()


def of(lines: Sequence[Line], event: str) -> int:
    return next(at for at, line in enumerate(lines) if line["event"] == event)


def by_hand(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """One damage each, and a word of what it must be found as."""
    early, twice, late, gap, strange, unsaid = (as_boot(lines, f"boot{n}") for n in range(6))
    early.insert(of(early, "journal.synced") - 1, early.pop(of(early, "confirm.queued")))
    answered = of(twice, "confirm.sent")
    twice.insert(answered, twice[answered])
    returned = of(late, "message.returned")
    late.insert(returned, {**late[returned], "event": "confirm.sent"})
    gap[of(gap, "command.assembled") :] = [
        line
        for line in gap[of(gap, "command.assembled") :]
        if line["event"] != "command.assembled" or line["seq_no"] != [[2, 6]]
    ]
    strange[of(strange, "message.delivered")]["messages"] = [[77, 77]]
    unsaid[of(unsaid, "confirm.sent")]["seq_no"] = [[901, 902]]
    unconfirmed, settled, lacking = (as_boot(lines, f"boot{n}") for n in (6, 7, 8))
    del unconfirmed[of(unconfirmed, "confirm.queued")]
    settled.insert(of(settled, "message.settled"), settled[of(settled, "message.settled")])
    del lacking[of(lacking, "message.enqueued")]["messages"]
    return {
        "before its sync": early,
        "answered twice": twice,
        "was confirmed before its return": late,
        "are missing": gap,
        "delivered message": strange,
        "but never came": unsaid,
        "had confirmed it": unconfirmed,
        "twice": settled,
        "that it never had": lacking,
    }


def incomplete(lines: Sequence[Line]) -> list[list[Line]]:
    """Boots of which only a part is there, each before another of its events."""
    cut = [
        as_boot(lines[of(lines, event) :], f"cut{number}")
        for number, event in enumerate(("confirm.queued", "confirm.sent", "message.delivered"))
    ]
    again = as_boot(lines, "cut")
    cut.append([again[0] | {"reason": "asked for"}, *again[of(again, "message.delivered") :]])
    lost = as_boot(lines, "lost")
    lost[of(lost, "journal.synced")] |= {"event": "trace.lost", "dropped": 1}
    return [*cut, lost]


def test_each_of_the_traces_damaged_by_hand_is_found_as_by_the_command(
    spark: SparkSession, lines: list[Line], tmp_path: Path
) -> None:
    traces = by_hand(lines)
    write_lines(tmp_path / "trace-0.jsonl", lines)
    for number, trace in enumerate([*traces.values(), *incomplete(lines)], 1):
        write_lines(tmp_path / f"trace-{number:02}.jsonl", trace)
    expected, notes = checked(tmp_path)
    for number, word in enumerate(traces):
        assert any(word in fault and f"boot{number}:" in fault for fault in expected), word
    for sound in (lines[0]["boot"], "cut", "lost"):
        assert not any(f"boot {sound}" in fault for fault in expected)
    for said in ("1 event was lost", "was switched on at", "begins at", "not judged"):
        assert any(said in note for note in notes), said
    assert found(spark, tmp_path) == (expected, notes)


@pytest.mark.soak
def test_traces_damaged_at_random_are_found_as_by_the_command(
    spark: SparkSession, lines: list[Line], tmp_path: Path
) -> None:
    print("seeds 0 to", BOOTS - 1)
    # Of some the begin is not there.
    every = [
        line
        for seed in range(BOOTS)
        for line in damaged(lines, seed, 1 + seed % 5)[seed % 3 * 20 :]
    ]
    # Behind that less is sure.
    for place in (len(every) // 2, len(every) * 2 // 3):
        every.insert(place, {**every[place], "event": "trace.lost", "dropped": 3})
    # Over two files, which end where it happens.
    write_lines(tmp_path / "trace-1.jsonl", every[: len(every) // 3])
    write_lines(tmp_path / "trace-2.jsonl", every[len(every) // 3 :])
    expected = checked(tmp_path)
    assert len(expected[0]) > BOOTS // 2
    assert found(spark, tmp_path) == expected
