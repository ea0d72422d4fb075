"""A stop keeps its time, whoever does not answer; and says what it waits for."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import leveret
import pika
import pytest
from gated_files import GatedFiles
from leveret.signals import REPEAT_SECONDS
from leveret.storage.files import OperatingSystemFiles
from log_lines import LogLines
from served import Served
from timeouts import TIMEOUT_SECONDS
from wire import PERSISTENT, Client, publish

# What a stop must not wait for would take longer.
TOO_LONG_SECONDS = TIMEOUT_SECONDS / 2
LONG_MS = 3_600_000


def test_a_client_that_does_not_answer_holds_an_embedded_broker_up_for_a_moment_only(
    tmp_path: Path,
) -> None:
    broker = leveret.Broker(
        data_dir=tmp_path / "data",
        port=0,
        password_hash_cost=10,
        log_level="error",
        drain_timeout_ms=LONG_MS,
        stop_timeout_ms=LONG_MS,
    )
    with broker:
        # Nobody calls its process_data_events from here on, as after a test that failed.
        connection = pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port))
        begun = time.monotonic()
    assert time.monotonic() - begun < TOO_LONG_SECONDS
    assert broker.failure is None
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connection.channel()


@pytest.fixture
def held_up(
    tmp_path: Path, files: GatedFiles, log: LogLines
) -> Iterator[tuple[leveret.Broker, Client]]:
    """A broker whose disk hangs in mid-sync, and the client that waits for that sync."""
    broker = leveret.Broker(
        data_dir=tmp_path / "data",
        port=0,
        files=files,
        password_hash_cost=10,
        log_format="json",
        stop_timeout_ms=700,
    )
    broker.start()
    with Client(broker.host, broker.port).log_in() as client:
        client.open_channel(1, confirms=True)
        client.declare("durable", durable=True)
        client.publish_all("durable", b"kept", properties=PERSISTENT)
        files.hold()
        client.send(publish("durable", b"unanswered", PERSISTENT))
        files.wait_until_syncing()
        yield broker, client
    files.release()


def test_a_disk_that_hangs_does_not_hold_a_stop_up_beyond_its_time(
    held_up: tuple[leveret.Broker, Client], log: LogLines
) -> None:
    broker, _client = held_up
    begun = time.monotonic()
    with pytest.raises(leveret.BrokerFailedError, match=r"the journal .* 700 ms"):
        broker.stop()
    assert time.monotonic() - begun < TOO_LONG_SECONDS
    assert isinstance(broker.failure, leveret.BrokerFailedError)
    waited_for = [line["waits_for"] for line in log.of("broker.stop_timeout")]
    assert "the journal" in waited_for[-1]
    # It is said once.
    broker.stop()


def test_a_directory_whose_disk_hangs_is_not_given_back_before_the_last_write(
    held_up: tuple[leveret.Broker, Client], files: GatedFiles
) -> None:
    broker, _client = held_up
    with pytest.raises(leveret.BrokerFailedError):
        broker.stop()
    again = leveret.Broker(broker.configuration, files=OperatingSystemFiles())
    with pytest.raises(leveret.StartError, match="in use by another broker"):
        again.start()
    files.release()
    assert broker.node is not None
    closed = broker.node.open_files.closed
    assert closed is not None
    closed.result(TIMEOUT_SECONDS)
    with again, Client(again.host, again.port).log_in() as client:
        client.open_channel(1)
        got = client.get("durable", no_ack=True)
        assert got is not None
        assert got.body == b"kept"


def test_a_disk_that_fails_after_the_stop_was_given_up_is_logged_and_its_files_are_closed(
    held_up: tuple[leveret.Broker, Client], files: GatedFiles, log: LogLines
) -> None:
    broker, _client = held_up
    with pytest.raises(leveret.BrokerFailedError):
        broker.stop()
    files.failing["sync_data"] = OSError(errno.EIO, os.strerror(errno.EIO), "the journal's file")
    files.release()
    assert broker.node is not None
    closed = broker.node.open_files.closed
    assert closed is not None
    closed.result(TIMEOUT_SECONDS)
    [failed] = log.of("broker.failed")
    assert failed["actor"] == "JournalActor"
    assert "the journal's file" in failed["error"]
    assert not [each for each in open_files() if each.endswith(".journal")]


def open_files() -> list[str]:
    """The files that this process has open."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(os.readlink(each))
    return found


def let_pass_as_no_repeat() -> None:
    """After this, another signal is no repeat of one that the broker has handled."""
    threading.Event().wait(REPEAT_SECONDS)


def test_a_later_signal_ends_a_stop_at_once(tmp_path: Path) -> None:
    with (
        Served(
            tmp_path,
            stop_timeout_ms=600_000,
            stop_clients_timeout_ms=600_000,
            log_format="json",
        ) as served,
        Client(served.host, served.port).log_in() as client,
    ):
        client.open_channel(1, confirms=True)
        client.declare("durable", durable=True)
        client.publish_all("durable", b"kept", properties=PERSISTENT)
        served.signal(signal.SIGTERM)
        # The broker asks it to close, and gets no answer.
        assert client.read_method(0) is not None
        let_pass_as_no_repeat()
        served.signal(signal.SIGINT)
        assert served.exit_code() == -signal.SIGINT
        last = served.log().splitlines()[-1]
        assert json.loads(last)["event"] == "broker.signal_ends"
        assert json.loads(last)["signal"] == "SIGINT"
    with (
        Served(tmp_path) as served,
        Client(served.host, served.port).log_in() as client,
    ):
        client.open_channel(1)
        assert client.counts("durable") == (1, 0)


def test_a_later_signal_ends_a_stop_also_where_nobody_reads_the_log(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with (
        Served(
            tmp_path, stderr=writing, stop_timeout_ms=600_000, stop_clients_timeout_ms=600_000
        ) as served,
        Client(served.host, served.port).log_in() as client,
    ):
        served.signal(signal.SIGTERM)
        assert client.read_method(0) is not None
        # Full, so that whatever is logged waits.
        os.set_blocking(writing, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writing, b"x")
        os.set_blocking(writing, True)
        let_pass_as_no_repeat()
        served.signal(signal.SIGTERM)
        assert served.exit_code() == -signal.SIGTERM
    os.close(reading)
    os.close(writing)


def test_a_terminal_is_told_what_a_stop_waits_for_and_how_to_end_it(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    with (
        Served(
            tmp_path, stderr=slave, stop_timeout_ms=600_000, stop_clients_timeout_ms=600_000
        ) as served,
        Client(served.host, served.port).log_in() as client,
    ):
        os.close(slave)
        served.signal(signal.SIGINT)
        said = read_until(master, "broker.stop_waits")
        name = "{}:{}".format(*client.socket.getsockname())
        assert f"1 connection that has not answered connection.close: {name}" in said
        assert "another signal ends it at once" in said
        let_pass_as_no_repeat()
        served.signal(signal.SIGINT)
        assert served.exit_code() == -signal.SIGINT
    os.close(master)


def read_until(terminal: int, word: str) -> str:
    """The terminal's text, up to the end of the line with this word; without colours."""
    text = ""
    while not re.search(re.escape(word) + r".*\n", text):
        text += os.read(terminal, 4096).decode()
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return text
