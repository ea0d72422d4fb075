"""`leveret journal`: a journal as the command line shows it, of a directory that nobody uses."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from random import Random

import pytest
from earlier_directories import FORMAT_VERSIONS, held, unpack
from leveret.amqp_frames.messages.arrivals import joined_arrivals
from leveret.commands.command_line import main
from leveret.storage.files import OperatingSystemFiles
from leveret.storage.inspection import inspected
from leveret.storage.journal.identity_runs import Identities
from leveret.storage.journal.journal import CompactionRules
from leveret.storage.journal.opening import open_journal
from leveret.storage.journal.report import ReportLine
from leveret.storage.journal.segment_facts import read_facts
from leveret.storage.journal.segment_index import encode_index, index_path, write_index
from leveret.storage.journal.segment_reader import SegmentReader

sys.path.insert(0, str(Path(__file__).parents[1] / "storage"))

from compactions import compact_all
from damages import DAMAGES
from directories import Started
from publishes import batch_of

SEEDS = range(40)


def filled(path: Path, starts: int = 3) -> Started:
    """Some messages of two queues over several segments, the most of them settled; not stopped."""
    for start in range(starts):
        started = Started(path, segment_bytes_max=1500)
        assert started.journal is not None
        if not start:
            started.declare("orders", "other")
        first = 60 * start
        for number in range(6):
            bodies = b"body %d" % number * 5, b"two", b"\x1b[31m three"
            started.publish(1, first + 3 * number + 1, *bodies)
        started.publish(2, start + 1, b"of the other queue")
        started.journal.settle(1, [(first + 1, first + 14)])
        started.journal.delivered(1, [(first + 15, first + 15)])
        started.journal.commit()
        if start < starts - 1:
            started.stop()
    return started


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    filled(path).stop()
    return path


def traces(path: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file below the directory: when it was changed, its size, its octets."""
    return {
        str(file.relative_to(path)): (
            file.stat().st_mtime_ns,
            file.stat().st_size,
            file.read_bytes() if file.is_file() else b"",
        )
        for file in sorted(path.rglob("*"))
    }


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["journal", *map(str, words)])
    out, err = capsys.readouterr()
    return code, out, err


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def shown(line: ReportLine) -> str:
    cost = {None: "", 1: " (1 entry)"}.get(line.entries, f" ({line.entries} entries)")
    return f"journal.{line.event}: {line.text}{cost}"


def test_a_sound_journal_is_said_to_be_sound(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "check", data)
    assert (code, err) == (0, "")
    assert out.endswith("15 entries live in 2 queues: nothing is damaged\n")


