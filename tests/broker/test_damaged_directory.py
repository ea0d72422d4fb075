"""Starts on a damaged data directory: what is damaged is lost, and said, and nothing else is."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import leveret
import pytest
from gated_files import GatedFiles
from insides import wait_until
from leveret.amqp_frames.methods import QueueDelete, QueueDeleteOk
from leveret.amqp_frames.values.field_table import table_of
from leveret.storage.files import OperatingSystemFiles
from leveret.storage.inspection import inspected
from leveret.storage.journal.segment_facts import read_facts
from leveret.storage.journal.segment_index import write_index
from served import Served
from wire import PERSISTENT, Client

BODIES = [b"message %03d" % number for number in range(40)]


def new_broker(
    data: Path, files: OperatingSystemFiles | None = None, **settings: object
) -> leveret.Broker:
    about: dict[str, object] = {"log_level": "warning", "log_format": "json"}
    about |= {"password_hash_cost": 10, "port": 0, "journal_verification": "start"} | settings
    return leveret.Broker(data_dir=data, files=files, **about)


@contextmanager
def client_of(broker: leveret.Broker | Served) -> Iterator[Client]:
    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(1, confirms=True)
        yield client


def make_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def make_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """40 messages, confirmed one by one; the broker was stopped, and so was the next one."""
    path = tmp_path / "data"
    with new_broker(path) as broker, client_of(broker) as client:
        client.declare("orders", durable=True)
        for body in BODIES:
            client.publish_all("orders", body, properties=PERSISTENT)
    return path


def segments(data: Path) -> list[Path]:
    return sorted((data / "journal").glob("*.journal"))


def held(broker: leveret.Broker | Served, queue: str = "orders") -> list[bytes]:
    with client_of(broker) as client:
        return drained(client, queue)


def drained(client: Client, queue: str = "orders") -> list[bytes]:
    bodies = []
    while (got := client.get(queue)) is not None:
        bodies.append(got.body)
    return bodies


def logged(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The warnings since this was asked last."""
    return [json.loads(line) for line in capfd.readouterr().err.splitlines()]


def fault_of(data: Path) -> str:
    """Why the start is refused: a sentence, without the name of an exception."""
    with pytest.raises(leveret.StartError) as caught:
        new_broker(data).start()
    text = str(caught.value)
    assert "\n" not in text
    assert not any(word.endswith("Error:") for word in text.split())
    return text


def contents_of(data: Path) -> dict[Path, bytes]:
    ours = (path for path in data.rglob("*") if path.is_file() and path.name != "lock")
    return {path: path.read_bytes() for path in ours}


def test_an_older_catalog_is_refused_and_the_right_one_still_helps(data: Path) -> None:
    catalog = data / "catalog.sqlite"
    shutil.copy(catalog, data.parent / "yesterday")
    with new_broker(data) as broker, client_of(broker) as client:
        client.declare("new", durable=True)
        client.publish_all("new", b"1", b"2", properties=PERSISTENT)
    today = catalog.read_bytes()
    shutil.copy(data.parent / "yesterday", catalog)
    before = contents_of(data)
    for _ in range(2):
        text = fault_of(data)
    assert contents_of(data) == before
    assert str(catalog) in text
    assert str(data / "journal") in text
    assert "leveret serve --drop-unmatched-messages" in text
    catalog.write_bytes(today)
    with new_broker(data) as broker:
        assert held(broker, "new") == [b"1", b"2"]
        assert held(broker) == BODIES


