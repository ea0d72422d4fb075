"""DuckDB's figures of a trace are those that one gets message by message."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from figures_by_hand import figures_by_hand
from leveret.logs.reading.reader import trace_files
from leveret.logs.trace.sampling import ranges

pytest.importorskip("duckdb")

from leveret.logs.report.engine import figures_of

Line = dict[str, Any]
# Two virtual hosts have a queue of that name.
QUEUES = (("/", "red"), ("other", "red"), ("/", "blue"))
# What the readers of all traces rely on, of whichever event.
ALWAYS: Line = {
    "time": "2026-01-02T03:04:05.678901+00:00",
    "actor": "actor",
    "exchange": "",
    "routing_key": "",
    "delivery_tag": [[1, 1]],
    "attempt": 1,
    "reason": "",
}


class MadeUpTrace:
    """Events of a few channels whose parts overlap in every way; from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._now = 0
        self.lines: list[Line] = []
        batch = 0
        for boot in ("one", "two"):
            for life in range(2):
                if life or self._random.random() < 0.5:
                    one_of = self._random.choice([1, 3, 100])
                    self._write("trace.started", boot, one_of=one_of, queues=[], format=2)
                for channel in (1, 2):
                    open_numbers: list[int] = []
                    next_number = 1
                    for _ in range(self._random.randrange(4)):
                        batch += 1
                        count = self._random.randrange(1, 7)
                        given = list(range(next_number, next_number + count))
                        next_number += count
                        is_numbered = life == 0 or channel == 1
                        self._batch(boot, channel, batch, given if is_numbered else [])
                        open_numbers += given if is_numbered else []
                        self._answer(boot, channel, open_numbers)

    def _write(self, event: str, boot: str, **fields: object) -> None:
        self._now += self._random.randrange(1, 50)
        self.lines.append({**ALWAYS, "t_ns": self._now, "boot": boot, "event": event, **fields})

    def _some(self, places: list[int]) -> list[int]:
        if self._random.random() < 0.5:
            return places
        return sorted(self._random.sample(places, self._random.randrange(len(places) + 1)))

    def _batch(self, boot: str, channel: int, batch: int, given: list[int]) -> None:
        count = len(given) or 3
        # A sampled trace has some of the places only.
        places = sorted(self._random.sample(range(count + 3), count))
        where: Line = {"connection": "c", "channel": channel}
        at = {"batch": batch, "messages": ranges(places)}
        self._write("frame.received", boot, **where, **at)
        numbers: Line = {}
        if given:
            # As a channel writes them: range by range as long as the places' are.
            number, numbers = given[0], {"seq_no": []}
            for first, last in at["messages"]:
                numbers["seq_no"].append([number, number + last - first])
                number += last - first + 1
        self._write("command.assembled", boot, **where, **at, **numbers)
        self._write("message.routed", boot, **where, **at, queues=["red", "blue"])
        for queue_id, (vhost, queue) in enumerate(QUEUES):
            for event in ("enqueued", "persisted", "delivered", "settled", "delivered"):
                held = ranges(self._some(places))
                fields: Line = {"queue": queue, "vhost": vhost, "batch": batch, "messages": held}
                if event == "enqueued":
                    fields["queue_id"] = queue_id
                elif self._random.random() < 0.05:
                    fields["late"] = True
                self._write(f"message.{event}", boot, **fields)
            held = ranges(self._some(places))
            self._write("journal.appended", boot, queue_id=queue_id, batch=batch, messages=held)
            self._write(
                "confirm.queued", boot, queue=queue, vhost=vhost, batch=batch, messages=held
            )
            if self._random.random() < 0.7:
                self._write("journal.synced", boot, batches=[batch, batch - 1])

    def _answer(self, boot: str, channel: int, open_numbers: list[int]) -> None:
        said = self._some(open_numbers)
        if said:
            self._write("confirm.sent", boot, connection="c", channel=channel, seq_no=ranges(said))
            open_numbers[:] = [number for number in open_numbers if number not in said]


@pytest.mark.parametrize("seed", range(25))
def test_its_figures_are_those_of_every_message_by_itself(seed: int, tmp_path: Path) -> None:
    lines = MadeUpTrace(seed).lines
    path = tmp_path / "trace-1.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert figures_of([path]) == figures_by_hand(lines)


def test_the_engine_reads_plain_and_compressed_files_and_counts_lines_that_are_no_events(
    tmp_path: Path,
) -> None:
    lines = MadeUpTrace(7).lines
    data = [json.dumps(line).encode() + b"\n" for line in lines]
    third = len(data) // 3
    (tmp_path / "trace-1.jsonl.gz").write_bytes(gzip.compress(b"".join(data[:third])))
    # Killed while it compressed this one: both forms are there, and one of them counts.
    (tmp_path / "trace-2.jsonl").write_bytes(b"".join(data[third : 2 * third]))
    (tmp_path / "trace-2.jsonl.gz").write_bytes(gzip.compress(data[third])[:20])
    (tmp_path / "trace-3.jsonl").write_bytes(
        b'no event\n{"t_ns": 1}\n' + b"".join(data[2 * third :]) + data[0][:10]
    )
    shares: list[float] = []
    figures = figures_of(trace_files([tmp_path]), shares.append)
    assert figures == figures_by_hand(lines)._replace(bad_lines=2)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_an_empty_trace_has_empty_figures(tmp_path: Path) -> None:
    path = tmp_path / "trace-1.jsonl"
    path.touch()
    assert figures_of([path]) == figures_by_hand([])
