"""Catalog and journal: nothing is changed where they do not belong together."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from directories import Contents, Started, snapshot
from earlier_directories import unpack
from leveret.storage.belonging import NotTogetherError
from leveret.storage.catalog import Catalog
from leveret.storage.data_directory import DataDirectory
from leveret.storage.errors import StorageError
from leveret.storage.stores import open_catalog_alone

CATALOG = "catalog.sqlite"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def filled(data: Path) -> Contents:
    """Three queues with two messages each, in two runs; the last queue is of the second."""
    first = Started(data)
    held = {}
    for queue_id in first.declare("a", "b"):
        held |= first.publish(queue_id, 1, b"1", b"2")
    first.stop()
    shutil.copy(data / CATALOG, data.parent / "yesterday")
    second = Started(data)
    [queue_id] = second.declare("c")
    held |= second.publish(queue_id, 1, b"1", b"2")
    second.stop()
    return held


def refused(data: Path) -> str:
    """The start is refused twice in one sentence or two, and the directory stays as it is."""
    before = snapshot(data)
    with pytest.raises(NotTogetherError) as caught:
        Started(data)
    with pytest.raises(NotTogetherError):
        Started(data)
    assert snapshot(data) == before
    text = str(caught.value)
    assert "\n" not in text
    assert str(data / CATALOG) in text
    assert str(data / "journal") in text
    return text


def test_yesterday_s_catalog_is_refused_and_today_s_still_helps(data: Path) -> None:
    held = filled(data)
    today = (data / CATALOG).read_bytes()
    shutil.copy(data.parent / "yesterday", data / CATALOG)
    text = refused(data)
    assert "the journal speaks of queue 3, and the catalog has given no id above 2" in text
    assert "the journal was written after change 3 of the catalog, whose last one is 2" in text
    assert "which drops 2 messages of 1 queue that this catalog does not know" in text
    (data / CATALOG).write_bytes(today)
    assert Started(data).contents == held


def test_a_catalog_from_before_a_change_that_left_no_message_is_refused(data: Path) -> None:
    """A queue that was deleted would be back, and take messages; so would a user."""
    held = filled(data)
    shutil.copy(data / CATALOG, data.parent / "yesterday")
    started = Started(data)
    started.delete(3)
    # What was told of a change is written with the next commit, if only a settle's.
    started.stop()
    shutil.copy(data.parent / "yesterday", data / CATALOG)
    text = refused(data)
    assert "the journal was written after change 4 of the catalog, whose last one is 3" in text
    started = Started(data, drops_unmatched=True)
    assert started.contents == held
    started.stop()
    assert Started(data).contents == held


def restarted(data: Path, entry_id: int) -> Contents:
    """One more message in queue 1, in a run of its own."""
    started = Started(data)
    held = started.publish(1, entry_id, b"of a later run")
    started.stop()
    return held


def put_back(journal: Path, old: Path) -> None:
    shutil.rmtree(journal)
    shutil.copytree(old, journal)


@pytest.mark.parametrize("is_killed", [False, True])
def test_yesterday_s_journal_is_refused_and_today_s_still_helps(
    data: Path, is_killed: bool
) -> None:
    """No queue was declared since: the catalog differs in nothing but the mark of the start."""
    held = filled(data)
    journal, old = data / "journal", data.parent / "yesterday's journal"
    if is_killed:
        Started(data).kill()
    shutil.copytree(journal, old)
    held |= restarted(data, 10)
    shutil.copytree(journal, data.parent / "today's journal")
    put_back(journal, old)
    text = refused(data)
    last = 2 + is_killed
    assert f"the journal is older: it ends with segment {last}" in text
    assert f"created segment {last + 1}, so all messages since are gone" in text
    directory = DataDirectory.open(data)
    with pytest.raises(NotTogetherError):
        open_catalog_alone(directory, b"")
    directory.close()
    put_back(journal, data.parent / "today's journal")
    for _ in range(2):
        started = Started(data)
        assert started.contents == held
        started.stop()


def test_on_purpose_a_start_goes_on_with_yesterday_s_journal_and_counts_from_there(
    data: Path,
) -> None:
    held = filled(data)
    shutil.copytree(data / "journal", data.parent / "old")
    restarted(data, 10)
    restarted(data, 11)
    put_back(data / "journal", data.parent / "old")
    refused(data)
    started = Started(data, drops_unmatched=True)
    assert started.contents == held
    started.kill()
    started = Started(data)
    assert started.contents == held
    started.stop()


def test_starts_that_write_no_message_or_crash_between_are_no_contradiction(data: Path) -> None:
    """The boot is counted before the segment is made, and that before the catalog marks it."""
    held = filled(data)
    for _ in range(3):
        Started(data).kill()
        directory = DataDirectory.open(data)
        directory.begin()
        directory.close()
    # The catalog knows nothing of the segment of the last start.
    shutil.copy(data / CATALOG, data.parent / "before the mark")
    Started(data).kill()
    shutil.copy(data.parent / "before the mark", data / CATALOG)
    for _ in range(2):
        started = Started(data)
        assert started.contents == held
        started.stop()


@pytest.mark.parametrize("slot_at", [0, 4096])
def test_a_newest_segment_that_is_gone_with_its_slot_is_damage_and_no_older_journal(
    data: Path, slot_at: int
) -> None:
    filled(data)
    started = Started(data)
    started.kill()
    newest = max((data / "journal").glob("*.journal"))
    newest.unlink()
    synced = data / "journal" / "synced"
    content = bytearray(synced.read_bytes())
    content[slot_at : slot_at + 68] = bytes(68)
    synced.write_bytes(content)
    Started(data).kill()
    Started(data).kill()


def test_another_directory_s_catalog_is_refused(data: Path) -> None:
    filled(data)
    other = Started(data.parent / "other", seed=2)
    other.declare(*"abcdefgh")
    other.stop()
    shutil.copy(data.parent / "other" / CATALOG, data / CATALOG)
    text = refused(data)
    assert "segments of the journal are of another data directory" in text
    assert "and 6 of another directory" in text


def test_a_segment_of_another_directory_is_refused(data: Path) -> None:
    held = filled(data)
    other = Started(data.parent / "other", seed=2)
    [queue_id] = other.declare("a")
    other.publish(queue_id, 1, b"not ours")
    other.stop()
    [segment] = (data.parent / "other" / "journal").glob("*.journal")
    stranger = data / "journal" / f"{77:020d}.journal"
    shutil.copy(segment, stranger)
    assert "and 1 of another directory" in refused(data)
    # On purpose it is put aside, as it is; what is ours stays.
    started = Started(data, drops_unmatched=True)
    assert started.contents == held
    assert [line.event for line in started.report] == ["dropped"]
    assert not stranger.exists()
    assert stranger.with_name(stranger.name + ".damaged").read_bytes() == segment.read_bytes()
    started.stop()
    assert Started(data).contents == held


def test_a_catalog_of_before_the_journal_had_its_format_is_refused(data: Path) -> None:
    unpack(3, data)
    shutil.copy(data / CATALOG, data.parent / "yesterday")
    wal = (data / (CATALOG + "-wal")).read_bytes()
    Started(data, seed=2).stop()
    shutil.copy(data.parent / "yesterday", data / CATALOG)
    (data / (CATALOG + "-wal")).write_bytes(wal)
    assert "the catalog was never used with a journal of this version" in refused(data)


def test_on_purpose_messages_of_unknown_queues_are_dropped_and_their_ids_not_used(
    data: Path,
) -> None:
    held = filled(data)
    shutil.copy(data.parent / "yesterday", data / CATALOG)
    started = Started(data, drops_unmatched=True)
    kept = {key: wire for key, wire in held.items() if key[0] != 3}
    assert started.contents == kept
    assert [(line.event, line.entries) for line in started.report] == [("dropped", 2)]
    # Its name may come again; its messages may not.
    assert started.declare("c") == [4]
    kept |= started.publish(4, 1, b"new")
    started.kill()
    for _ in range(2):
        started = Started(data)
        assert started.contents == kept
        started.stop()


def test_a_catalog_that_cannot_be_changed_at_the_start_is_closed_again(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(data)
    shutil.copy(data.parent / "yesterday", data / CATALOG)

    def fail(*_arguments: object) -> None:
        raise StorageError("catalog: disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(Catalog, "raise_numbers", fail)
        with pytest.raises(StorageError) as caught:
            Started(data, drops_unmatched=True)
    # Whoever keeps the error keeps its frames, and what these opened.
    assert "disk I/O" in str(caught.value)
    Started(data, drops_unmatched=True).stop()


def test_a_journal_that_the_catalog_cannot_note_is_closed_again(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(data)

    def fail(*_arguments: object) -> None:
        raise StorageError("catalog: disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(Catalog, "note_journal", fail)
        with pytest.raises(StorageError) as caught:
            Started(data)
    assert "disk I/O" in str(caught.value)
    left = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if os.path.islink(each)]
    assert not [each for each in left if each.endswith((".journal", "synced"))]


def test_messages_of_deleted_queues_are_normal(data: Path) -> None:
    held = filled(data)
    started = Started(data)
    started.delete(3)
    started.delete(2)
    started.kill()
    for _ in range(2):
        started = Started(data)
        assert started.contents == {key: wire for key, wire in held.items() if key[0] == 1}
        started.kill()


def test_a_crash_between_the_catalog_s_commit_and_the_journal_s_record_is_no_contradiction(
    data: Path,
) -> None:
    held = filled(data)
    started = Started(data)
    started.declare("d")
    # The journal has been told and has written nothing since.
    started.kill()
    for _ in range(2):
        started = Started(data)
        assert started.contents == held
        started.stop()


@pytest.mark.parametrize("is_named", [False, True])
def test_a_change_on_which_nothing_depends_is_named_when_it_is_asked_for(
    data: Path, is_named: bool
) -> None:
    """By the disk watch's turns; each change in a commit of its own would cost too much."""
    held = filled(data)
    started = Started(data)
    started.declare("d")
    assert started.journal is not None
    if is_named:
        started.journal.name_catalog_change()
    assert (started.journal.begin_commit() is not None) is is_named
    if is_named:
        # A commit that has not been run counts as made, so that it is not made twice.
        started.journal.name_catalog_change()
        assert started.journal.begin_commit() is None
    started.kill()
    assert Started(data).contents == held


