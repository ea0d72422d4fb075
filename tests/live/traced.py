"""Brokers that trace what they do, and clients of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import leveret
import pytest
from insides import wait_until
from leveret.commands.command_line import main
from leveret.logs.reading.reader import read_trace, trace_files
from leveret.logs.reading.tail import TraceTail
from leveret.logs.trace.events import COMMON, EVENTS
from leveret.logs.trace.kinds import KINDS, is_of_kind
from leveret.logs.trace.parsing import parsed_line
from wire import Client

Line = dict[str, Any]


@contextmanager
def traced(directory: Path, **settings: object) -> Iterator[leveret.Broker]:
    """A broker that traces every message, unless the settings say otherwise."""
    # None of its answers is slow, whatever the machine does.
    calm = {"password_hash_cost": 10, "log_level": "error", "trace_slow_ms": 0}
    chosen = calm | {"trace_one_of": 1} | settings
    with leveret.Broker(data_dir=directory / "data", port=0, **chosen) as broker:
        yield broker


@contextmanager
def client_of(broker: leveret.Broker) -> Iterator[Client]:
    with Client(broker.host, broker.port) as connected:
        connected.log_in()
        connected.open_channel(1, confirms=True)
        yield connected


def trace_of(directory: Path) -> list[Line]:
    """All events, each checked against the table."""
    lines = list(read_trace(trace_files([directory / "data" / "traces"])))
    for line in lines:
        event = EVENTS[line["event"]]
        assert line["actor"] == event.actor
        assert set(line) <= {*COMMON, *event.fields}, line
        assert set(line) >= set(COMMON)
        assert all(is_of_kind(value, KINDS[name]) for name, value in line.items()), line
    return lines


def names(lines: list[Line]) -> list[str]:
    return [line["event"] for line in lines]


def explanation(
    directory: Path, capsys: pytest.CaptureFixture[str], publish_number: int = 1
) -> list[str]:
    """The output of `leveret trace explain` for the publish at that place in the trace."""
    assembled = [line for line in trace_of(directory) if line["event"] == "command.assembled"]
    ids = [
        f"{line['boot']}-{line['batch']}-{place}"
        for line in assembled
        for first, last in line["messages"]
        for place in range(first, last + 1)
    ]
    said = explained(directory, capsys, ids[publish_number - 1])
    line = assembled[0]
    if publish_number == 1 and "seq_no" in line:
        place = ["--connection", line["connection"], "--channel", str(line["channel"])]
        assert explained(directory, capsys, *place, "--seq-no", "1") == said
    return said


def explained(directory: Path, capsys: pytest.CaptureFixture[str], *which: str) -> list[str]:
    capsys.readouterr()
    assert main(["trace", "explain", *which, "--data-dir", str(directory / "data")]) == 0
    return capsys.readouterr().out.splitlines()


def wait_for_events(tail: TraceTail, *names: str) -> None:
    """Return when the broker's trace has these events on the disk, as often as they are named."""
    missing = Counter(names)

    def are_there() -> bool:
        for data in tail.lines():
            line = parsed_line(data)
            assert line is not None
            missing[line["event"]] -= 1
        return not +missing

    wait_until(are_there)
