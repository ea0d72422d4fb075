"""A data directory that goes away under its broker: no confirm is believed that nobody can keep."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import leveret
import pytest
from insides import failure_of, on_loop
from leveret.amqp_frames.methods import BasicAck
from leveret.storage.data_directory import DataDirectoryGone, DirectoryWatch
from leveret.storage.files import OperatingSystemFiles
from served import Served
from wire import PERSISTENT, Client, publish


def move_away(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))


def exchange(directory: Path) -> None:
    move_away(directory)
    shutil.copytree(directory.with_name("elsewhere"), directory, ignore=_sockets)


def _sockets(_folder: object, names: list[str]) -> list[str]:
    return [name for name in names if name.endswith(".sock")]


def remove_the_journal(directory: Path) -> None:
    shutil.rmtree(directory / "journal")


@pytest.mark.parametrize(
    ("harm", "fate"),
    [
        (move_away, "was removed or moved away"),
        (shutil.rmtree, "was removed or moved away"),
        (exchange, "is not the one that the broker opened"),
        (remove_the_journal, "was removed or moved away"),
    ],
)
def test_a_broker_whose_directory_goes_away_ends_with_one_sentence(
    harm: Callable[[Path], None], fate: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "data"
    broker = leveret.Broker(
        data_dir=directory,
        port=0,
        disk_check_interval_ms=10,
        log_level="error",
        log_format="json",
        password_hash_cost=10,
    )
    broker.start()
    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(1, confirms=True)
        client.declare("orders", durable=True)
        client.send(publish("orders", b"kept", PERSISTENT))
        client.expect(1, BasicAck(1, False))
        # In one go, between two looks of the broker.
        on_loop(broker, lambda: harm(directory))
        client.expect_closed()
    failure = failure_of(broker)
    assert isinstance(failure, DataDirectoryGone)
    assert str(directory) in str(failure)
    assert fate in str(failure)
    errors = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert errors[0]["event"] == "broker.failed"
    assert errors[0]["error"] == str(failure)
    assert not any("exception" in line for line in errors)


def test_a_served_broker_that_is_stopped_before_it_looks_says_so_without_a_traceback(
    tmp_path: Path,
) -> None:
    with Served(tmp_path) as served:
        with Client(served.host, served.port).log_in() as client:
            client.open_channel(1, confirms=True)
            client.declare("orders", durable=True)
            client.send(publish("orders", b"one", PERSISTENT))
            client.expect(1, BasicAck(1, False))
        shutil.rmtree(tmp_path / "data")
        served.process.terminate()
        assert served.exit_code() == 1
        assert "Traceback" not in served.log()
        assert str(tmp_path / "data") in served.log()


def test_a_disk_that_does_not_say_is_no_directory_that_is_gone(tmp_path: Path) -> None:
    class Failing(OperatingSystemFiles):
        error: OSError | None = None

        def identity(self, path: str) -> tuple[int, int]:
            if self.error is not None:
                raise self.error
            return super().identity(path)

    (tmp_path / "journal").mkdir()
    files = Failing()
    watch = DirectoryWatch(str(tmp_path), files)
    watch.check()
    files.error = PermissionError(13, "Permission denied")
    with pytest.raises(PermissionError):
        watch.check()
    files.error = None
    watch.check()
