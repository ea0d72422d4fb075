"""The commands that look at a broker and change its accounts, as a person types them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import leveret
import pytest
from leveret.amqp_frames.compiled import FORM
from leveret.amqp_frames.methods import (
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicQos,
    ExchangeDeclare,
    QueueBind,
)
from leveret.amqp_frames.values.field_table import Field
from served import Served
from typed_commands import ProcessShell, Shell
from wire import Client


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "data").mkdir()
    return Shell(tmp_path / "data")


def change_everything(shell: Shell) -> None:
    """Each command that changes accounts; a broker runs, or none does."""
    assert (
        shell.said("user", "add", "ann", "--tag", "monitoring", typed="secret\n")
        == "user 'ann' is added\n"
    )
    assert shell.said("user", "add", "bob", typed="bobs") == "user 'bob' is added\n"
    assert (
        shell.said("user", "passwd", "ann", typed="changed\n")
        == "user 'ann' has another password\n"
    )
    assert (
        shell.said("user", "tags", "bob", "management", "policymaker")
        == "user 'bob' has the tags management, policymaker now, and had no tags\n"
    )
    assert (
        shell.said("vhost", "add", "v") == "vhost 'v' is added; nobody has permissions there yet\n"
    )
    assert (
        shell.said("vhost", "add", "gone")
        == "vhost 'gone' is added; nobody has permissions there yet\n"
    )
    assert (
        shell.said("vhost", "delete", "gone")
        == "vhost 'gone' is deleted, with all that was in it\n"
    )
    assert (
        shell.said("permissions", "set", "ann", "--vhost", "v", "^ann", ".*", "")
        == "user 'ann' has in vhost 'v' now configure '^ann', write '.*', read '', "
        "and had no permissions there\n"
    )
    shell.said("permissions", "set", "bob", "", "", "")
    assert (
        shell.said("permissions", "set", "bob", "", "", ".*")
        == "user 'bob' has in vhost '/' now configure '', write '', read '.*', "
        "and had configure '', write '', read ''\n"
    )
    assert (
        shell.said("permissions", "clear", "bob") == "user 'bob' may not use vhost '/' any more\n"
    )
    assert shell.said("user", "delete", "guest", "--yes") == "user 'guest' is deleted\n"


def check_everything(shell: Shell) -> None:
    assert shell.said("user", "list") == (
        "user  tags\nann   monitoring\nbob   management,policymaker\n"
    )
    assert shell.rows("user", "list") == [
        {"user": "ann", "tags": ["monitoring"]},
        {"user": "bob", "tags": ["management", "policymaker"]},
    ]
    assert shell.said("vhost", "list") == "vhost\n/\nv\n"
    assert shell.rows("permissions", "list") == [
        {"user": "ann", "vhost": "v", "configure": "^ann", "write": ".*", "read": ""}
    ]
    assert shell.refused("user", "delete", "guest") == "there is no user 'guest'"
    assert shell.refused("permissions", "set", "ann", "(", "", "").startswith(
        "'(' is not a regular expression"
    )


def test_accounts_are_changed_without_a_broker_and_are_there_when_one_starts(shell: Shell) -> None:
    change_everything(shell)
    check_everything(shell)
    with leveret.Broker(data_dir=shell.directory, port=0, log_level="error") as broker:
        check_everything(shell)
        with Client(broker.host, broker.port) as client:
            client.log_in(user="ann", password="changed", vhost="v").open_channel(1)
            client.declare("ann's")


def test_accounts_are_changed_on_a_running_broker_and_are_there_after_it(shell: Shell) -> None:
    with leveret.Broker(
        data_dir=shell.directory, port=0, log_level="error", password_hash_cost=10
    ) as broker:
        change_everything(shell)
        check_everything(shell)
        with Client(broker.host, broker.port) as client:
            client.log_in(user="ann", password="changed", vhost="v").open_channel(1)
            client.declare("ann's")
    check_everything(shell)


def test_changes_made_by_a_command_survive_kill_9(tmp_path: Path) -> None:
    shell = ProcessShell(tmp_path / "data")
    with Served(tmp_path, log_level="error", password_hash_cost=10) as broker:
        shell.said("user", "add", "ann", typed="secret\n")
        shell.said("vhost", "add", "v")
        shell.said("permissions", "set", "ann", "--vhost", "v", "^ann", ".*", "")
        broker.signal(signal.SIGKILL)
        broker.exit_code()
    # The socket of the broker that was killed is still there; nobody answers, so none is asked.
    assert (shell.directory / "control.sock").exists()
    assert shell.said("user", "list") == "user   tags\nguest  administrator\nann    -\n"
    with Served(tmp_path, log_level="error") as broker:
        assert {"vhost": "v"} in shell.rows("vhost", "list")
        with Client(broker.host, broker.port) as client:
            client.log_in(user="ann", password="secret", vhost="v").open_channel(1)
            client.declare("ann's")


def test_offline_the_first_command_makes_the_default_user(shell: Shell) -> None:
    assert shell.said("user", "list") == "user   tags\nguest  administrator\n"
    assert shell.said("vhost", "list") == "vhost\n/\n"


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["connections"],
        ["channels"],
        ["queues"],
        ["exchanges"],
        ["bindings"],
        ["topics"],
    ],
)
def test_a_broker_that_does_not_run_cannot_be_looked_at(shell: Shell, words: list[str]) -> None:
    expected = f"no broker runs on data directory {shell.directory}"
    assert shell.refused(*words) == expected


def test_a_directory_without_a_broker_is_named_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is in the wrong folder sees it: the default is `leveret-data` where one stands."""
    monkeypatch.chdir(tmp_path)
    shell = Shell(Path("leveret-data"))
    wanted = tmp_path / "leveret-data"
    assert shell.refused("status") == f"no broker runs on data directory {wanted}"
    assert shell.refused("user", "list") == f"there is no data directory {wanted}"