@pytest.mark.parametrize("number", FORMAT_VERSIONS)
def test_directories_of_earlier_formats_are_read(
    number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = unpack(number, tmp_path / "data")
    before = traces(path)
    code, out, _ = run(capsys, "check", path)
    live = sum(len(entries) for entries in held(number)["queues"].values())
    assert code == 0
    assert f" {live} entries live in" in out
    assert run(capsys, "dump", path, "--json")[0] == 0
    assert run(capsys, "stats", path)[0] == 0
    assert traces(path) == before


def test_a_check_of_damage_says_what_a_start_says_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = 0
    filled(tmp_path / "killed").kill()
    filled(tmp_path / "stopped").stop()
    for seed in SEEDS:
        random, path = Random(seed), tmp_path / f"{seed}"
        shutil.copytree(tmp_path / ("stopped" if seed % 2 else "killed"), path)
        done = [random.choice(DAMAGES)(path, random) for _ in range(random.choice((1, 2)))]
        before = traces(path)
        code, out, _ = run(capsys, "check", path)
        assert run(capsys, "dump", path)[0] == 0
        assert run(capsys, "stats", path)[0] == 0
        assert traces(path) == before, (seed, done)
        again = Started(path, drops_unmatched=True)
        lines = out.splitlines()[:-1]
        said = [line for line in lines if not line.startswith("catalog and journal")]
        assert said == [shown(line) for line in again.report], (seed, done)
        is_damaged = any(line.event in ("damaged", "missing", "lost") for line in again.report)
        assert code == (is_damaged or said != lines), (seed, done)
        found += code
        again.kill()
    assert found > len(SEEDS) // 2


def test_a_directory_that_a_broker_uses_is_refused_and_readers_share_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data"
    started = filled(path)
    for action in ("check", "dump", "stats"):
        code, out, err = run(capsys, action, path)
        assert (code, out) == (1, "")
        assert err == (
            f"leveret: data directory {path} is in use by a broker: stop it, or look at a copy\n"
        )
    started.stop()
    code, _, _ = run(capsys, "check", path)
    assert code == 0
    # A copy without the file of the lock, and on a file system that lets nobody write.
    os.unlink(path / "lock")
    assert run(capsys, "check", path)[0] == 0
    assert not (path / "lock").exists()


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        (None, "there is no data directory"),
        ({}, "is no broker's: it has no file `format`"),
        ({"format": "leveret 99"}, "has format version 99, newer than"),
    ],
)
def test_what_is_no_data_directory_is_refused(
    files: dict[str, str] | None, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "elsewhere"
    if files is not None:
        path.mkdir()
        for name, text in files.items():
            (path / name).write_text(text)
    code, out, err = run(capsys, "check", path)
    assert (code, out) == (1, "")
    assert fault in err
    assert err.count("\n") == 1


def test_a_dump_has_every_record_in_order_with_the_names_of_queues(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "dump", data, "--json")
    facts = rows(out)
    places = [(each["segment"], each["offset"]) for each in facts]
    assert places == sorted(places)
    assert {str(each["kind"]) for each in facts} >= {
        *("segment", "body", "entries", "settle", "delivered", "commit"),
    }
    assert {each["queue"] for each in facts if each["kind"] == "entries"} == {
        "'orders' in '/'",
        "'other' in '/'",
    }
    one = [each for each in facts if each["segment"] == facts[-1]["segment"]]
    assert rows(run(capsys, "dump", data, "--json", "--segment", one[0]["segment"])[1]) == one
    orders = [each for each in facts if each.get("queue_id") == 1]
    assert rows(run(capsys, "dump", data, "--json", "--queue", "orders")[1]) == orders
    assert rows(run(capsys, "dump", data, "--json", "--queue", 1)[1]) == orders


def test_a_dump_says_when_messages_arrived(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data"
    started = Started(path)
    assert started.journal is not None
    started.declare("orders")
    alike, joined, unknown = (batch_of([b"a", b"b", b"c"], number) for number in (1, 2, 3))
    alike.received_ns, joined.received_ns, unknown.received_ns = 7, 0, 0
    joined.arrived = joined_arrivals([(8, 1), (0, 1), (9, 1)])
    for first, batch in ((1, alike), (4, joined), (7, unknown)):
        started.journal.append(1, batch, range(3), range(first, first + 3))
    started.stop()
    facts = rows(run(capsys, "dump", path, "--json")[1])
    arrived = [each.get("arrived_ns") for each in facts if each["kind"] == "body"]
    assert arrived == [7, [0, 9], None]
    facts = rows(run(capsys, "dump", path, "--json", "--bodies", "--queue", "orders")[1])
    shown = [each for record in facts for each in record.get("shown", ())]  # type: ignore[attr-defined]
    assert [each.get("arrived_ns") for each in shown] == [7, 7, 7, 8, None, 9, None, None, None]
    assert run(capsys, "check", path)[0] == 0


def test_a_dump_of_a_segment_or_queue_that_is_not_there_is_refused(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = ", ".join(
        str(int(file.name.partition(".")[0]))
        for file in sorted((data / "journal").glob("*.journal"))
    )
    assert run(capsys, "dump", data, "--segment", 99) == (
        2,
        "",
        f"leveret: the journal has no segment 99; there are: {numbers}\n",
    )
    assert run(capsys, "dump", data, "--queue", "nobodys") == (
        2,
        "",
        "leveret: the catalog has no queue 'nobodys'; one that was deleted is chosen by its id\n",
    )


def test_bodies_are_shown_only_when_asked_and_cannot_reach_the_terminal_s_escape_codes(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "dump", data)
    assert "three" not in out
    _, out, _ = run(capsys, "dump", data, "--bodies")
    assert "routing_key=a queue body_bytes=11 body=\\x1b[31m three" in out
    assert "\x1b" not in out


def test_with_a_queue_its_messages_are_shown_at_its_entries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data"
    started = filled(path, starts=1)
    assert started.journal is not None
    # Of two queues, the second one's entries in the next segment.
    shared = batch_of([b"of both", b"of the first"], 4000)
    started.journal.append(1, shared, range(2), range(50, 52))
    started.journal.commit()
    before, filler_id = started.journal.log.number, 200
    while started.journal.log.number == before:
        started.publish(1, filler_id, b"filler" * 20)
        started.journal.commit()
        filler_id += 1
    started.journal.append(2, shared, range(1), range(50, 51))
    started.journal.commit()
    assert started.journal.log.number == before + 1
    started.stop()

    def messages(*options: object) -> list[tuple[object, object]]:
        facts = rows(run(capsys, "dump", path, "--json", "--bodies", *options)[1])
        assert {each["kind"] for each in facts if "shown" in each} == {"entries"}
        return [
            (each["entry_id"], each["body"])
            for record in facts
            for each in record.get("shown", ())  # type: ignore[attr-defined]
        ]

    assert messages("--queue", "other") == [(1, "of the other queue"), (50, "of both")]
    assert messages("--queue", "other", "--segment", before + 1) == [(50, "of both")]
    both = [(50, "of both"), (51, "of the first")]
    assert [each for each in messages("--queue", "orders") if each in both] == both
    _, out, _ = run(capsys, "dump", path, "--bodies", "--queue", "other")
    assert "    entry_id=50 index=0 exchange=" in out
    assert "of the first" not in out
    assert "shown" not in run(capsys, "dump", path, "--json", "--queue", "other")[1]


def test_a_dump_shows_no_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "data"
    started = filled(path, starts=1)
    assert started.journal is not None
    identity = bytes(range(100, 116))
    batch = batch_of([b"x"], 4000)
    started.journal.append(
        2, batch, range(1), range(50, 51), identities=Identities(identity, 2**40)
    )
    started.journal.commit()
    secrets = (identity, started.directory_id)
    started.stop()
    for options in ([], ["--bodies"], ["--json", "--bodies"]):
        _, out, _ = run(capsys, "dump", path, *options)
        for secret in secrets:
            for form in (secret.hex(), repr(secret)[2:-1], str(list(secret))[1:-1]):
                assert form not in out


def test_stats_count_what_a_start_finds_and_say_why_a_segment_stays(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "stats", data, "--json")
    segments = [row for row in rows(out) if "segment" in row]
    queues = {row["queue_id"]: row for row in rows(out) if "queue_id" in row}
    assert {queue_id: row["live"] for queue_id, row in queues.items()} == {1: 12, 2: 3}
    assert sum(int(str(row["live"])) for row in segments) == 15
    assert all(row["stays_for"] for row in segments)
    files = {file.stat().st_size for file in (data / "journal").glob("*.journal")}
    assert {row["bytes"] for row in segments} <= files
    _, out, _ = run(capsys, "stats", data)
    assert "queue_id" in out
    assert "segment" in out


def test_stats_say_that_a_segment_stays_for_the_settles_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data"
    started = Started(path, segment_bytes_max=1500)
    assert started.journal is not None
    started.declare("q")
    # One stays, so its segment does; a later segment has nothing but the settle of another one.
    started.publish(1, 1, b"stays", b"goes")
    for number in range(8):
        started.publish(1, 10 + number, b"x" * 400)
    started.journal.settle(1, [(2, 2), (10, 17)])
    for number in range(8):
        started.publish(1, 20 + number, b"x" * 400)
        started.journal.settle(1, [(20 + number, 20 + number)])
    started.journal.commit()
    started.stop()
    _, out, _ = run(capsys, "stats", path, "--json")
    reasons = {row["segment"]: str(row["stays_for"]) for row in rows(out) if "segment" in row}
    first = min(reasons, key=int)
    assert reasons[first].endswith("1 live")
    assert any(
        reason.startswith(f"settles and deliveries of entries in {first}")
        for reason in reasons.values()
    )


def write_indexes(path: Path) -> list[Path]:
    """Of each closed segment."""
    files, journal = OperatingSystemFiles(), str(path / "journal")
    written = []
    with inspected(path) as inspection:
        for segment in inspection.segments():
            write_index(files, journal, read_facts(inspection.open(segment)))
            written.append(Path(index_path(journal, segment.number)))
    return written


def first_indexed(path: Path) -> tuple[Path, int, SegmentReader]:
    """The index of the first segment, its number, and a reader of it."""
    first, *_ = write_indexes(path)
    with inspected(path) as inspection:
        segment, *_ = inspection.segments()
        assert first == Path(index_path(str(path / "journal"), segment.number))
        return first, segment.number, inspection.open(segment)


def test_indexes_that_hold_are_no_finding_and_those_that_do_not_are_said_to_be_ignored(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, *_ = write_indexes(data)
    code, out, _ = run(capsys, "check", data)
    assert code == 0
    assert "index" not in out
    first.write_bytes(first.read_bytes()[:-1])
    second.unlink()
    code, out, _ = run(capsys, "check", data)
    number = int(first.name.partition(".")[0])
    assert code == 0
    assert out.splitlines()[0] == (
        f"journal.ignored: the index of segment {number} does not hold: a start reads the segment"
    )


def test_an_index_that_verifies_and_says_something_else_is_damage(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, number, reader = first_indexed(data)
    facts = read_facts(reader)
    facts.entries_read += 1
    first.write_bytes(encode_index(facts))
    code, out, _ = run(capsys, "check", data)
    assert code == 1
    assert f"the index of segment {number} says something else than the segment's records" in out


def test_damage_of_a_segment_is_not_reported_of_its_index_as_well(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, number, reader = first_indexed(data)
    place = next(offset for offset, _ in reader.records()) + 30
    file = first.with_suffix(".journal")
    octets = bytearray(file.read_bytes())
    octets[place] ^= 4
    file.write_bytes(octets)
    code, out, _ = run(capsys, "check", data)
    assert code == 1
    assert f"journal.damaged: segment {number} of " in out
    assert "index" not in out


def test_a_body_that_verifies_and_is_no_message_is_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data"
    started = filled(path, starts=1)
    assert started.journal is not None
    batch = batch_of([b"x"], 4000)
    # As a fault of ours would have it: the checksum is that of what was written.
    batch.wire = bytes(len(batch.wire))
    started.journal.append(2, batch, range(1), range(50, 51))
    started.journal.commit()
    started.stop()
    code, out, _ = run(capsys, "check", path)
    assert code == 1
    assert ": batch 4000 verifies, but: " in out
    assert run(capsys, "dump", path, "--bodies")[0] == 0


def test_a_journal_with_a_segment_that_was_rewritten_is_sound_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data"
    filled(path, starts=1).stop()
    rules = CompactionRules(live_share_max=0.9, segment_bytes_min=64)
    with inspected(path) as inspection:
        known = inspection.claims.queue_ids
    journal, _ = open_journal(
        str(path / "journal"), OperatingSystemFiles(), known, 1500, compaction=rules
    )
    journal.settle(1, [(16, 17)])
    journal.commit()
    assert compact_all(journal)
    journal.close()
    code, out, _ = run(capsys, "check", path)
    assert (code, out.count("\n")) == (0, 1), out
    assert "compacted" in {each["kind"] for each in rows(run(capsys, "dump", path, "--json")[1])}
    live = [int(str(row["live"])) for row in rows(run(capsys, "stats", path, "--json")[1])]
    assert sum(live) == 2 * sum(
        int(word) for word in out.partition(" entries live")[0].split()[-1:]
    )
