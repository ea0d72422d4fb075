"""The commands `leveret definitions export` and `leveret definitions import`."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import leveret
import pytest
from insides import context_of
from leveret.actors.control.definition_transfer import PART_CHARACTERS
from leveret.commands.command_line import main
from leveret.commands.control_client import ControlSession, RequestError
from leveret.commands.definitions_command import PART_BYTES
from typed_commands import Shell
from wire import Client

FILES = Path(__file__).parents[1] / "data" / "definitions"
WITHOUT_HASH = "leveret: users without a password hash that RabbitMQ reads: 'guest'\n"


def queue(name: str, **others: Any) -> dict[str, Any]:
    row = {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    return row | others


@contextmanager
def running(directory: Path, **settings: Any) -> Iterator[tuple[leveret.Broker, Shell]]:
    with leveret.Broker(
        data_dir=directory, port=0, log_level="error", password_hash_cost=10, **settings
    ) as broker:
        yield broker, Shell(directory)


def exported(shell: Shell, *words: str) -> dict[str, Any]:
    output, _ = shell.run("definitions", "export", *words, "-")
    found: dict[str, Any] = json.loads(output)
    return found


def ordered(document: dict[str, Any]) -> dict[str, Any]:
    return {
        name: sorted(each, key=json.dumps) if isinstance(each, list) else each
        for name, each in document.items()
    }


def test_the_definitions_of_one_broker_are_carried_out_by_another(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    with running(tmp_path / "one") as (_, shell):
        source = str(FILES / "4.1.json")
        done = f"definitions file {source} is carried out\n"
        assert shell.said("definitions", "import", source) == done
        assert shell.run("definitions", "export", str(file)) == ("", WITHOUT_HASH)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with running(tmp_path / "other") as (broker, shell):
        done = "definitions file standard input is carried out\n"
        assert shell.said("definitions", "import", "-", typed=file.read_text()) == done
        assert ordered(exported(shell)) == ordered(json.loads(file.read_text()))
        names = {each.name for each in context_of(broker).vhosts.queues()}
        assert names >= {"orders", "durable.quorum", "naïve/名"}
        with Client(broker.host, broker.port) as client:
            client.log_in(user="ann", password="hare")


def test_a_file_for_rabbitmq_has_nothing_of_our_own(tmp_path: Path) -> None:
    rows = [queue("q", arguments={"x-requeue-delay": 1000, "x-max-length": 5})]
    with running(tmp_path) as (_, shell):
        shell.said("definitions", "import", "-", typed=json.dumps({"queues": rows}))
        assert exported(shell)["queues"][0]["arguments"] == rows[0]["arguments"]
        _, errors = shell.run("definitions", "export", "--for-rabbitmq", "-")
        assert errors == WITHOUT_HASH
        document = exported(shell, "--for-rabbitmq")
        assert document["queues"][0]["arguments"] == {"x-max-length": 5}
        assert "users_without_password_hash" not in document


def test_the_definitions_of_one_vhost(tmp_path: Path) -> None:
    file = str(FILES / "3.13-vhost.json")
    with running(tmp_path) as (_, shell):
        words = "there is no vhost 'shop'"
        assert shell.refused("definitions", "export", "--vhost", "shop", "-") == words
        refusal = shell.refused("definitions", "import", "--vhost", "shop", file)
        assert refusal == f"definitions file {file}: {words}"
        shell.said("vhost", "add", "shop")
        shell.said("definitions", "import", "--vhost", "shop", file)
        output = shell.said("definitions", "export", "--vhost", "shop", "-")
        names = {row["name"] for row in json.loads(output)["queues"]}
        assert names == {"orders", "durable.quorum"}
        assert exported(shell, "--vhost", "/")["queues"] == []


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (json.dumps({"queues": [queue("a"), {"name": "b"}]}).encode(), ": queues[1] (name 'b'): "),
        (b"{", ": not JSON: "),
        (b"", ": not JSON: "),
        (b'{"queues": []}\xff', " is not UTF-8"),
        # Cut off within a character.
        ('{"queues": []}ï'.encode()[:-1], " is not UTF-8"),
        (b" " * 30_001, ": it has more than 30000 bytes (definitions_bytes_max)"),
        (None, "cannot read definitions file {}: No such file or directory"),
    ],
    ids=range(7),
)
def test_a_broken_file_changes_nothing_and_says_why(
    tmp_path: Path, octets: bytes | None, reason: str
) -> None:
    file = tmp_path / "definitions.json"
    if octets is not None:
        file.write_bytes(octets)
    with running(tmp_path / "data", definitions_bytes_max=30_000) as (_, shell):
        before = exported(shell)
        refusal = shell.refused("definitions", "import", str(file))
        wanted = reason.format(file) if "{}" in reason else f"definitions file {file}{reason}"
        assert refusal.startswith(wanted)
        assert exported(shell) == before


def test_an_import_waits_as_long_as_it_is_asked_to(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"queues": [queue(f"q{number}") for number in range(500)]}))
    with running(tmp_path / "data") as (_, shell):
        refusal = shell.refused("definitions", "import", "--timeout", "0.000001", str(file))
        assert refusal == f"definitions file {file}: the broker does not answer: timed out"


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e7", "x"])
def test_a_time_to_wait_that_cannot_be_is_refused(
    seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["definitions", "import", f"--timeout={seconds}", "file"])
    assert ended.value.code == 2
    assert "--timeout" in capsys.readouterr().err


def test_a_file_that_is_larger_than_a_line_goes_in_parts(tmp_path: Path) -> None:
    """Its characters become six octets each in JSON, or are cut in two by the parts."""
    rows = [queue(f"q{number}-" + "\x01名" * 40) for number in range(1500)]
    text = json.dumps({"queues": rows}, ensure_ascii=False)
    assert len(text.encode()) > 500_000 > PART_CHARACTERS > PART_BYTES
    with running(tmp_path) as (_, shell):
        shell.said("definitions", "import", "-", typed=text)
        names = [row["name"] for row in exported(shell)["queues"]]
        assert sorted(names) == sorted(row["name"] for row in rows)


def test_a_file_that_is_too_large_stays_so_until_the_next(tmp_path: Path) -> None:
    """A client that goes on after the error cannot have some of its file carried out."""
    text = json.dumps({"queues": [queue("q")]})
    with running(tmp_path, definitions_bytes_max=1024), ControlSession(tmp_path) as session:
        for part in (" " * 1025, text):
            with pytest.raises(RequestError, match="it has more than 1024 bytes"):
                session.ask("definitions part", {"text": part})
        with pytest.raises(RequestError, match="not JSON"):
            session.ask("definitions import", {})
        session.ask("definitions part", {"text": text})
        with ControlSession(tmp_path) as other, pytest.raises(RequestError, match="not JSON"):
            # Each connection has parts of its own.
            other.ask("definitions import", {})
        session.ask("definitions import", {})
        assert [row["queue"] for row in session.ask("queues", {})] == ["q"]


@pytest.mark.parametrize(
    ("request_name", "arguments", "reason"),
    [
        ("definitions part", {}, "'text' must be a string"),
        ("definitions import", {"vhost": 1}, "'vhost' must be a string"),
        ("definitions export", {"for_rabbitmq": 1}, "'for_rabbitmq' must be true or false"),
    ],
)
def test_wrong_arguments_are_named(
    tmp_path: Path, request_name: str, arguments: dict[str, object], reason: str
) -> None:
    with running(tmp_path), ControlSession(tmp_path) as session:
        with pytest.raises(RequestError, match=reason):
            session.ask(request_name, arguments)
        assert session.ask("definitions next", {}) is None


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "none" / "definitions.json"
    with running(tmp_path / "data") as (_, shell):
        words = f"cannot write definitions file {file}: No such file or directory"
        assert shell.refused("definitions", "export", str(file)) == words


def test_definitions_are_those_of_a_broker_that_runs(tmp_path: Path) -> None:
    for action in ("export", "import"):
        refusal = Shell(tmp_path).refused("definitions", action, "-")
        assert refusal == f"no broker runs on data directory {tmp_path}"
