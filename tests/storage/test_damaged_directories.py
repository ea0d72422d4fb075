"""Data directories, damaged in every way and in combinations of ways, each started on twice.

A second reader (witness.py) says what still verifies, and this is what every start must do:
- nothing that verifies is lost: an entry whose record and whose body verify, and of which no settle
  verifies, is there, its bytes unaltered;
- every loss is reported, with its count where anything behind it tells the count;
- a start makes nothing worse: the second one finds what the first one found, and reports no more;
- with a catalog that does not belong to the journal, or with none, a start is refused and changes
  nothing, and the right catalog helps afterwards.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom

import pytest
from damages import DAMAGES
from directories import Contents, Started, snapshot
from leveret.storage.errors import StorageError
from leveret.storage.journal.report import ReportLine
from witness import Evidence, Seen

CATALOG = "catalog.sqlite"
SEGMENTS = range(1, 60)
# Of what was on the disk and is not there any more.
LOSSES = ("damaged", "missing", "lost", "torn", "truncated")


@dataclass
class Template:
    """A directory as a broker left it, and what was in it."""

    path: Path
    directory_id: bytes
    # Everything that was ever appended, and what of it was neither settled nor of a deleted queue.
    appended: Contents
    live: set[tuple[int, int]]
    # Where each entry's record lies.
    entries: dict[tuple[int, int], Seen]
    # Catalogs by what is wrong with them: their bytes, or none.
    catalogs: dict[str, bytes | None] = field(default_factory=dict)


def filled(path: Path, seed: int, *, is_stopped: bool) -> Template:
    """Three queues and one that is deleted, over some ten segments and three starts."""
    random = Random(seed)
    appended: Contents = {}
    live: set[tuple[int, int]] = set()
    next_ids: Counter[int] = Counter()
    stale = b""
    for start in range(3):
        started = Started(path, segment_bytes_max=1500, seed=seed)
        assert started.journal is not None
        started.declare(*("a", "b") if not start else (f"late {start}",))
        queues = [1, 2, 3][: 2 + start]
        for _ in range(14):
            queue_id = random.choice(queues)
            bodies = [random.randbytes(random.randrange(150)) for _ in range(random.randint(1, 3))]
            new = started.publish(queue_id, next_ids[queue_id] + 1, *bodies)
            next_ids[queue_id] += len(bodies)
            appended |= new
            live |= new.keys()
            if random.random() < 0.4:
                settled = random.choice(sorted(live))
                started.journal.settle(settled[0], [(settled[1], settled[1])])
                live.discard(settled)
        if start == 1:
            [gone] = started.declare("gone")
            appended |= started.publish(gone, 1, b"of a queue that is deleted")
            started.delete(gone)
        directory_id = started.directory_id
        if start < 2 or is_stopped:
            started.stop()
            stale = stale or (path / CATALOG).read_bytes()
        else:
            started.journal.commit()
            started.kill()
    entries = Evidence(path / "journal", directory_id, SEGMENTS).entries
    template = Template(path, directory_id, appended, live, entries)
    template.catalogs = {"stale": stale, "missing": None, "empty": b"", "garbage": b"x" * 9000}
    return template


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> list[Template]:
    folder = tmp_path_factory.mktemp("templates")
    made = [filled(folder / f"{seed}", seed, is_stopped=bool(seed % 2)) for seed in range(1, 5)]
    foreign = (folder / "4" / CATALOG).read_bytes()
    for template in made[:3]:
        template.catalogs["foreign"] = foreign
    return made


class Case:
    """One directory, damaged and started on."""

    def __init__(self, template: Template, data: Path, random: Random) -> None:
        self.template = template
        self.data = data
        self.random = random
        shutil.copytree(template.path, data)
        self.done = [
            random.choice(DAMAGES)(data, random) for _ in range(random.choice((1, 1, 1, 2, 3)))
        ]
        self.evidence = Evidence(data / "journal", template.directory_id, SEGMENTS)
        self.refusals = 0
        self.lost = 0

    def check(self) -> None:
        if self.random.random() < 0.25:
            self._check_with_a_wrong_catalog()
        first, report = self._started()
        second, again = self._started()
        assert second == first
        self._check_nothing_is_lost_that_verifies(first)
        self._check_losses_are_reported(first, report)
        for event in LOSSES:
            assert costs(again, event) <= costs(report, event), event
        assert entries_in(again) <= entries_in(report), again

    def _check_with_a_wrong_catalog(self) -> None:
        kind = self.random.choice(sorted(self.template.catalogs))
        wrong = self.template.catalogs[kind]
        self.done.append(f"catalog {kind}")
        catalog = self.data / CATALOG
        right = catalog.read_bytes()
        if wrong is None:
            catalog.unlink()
        else:
            catalog.write_bytes(wrong)
        if kind == "stale" and not self._contradicts(catalog):
            # Nothing is left that would tell.
            catalog.write_bytes(right)
            return
        before = snapshot(self.data)
        for _ in range(2):
            with pytest.raises(StorageError):
                Started(self.data)
        assert snapshot(self.data) == before
        self.refusals += 1
        catalog.write_bytes(right)

    def _contradicts(self, catalog: Path) -> bool:
        connection = sqlite3.connect(catalog)
        [change] = connection.execute("SELECT change_number FROM directory").fetchone()
        [last] = connection.execute("SELECT seq FROM sqlite_sequence").fetchone()
        connection.close()
        return self.evidence.queue_id_max > last or self.evidence.catalog_change > change

    def _started(self) -> tuple[Contents, list[ReportLine]]:
        started = Started(self.data)
        found, report = started.contents, started.report
        started.kill()
        return found, report

    def _check_nothing_is_lost_that_verifies(self, found: Contents) -> None:
        template, evidence = self.template, self.evidence
        for key, wire in found.items():
            assert template.appended[key] == wire
            assert key not in evidence.settled
        for key in template.live - found.keys():
            seen = evidence.entries.get(key)
            assert seen is None or self._batch_of(key) not in evidence.bodies, key

    def _batch_of(self, key: tuple[int, int]) -> int:
        seen = self.evidence.entries[key]
        return int.from_bytes(seen.covered[14:22], "little")

    def _check_losses_are_reported(self, found: Contents, report: list[ReportLine]) -> None:
        lost = self.template.live - found.keys()
        self.lost = len(lost)
        synced = [key for key in lost if self._was_synced(key)]
        if synced:
            assert any(line.event in ("damaged", "missing", "lost") for line in report), synced
        counted = entries_in(report)
        known = [key for key in synced if self._is_count_known(key)]
        assert counted >= len(known), f"{len(known)} known, {counted} reported: {report}"

    def _was_synced(self, key: tuple[int, int]) -> bool:
        """Does anything that is left say that it was on the disk?"""
        seen = self.template.entries[key]
        return (seen.segment, seen.offset) < max(self.evidence.synced)

    def _is_count_known(self, key: tuple[int, int]) -> bool:
        """Its own record is left, or what says how many there were when its segment ended."""
        seen, evidence = self.template.entries[key], self.evidence
        if key in evidence.entries or seen.segment + 1 in evidence.headers:
            return True
        # A clean stop's position is the end; else the slot is of the segment's creation.
        stopped = (
            (segment, at_end > at_begin) for segment, _, at_begin, at_end, _ in evidence.slots
        )
        return (seen.segment, True) in stopped


def costs(report: list[ReportLine], event: str) -> int:
    return sum(line.event == event for line in report)


def entries_in(report: list[ReportLine]) -> int:
    return sum(line.entries or 0 for line in report if line.event in LOSSES)


def run(templates: list[Template], folder: Path, cases: int, seed: int) -> None:
    print(f"\nLEVERET_SEED={seed}")
    kinds: Counter[str] = Counter()
    refusals = lost = with_loss = 0
    for number in range(cases):
        random = Random(seed * 1_000_003 + number)
        case = Case(random.choice(templates), folder / f"{number}", random)
        try:
            case.check()
        except AssertionError as error:
            done = "; ".join(case.done)
            raise AssertionError(f"seed {seed}, case {number}: {done}: {error}") from error
        kinds.update(
            " ".join(word for word in done.split() if word.isalpha()) for done in case.done
        )
        refusals += case.refusals
        lost += case.lost
        with_loss += bool(case.lost)
        shutil.rmtree(case.data)
    print(f"{cases} directories, {refusals} starts refused, {lost} messages lost in {with_loss}")
    for kind, count in kinds.most_common():
        print(f"  {count:5} {kind}")


@pytest.fixture
def seed() -> int:
    return int(os.environ.get("LEVERET_SEED") or SystemRandom().randrange(2**32))


def test_damaged_directories_lose_what_is_damaged_and_say_so(
    templates: list[Template], tmp_path: Path, seed: int
) -> None:
    run(templates, tmp_path, 100, seed)


@pytest.mark.soak
def test_many_more_damaged_directories_lose_what_is_damaged_and_say_so(
    templates: list[Template], tmp_path: Path, seed: int
) -> None:
    run(templates, tmp_path, 3000, seed)
