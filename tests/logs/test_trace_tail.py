"""Following a trace while it is written: every line once, in order, whatever the files do."""

from __future__ import annotations

import gzip
from pathlib import Path

from leveret.logs.reading.tail import TraceTail


def compress(path: Path) -> None:
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_what_was_there_before_is_left_out_and_a_half_line_waits_for_its_end(
    tmp_path: Path,
) -> None:
    path = tmp_path / "trace-1.jsonl"
    path.write_text("old\n")
    tail = TraceTail(tmp_path)
    assert tail.lines() == []
    add(path, "one\ntw")
    assert tail.lines() == [b"one"]
    assert tail.lines() == []
    add(path, "o\n")
    assert tail.lines() == [b"two"]
    tail.close()


def test_a_folder_that_is_made_later_is_read_from_its_first_line(tmp_path: Path) -> None:
    tail = TraceTail(tmp_path / "traces")
    assert tail.lines() == []
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "trace-1.jsonl").write_text("one\n")
    assert tail.lines() == [b"one"]
    tail.close()


def test_following_goes_over_rotations_and_restarts_and_leaves_out_a_torn_line(
    tmp_path: Path,
) -> None:
    first, second, third, fourth = (tmp_path / f"trace-{each}.jsonl" for each in "1234")
    first.write_text("old\n")
    tail = TraceTail(tmp_path)
    add(first, "one\n{torn")
    second.write_text("two\n")
    # The first was compressed while it was read, the second before anybody looked.
    compress(first)
    compress(second)
    third.write_text("three\n")
    assert [tail.lines() for _ in range(3)] == [[b"one"], [b"two"], [b"three"]]
    assert tail.lines() == []
    fourth.write_text("four\n")
    add(third, "last\n")
    assert [tail.lines() for _ in range(3)] == [[b"last"], [b"four"], []]
    tail.close()


def test_from_the_begin_all_files_are_read_also_one_that_is_compressed_in_that_moment(
    tmp_path: Path,
) -> None:
    (tmp_path / "trace-1.jsonl").write_text("one\n")
    compress(tmp_path / "trace-1.jsonl")
    (tmp_path / "trace-2.jsonl").write_text("two\n")
    # Half written: the plain one is still beside it.
    (tmp_path / "trace-2.jsonl.gz").write_bytes(b"\x1f\x8b")
    (tmp_path / "trace-2.jsonl.packing").write_bytes(b"\x1f\x8b\n")
    (tmp_path / "trace-2.jsonl.gz.packing").write_bytes(b"\x1f\x8b\n")
    tail = TraceTail(tmp_path, from_begin=True)
    assert [tail.lines() for _ in range(3)] == [[b"one"], [b"two"], []]
    tail.close()


def test_a_packed_file_that_is_damaged_is_told_of_and_the_next_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "trace-1.jsonl"
    path.write_text("one\n" * 10_000)
    compress(path)
    packed = path.with_name("trace-1.jsonl.gz")
    packed.write_bytes(packed.read_bytes()[:-20])
    (tmp_path / "trace-2.jsonl").write_text("two\n")
    told: list[Path] = []
    tail = TraceTail(tmp_path, from_begin=True, on_damage=lambda path, _fault: told.append(path))
    while (lines := tail.lines())[-1] != b"two":
        assert set(lines) == {b"one"}
    assert told == [path]
    tail.close()