def test_on_the_command_line_an_older_catalog_can_be_taken_on_purpose(data: Path) -> None:
    catalog = data / "catalog.sqlite"
    shutil.copy(catalog, data.parent / "yesterday")
    with new_broker(data) as broker, client_of(broker) as client:
        client.declare("new", durable=True)
        client.publish_all("new", b"1", b"2", properties=PERSISTENT)
    shutil.copy(data.parent / "yesterday", catalog)
    command = [sys.executable, "-m", "leveret", "serve", "--port", "0", "--data-dir", str(data)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    [line] = [line for line in refused.stderr.splitlines() if line.startswith("leveret: ")]
    assert "which drops 2 messages of 1 queue that this catalog does not know" in line
    with Served(data.parent, arguments=["--drop-unmatched-messages"]) as served:
        assert held(served) == BODIES
        assert "queue 2 is not in the catalog: 2 entries" in served.log()


def test_deleted_queues_and_restarts_are_no_older_catalog(data: Path) -> None:
    with new_broker(data) as broker, client_of(broker) as client:
        client.declare("new", durable=True)
        client.publish_all("new", b"1", properties=PERSISTENT)
        assert client.ask(1, QueueDelete(queue="new")) == QueueDeleteOk(1)
    for _ in range(2):
        with new_broker(data) as broker:
            assert held(broker) == BODIES


@pytest.mark.parametrize("content", [None, b"", bytes(735_000)])
def test_a_missing_newest_segment_is_reported(
    capfd: pytest.CaptureFixture[str], data: Path, content: bytes | None
) -> None:
    newest = segments(data)[-1]
    if content is None:
        newest.unlink()
    else:
        newest.write_bytes(content)
    with new_broker(data) as broker:
        assert held(broker) == []
    found = [line for line in logged(capfd) if line.get("entries") == len(BODIES)]
    assert found
    if content:
        kept = newest.with_name(newest.name + ".damaged")
        assert kept.read_bytes() == content


def test_one_flipped_bit_costs_one_message(capfd: pytest.CaptureFixture[str], data: Path) -> None:
    [segment] = segments(data)
    content = bytearray(segment.read_bytes())
    at = content.index(BODIES[17])
    content[at] ^= 1
    segment.write_bytes(content)
    left = BODIES[:17] + BODIES[18:]
    for _ in range(2):
        with new_broker(data) as broker:
            assert held(broker) == left
    said = {line["event"]: line["report"] for line in logged(capfd) if "report" in line}
    assert said.keys() == {"journal.damaged", "journal.lost"}
    assert "1 entry of queue 1 ('orders' in '/'), ids 18: no body of batch" in said["journal.lost"]


@contextmanager
def index_written(data: Path) -> Iterator[bytearray]:
    """What happens to the one segment's bytes here, the start finds only when it reads them."""
    files = OperatingSystemFiles()
    with inspected(data) as inspection:
        for segment in inspection.segments():
            write_index(files, str(data / "journal"), read_facts(inspection.open(segment)))
    [path] = segments(data)
    content = bytearray(path.read_bytes())
    yield content
    path.write_bytes(content)


def test_damage_behind_an_index_leaves_its_queue_before_anybody_reads_it(
    capfd: pytest.CaptureFixture[str], data: Path
) -> None:
    with index_written(data) as content:
        content[content.index(BODIES[17])] ^= 1
    with new_broker(data, journal_verification="background") as broker:
        with client_of(broker) as client:
            # Nobody consumes.
            wait_until(lambda: client.declare("orders", durable=True).message_count == 39)
        said = [(line["event"], line["report"]) for line in logged(capfd)]
        [lost] = [text for event, text in said if event == "journal.lost" and "queue 1" in text]
        assert lost.startswith("1 entry of queue 1 ('orders' in '/'), ids 18: no body of batch")
        assert held(broker) == BODIES[:17] + BODIES[18:]
    # It was settled, so that no start counts it again.
    with new_broker(data) as broker:
        assert held(broker) == BODIES[:17] + BODIES[18:]
    assert "journal.lost" not in {line["event"] for line in logged(capfd)}


def test_a_queue_that_must_look_at_its_messages_reports_those_that_are_not_there(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with new_broker(data) as broker, client_of(broker) as client:
        client.declare("orders", durable=True, arguments=table_of({"x-max-priority": 3}))
        for body in BODIES:
            client.publish_all("orders", body, properties=PERSISTENT)
    with index_written(data) as content:
        content[content.index(BODIES[17])] ^= 1
    for _ in range(2):
        with new_broker(data, journal_verification="background") as broker:
            assert held(broker) == BODIES[:17] + BODIES[18:]
    said = [line["report"] for line in logged(capfd) if line["event"] == "journal.lost"]
    # Those of one start: the entry was settled.
    [lost] = [text for text in said if "ids 18: no body of batch" in text]
    assert lost.startswith("1 entry of queue 1 ('orders' in '/')")


def test_a_segment_s_name_with_more_digits_than_a_number_has_is_left_alone(
    capfd: pytest.CaptureFixture[str], data: Path
) -> None:
    stranger = data / "journal" / f"{10**20 - 1}.journal"
    stranger.write_bytes(b"not ours")
    with new_broker(data) as broker:
        assert held(broker) == BODIES
    assert stranger.read_bytes() == b"not ours"
    assert [line["event"] for line in logged(capfd)] == ["journal.ignored"]


@pytest.mark.parametrize("make", [make_directory, make_pipe])
def test_a_directory_or_a_pipe_in_a_segment_s_place_is_left_alone(
    capfd: pytest.CaptureFixture[str], data: Path, make: Callable[[Path], None]
) -> None:
    stranger = data / "journal" / f"{77:020d}.journal"
    make(stranger)
    with new_broker(data) as broker:
        assert held(broker) == BODIES
    assert stranger.exists()
    assert not stranger.is_file()
    assert [line["event"] for line in logged(capfd)] == ["journal.damaged"]


@pytest.mark.parametrize(
    ("name", "make", "fault"),
    [
        ("journal/synced", make_directory, "{path} cannot be read: Is a directory"),
        ("journal/synced", make_pipe, "{path} cannot be read: Is a pipe or a device"),
        ("journal/synced.new", make_directory, "{path}: Is a directory"),
        ("boot.new", make_directory, "{path}: Is a directory"),
        ("catalog.sqlite", make_directory, "catalog {path} is no file"),
        ("catalog.sqlite", make_pipe, "catalog {path} is no file"),
    ],
)
def test_a_directory_or_a_pipe_in_a_file_s_place_is_named(
    data: Path, name: str, make: Callable[[Path], None], fault: str
) -> None:
    path = data / name
    make(path)
    assert fault_of(data) == fault.format(path=path)


def test_a_file_in_the_journal_s_place_is_named(data: Path) -> None:
    shutil.rmtree(data / "journal")
    (data / "journal").touch()
    assert fault_of(data) == f"{data / 'journal'}: Not a directory"


def test_a_boot_file_of_5000_digits_is_named(data: Path) -> None:
    (data / "boot").write_text("9" * 5000)
    assert "its boot file says '9999" in fault_of(data)


def test_a_file_in_the_next_segment_s_place_is_put_aside(data: Path) -> None:
    with new_broker(data, segment_bytes_max=1 << 20) as broker, client_of(broker) as client:
        number = int(segments(data)[-1].stem)
        (data / "journal" / f"{number + 1:020d}.journal").mkdir()
        for _ in range(3):
            client.publish_all("orders", bytes(500_000), properties=PERSISTENT)
        assert broker.failure is None
    assert (data / "journal" / f"{number + 1:020d}.journal.damaged").is_dir()
    with new_broker(data) as broker:
        assert len(held(broker)) == len(BODIES) + 3


class Unremovable(GatedFiles):
    """A disk that removes nothing while `is_stubborn`."""

    is_stubborn = True

    def remove(self, path: str) -> None:
        if self.is_stubborn and path.endswith(".journal"):
            raise OSError(errno.EPERM, "Operation not permitted", path)
        super().remove(path)


def test_a_segment_that_cannot_be_removed_does_not_end_the_broker(
    capfd: pytest.CaptureFixture[str], data: Path
) -> None:
    files = Unremovable()
    with new_broker(data, files) as broker, client_of(broker) as client:
        first = segments(data)[0]
        for body in BODIES:
            assert client.get("orders", no_ack=True).body == body  # type: ignore[union-attr]
        # Confirmed behind the settles: by then the journal has tried.
        client.publish_all("orders", b"last", properties=PERSISTENT)
        assert broker.failure is None
        assert first in segments(data)
    assert "journal.undiscarded" in {line["event"] for line in logged(capfd)}
    files.is_stubborn = False
    with new_broker(data, files) as broker:
        assert held(broker) == [b"last"]
        assert first not in segments(data)


def test_messages_expire_where_the_clock_begins_before_1970(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 10**19)
    monkeypatch.setattr(time, "time", lambda: -5.0)
    arguments = table_of(
        {"x-message-ttl": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    )
    path = tmp_path / "data"
    with new_broker(path) as broker, client_of(broker) as client:
        client.declare("dead", durable=True)
        client.declare("fading", durable=True, arguments=arguments)
        client.publish_all("fading", b"1", properties=PERSISTENT)
        assert broker.failure is None
    # The clock has been set.
    monkeypatch.undo()
    with new_broker(path) as broker, client_of(broker) as client:
        client.wait_for_counts("dead", (1, 0))
        assert drained(client, "dead") == [b"1"]
