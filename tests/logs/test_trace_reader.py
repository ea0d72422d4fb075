"""Reading a trace that is not whole, or is changed by its broker meanwhile."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from leveret.logs.reading.reader import TraceFilesError, ends_within_a_line, read_trace, trace_files

LINES = [json.dumps({"t_ns": n, "boot": "b", "event": "e"}).encode() + b"\n" for n in range(1000)]


def pack(path: Path, data: bytes) -> Path:
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(data))
    path.unlink(missing_ok=True)
    return packed


def test_files_that_were_packed_or_dropped_since_they_were_listed(tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"trace-{n}.jsonl" for n in (1, 2, 3))
    for path, line in zip((first, second, third), LINES, strict=False):
        path.write_bytes(line)
    files = trace_files([tmp_path])
    first.unlink()
    pack(second, LINES[1])
    assert [line["t_ns"] for line in read_trace(files)] == [1, 2]
    duckdb = pytest.importorskip("duckdb")
    assert duckdb
    from leveret.logs.report.engine import figures_of

    assert figures_of(files).events == 2


def test_a_packed_file_that_ends_too_soon_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    packed = pack(tmp_path / "trace-1.jsonl", b"".join(LINES))
    packed.write_bytes(packed.read_bytes()[: packed.stat().st_size // 2])
    lines = list(read_trace([packed]))
    assert 0 < len(lines) < 1000
    assert [line["t_ns"] for line in lines] == list(range(len(lines)))


def test_what_is_not_packed_though_its_name_says_so_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "trace-1.jsonl.gz"
    path.write_bytes(b"".join(LINES))
    with pytest.raises(TraceFilesError, match=r"trace-1.jsonl.gz cannot be read: "):
        list(read_trace([path]))
    pytest.importorskip("duckdb")
    from leveret.logs.report.engine import figures_of

    with pytest.raises(TraceFilesError, match=r"the trace cannot be read: .*trace-1.jsonl.gz"):
        figures_of([path])


def test_a_packed_file_that_is_damaged_within_is_one_clear_line(tmp_path: Path) -> None:
    packed = pack(tmp_path / "trace-1.jsonl", b"".join(LINES))
    data = bytearray(packed.read_bytes())
    data[200:210] = b"\xff" * 10
    packed.write_bytes(data)
    for read in (lambda: list(read_trace([packed])), lambda: ends_within_a_line(packed)):
        with pytest.raises(TraceFilesError, match=r"trace-1.jsonl.gz cannot be read: "):
            read()


def test_what_may_not_be_read_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "trace-1.jsonl").mkdir()
    with pytest.raises(TraceFilesError, match=r"trace-1.jsonl cannot be read: Is a directory"):
        list(read_trace(trace_files([tmp_path])))
    with pytest.raises(TraceFilesError, match="cannot be read: File name too long"):
        trace_files([tmp_path / ("x" * 300)])


def test_a_file_that_is_packed_and_dropped_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "trace-1.jsonl"
    path.write_bytes(b"".join(LINES))
    lines = read_trace(trace_files([tmp_path]))
    assert next(lines)["t_ns"] == 0
    path.unlink()
    assert sum(1 for _ in lines) == len(LINES) - 1


def test_progress_goes_up_to_the_end(tmp_path: Path) -> None:
    plain = tmp_path / "trace-1.jsonl"
    plain.write_bytes(b"".join(LINES) * 30)
    packed = pack(tmp_path / "trace-2.jsonl", b"".join(LINES) * 30)
    shares: list[float] = []
    assert len(list(read_trace([plain, packed], progress=shares.append))) == 60_000
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.9 < shares[-1] <= 1