def test_a_data_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "none")
    assert shell.refused("user", "list") == f"there is no data directory {tmp_path / 'none'}"
    assert not (tmp_path / "none").exists()


def test_an_empty_password_is_refused(shell: Shell) -> None:
    assert shell.refused("user", "add", "ann", typed="\n") == "a password must not be empty"
    assert shell.refused("user", "passwd", "guest") == "a password must not be empty"


def test_a_password_is_not_longer_than_one_that_is_checked(shell: Shell) -> None:
    words = "a password has at most 1024 bytes"
    assert shell.refused("user", "add", "ann", typed="p" * 1025) == words
    shell.said("user", "add", "ann", typed="p" * 1024)


def test_a_password_is_no_argument_and_in_no_log(shell: Shell) -> None:
    _, errors = shell.run("user", "add", "ann", "s3cr3t-word", typed="x\n", code=2)
    assert "unrecognized arguments" in errors
    shell.said("user", "add", "ann", typed="s3cr3t-word\n")
    for file in shell.directory.rglob("*"):
        assert file.is_dir() or b"s3cr3t-word" not in file.read_bytes()


@pytest.fixture
def busy(shell: Shell) -> Iterator[tuple[leveret.Broker, Client]]:
    """A broker with a queue, an exchange, a binding and a consumer; and their client."""
    with (
        leveret.Broker(
            data_dir=shell.directory, port=0, log_level="error", password_hash_cost=10
        ) as broker,
        Client(broker.host, broker.port) as client,
    ):
        client.log_in().open_channel(1, confirms=True)
        client.declare("q", durable=True)
        client.ask(1, ExchangeDeclare(exchange="x", type="topic", durable=True))
        client.ask(1, QueueBind(queue="q", exchange="x", routing_key="k.#"))
        client.ask(1, BasicQos(prefetch_count=1))
        # Large enough that the queue has told the node's budget of them.
        client.publish_all("q", *(digit * 2_000 for digit in (b"1", b"2", b"3")))
        client.consume("q")
        yield broker, client


def test_a_status_says_where_the_broker_is_and_how_much_it_has(
    shell: Shell, busy: tuple[leveret.Broker, Client]
) -> None:
    broker, _ = busy
    status = shell.rows("status")
    counted = ("connections", "channels", "queues", "vhosts", "users")
    assert [status[name] for name in counted] == [1, 1, 1, 1, 1]
    assert (status["alarm"], status["publishing_bytes"]) == ("none", 0)
    assert 0 < status["memory_bytes"] < status["memory_budget_bytes"]
    assert status["memory_budget_bytes"] == leveret.Configuration().memory_budget_limit()
    assert status["address"] == f"{broker.host}:{broker.port}"
    assert status["codec"] == FORM
    assert f"pid                  {os.getpid()}\n" in shell.said("status")


def test_connections_and_channels_are_listed(
    shell: Shell, busy: tuple[leveret.Broker, Client]
) -> None:
    peer = "{}:{}".format(*busy[1].socket.getsockname())
    [connection] = shell.rows("connections")
    names = ("peer", "user", "vhost", "channels")
    assert [connection[name] for name in names] == [peer, "guest", "/", 1]
    assert shell.rows("channels") == [
        {
            "peer": peer,
            "channel": 1,
            "user": "guest",
            "vhost": "/",
            "mode": "confirm",
            "unconfirmed": 0,
            "prefetch": 1,
            "global_prefetch": 0,
            "consumers": 1,
            "unacked": 1,
        }
    ]


def test_deferred_messages_are_listed_with_their_queue(
    shell: Shell, busy: tuple[leveret.Broker, Client]
) -> None:
    broker, _ = busy
    with Client(broker.host, broker.port) as client:
        client.log_in().open_channel(1, confirms=True)
        client.declare("later", arguments={"x-requeue-delay": Field("signedint", 3_600_000)})
        client.publish_all("later", b"1", b"2")
        assert isinstance(client.ask(1, BasicGet(queue="later")), BasicGetOk)
        client.read_content(1)
        client.send_methods(1, BasicNack(1, False, True))
        client.nothing_more()
        [row] = [each for each in shell.rows("queues") if each["queue"] == "later"]
        assert [row[name] for name in ("ready", "unacked", "deferred")] == [1, 0, 1]


def test_queues_exchanges_and_bindings_are_listed(
    shell: Shell, busy: tuple[leveret.Broker, Client]
) -> None:
    assert shell.rows("queues") == [
        {
            "vhost": "/",
            "queue": "q",
            "durable": True,
            "exclusive": False,
            "auto_delete": False,
            "state": "running",
            "ready": 2,
            "unacked": 1,
            "deferred": 0,
            "consumers": 1,
            "arguments": {},
        }
    ]
    assert "q      yes" in shell.said("queues")
    exchanges = shell.rows("exchanges")
    assert [each["type"] for each in exchanges if each["exchange"] == "x"] == ["topic"]
    assert "amq.leveret.delivery" in [each["exchange"] for each in exchanges]
    binding = {"vhost": "/", "source": "x", "destination": "q", "kind": "queue"}
    assert shell.rows("bindings") == [binding | {"routing_key": "k.#", "arguments": {}}]