def test_a_polite_stop_names_the_last_change_too(data: Path) -> None:
    filled(data)
    started = Started(data)
    started.stop()
    shutil.copy(data / CATALOG, data.parent / "before")
    started = Started(data)
    started.declare("d")
    started.stop()
    shutil.copy(data.parent / "before", data / CATALOG)
    assert "of the catalog, whose last one is" in refused(data)


KILLED = """
import os, signal, sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from directories import Started
started = Started(Path(sys.argv[1]))
started.declare("killed")
started.publish(started.catalog.next_queue_id - 1, 1, b"1")
# As if this were an older catalog.
started.catalog._connection.execute("UPDATE directory SET change_number = 1")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_broker_s_catalog_is_looked_into_without_a_change(data: Path) -> None:
    """SQLite would write its log into the file when it is opened and closed."""
    filled(data)
    subprocess.run(
        [sys.executable, "-c", KILLED, str(data), os.path.dirname(__file__)], check=False
    )
    assert (data / (CATALOG + "-wal")).stat().st_size
    assert "was written after change 4 of the catalog, whose last one is 1" in refused(data)


def test_accounts_are_not_changed_in_a_catalog_that_is_not_the_journal_s(data: Path) -> None:
    """Changes made there would hide that it is an older one."""
    filled(data)
    shutil.copy(data.parent / "yesterday", data / CATALOG)
    before = snapshot(data)
    directory = DataDirectory.open(data)
    with pytest.raises(NotTogetherError, match="written after change 3"):
        open_catalog_alone(directory, bytes(16))
    directory.close()
    assert snapshot(data) == before


def test_a_journal_that_is_gone_with_all_its_files_is_reported(data: Path) -> None:
    filled(data)
    shutil.rmtree(data / "journal")
    started = Started(data)
    assert [line.event for line in started.report] == ["missing"]
    assert "there is no segment" in started.report[0].text
    started.stop()
    assert Started(data).report == []
