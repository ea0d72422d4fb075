"""The control socket: whose it is, and what it makes of requests that are none."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import leveret
import pytest
import uvloop
from leveret.actors.control import control
from leveret.commands.control_client import NoBrokerError, RequestError, ask_broker
from leveret.listening.control_socket import CONTROL_SOCKET_NAME, ControlSocket, control_path
from timeouts import TIMEOUT_SECONDS


def directory_of(broker: leveret.Broker) -> Path:
    return broker.configuration.data_dir


@contextmanager
def opened(broker: leveret.Broker) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        with control_path(directory_of(broker)) as path:
            connection.connect(path)
        yield connection


def answers(connection: socket.socket, count: int) -> list[Any]:
    with connection.makefile("rb") as lines:
        return [json.loads(lines.readline()) for _ in range(count)]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_the_loop_leaves_the_socket_s_file_alone_whatever_its_path_has_become(
    run: Callable[[Any], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A path of /proc/self/fd means the file that has the descriptor's number later."""
    nobody: Any = None
    other = tmp_path / "a file of somebody else"
    other.touch()

    async def open_and_close() -> None:
        control_socket = ControlSocket(tmp_path)
        await control_socket.open(nobody)
        with ExitStack() as stack:
            # More than were open, so that the number of the directory's is among them.
            for _ in range(20):
                stack.enter_context(other.open())
            control_socket.close()

    run(open_and_close())
    assert caplog.records == []
    assert list(tmp_path.iterdir()) == [other]


def test_the_socket_is_the_owner_s_alone_and_goes_with_the_broker(tmp_path: Path) -> None:
    path = tmp_path / CONTROL_SOCKET_NAME
    with leveret.Broker(data_dir=tmp_path, port=0, log_level="error", password_hash_cost=10):
        mode = path.stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
    assert not path.exists()


def test_a_socket_that_a_killed_broker_left_behind_is_in_nobody_s_way(tmp_path: Path) -> None:
    with leveret.Broker(data_dir=tmp_path, port=0, log_level="error", password_hash_cost=10):
        pass
    with socket.socket(socket.AF_UNIX) as left, control_path(tmp_path) as path:
        left.bind(path)
    with pytest.raises(NoBrokerError):
        ask_broker(tmp_path, "status", {})
    with leveret.Broker(data_dir=tmp_path, port=0, log_level="error", password_hash_cost=10):
        assert ask_broker(tmp_path, "status", {})["users"] == 1


def test_a_data_directory_may_have_a_long_name(tmp_path: Path) -> None:
    directory = tmp_path / ("long" * 50)
    with leveret.Broker(data_dir=directory, port=0, log_level="error", password_hash_cost=10):
        assert ask_broker(directory, "vhost list", {}) == [{"vhost": "/"}]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "not a line of JSON"),
        (b"\xff", "not a line of JSON"),
        (b"[" * 60_000, "not a line of JSON"),
        (b"[]", "not a request"),
        (b'{"request": 1}', "not a request"),
        (b'{"request": "status", "arguments": []}', "not a request"),
        (b'{"request": "reboot"}', "there is no request 'reboot'"),
        (b'{"request": "user delete"}', "'user' must be a string"),
        (b'{"request": "user delete", "arguments": {"user": 1}}', "'user' must be a string"),
        (
            b'{"request": "user tags", "arguments": {"user": "guest", "tags": [1]}}',
            "'tags' must be a list of strings",
        ),
        (
            b'{"request": "permissions set", "arguments": {"user": "guest", "vhost": "/",'
            b' "configure": "", "write": "a{1001}", "read": ""}}',
            "'a{1001}' is not a regular expression: invalid repetition size: {1001}",
        ),
        (
            b'{"request": "trace on", "arguments": {"rate": 1e-320}}',
            "bad trace rate 1e-320: it must be above 0 and at most 1",
        ),
    ],
    ids=range(12),
)
def test_a_malformed_request_is_answered_and_the_next_one_carried_out(
    broker: leveret.Broker, line: bytes, words: str
) -> None:
    with opened(broker) as connection:
        connection.sendall(line + b'\n{"request": "user list"}\n')
        users = [{"user": "guest", "tags": ["administrator"]}]
        assert answers(connection, 2) == [{"error": words}, {"result": users}]


def test_a_line_without_an_end_is_refused_before_it_takes_memory(broker: leveret.Broker) -> None:
    with opened(broker) as connection:
        connection.sendall(b"x" * (control.REQUEST_BYTES_MAX + 1))
        assert answers(connection, 1) == [{"error": "a request has at most 65536 bytes"}]
        assert connection.recv(1) == b""


@pytest.mark.parametrize("settings", [{"control_connections_max": 1}])
def test_connections_are_bounded(broker: leveret.Broker) -> None:
    with opened(broker) as first:
        first.sendall(b'{"request": "vhost list"}\n')
        assert answers(first, 1) == [{"result": [{"vhost": "/"}]}]
        with pytest.raises(RequestError):
            ask_broker(directory_of(broker), "vhost list", {})


@pytest.mark.parametrize("settings", [{"control_idle_timeout_ms": 10}])
def test_a_connection_that_asks_nothing_is_closed(broker: leveret.Broker) -> None:
    with opened(broker) as connection, suppress(ConnectionError):
        assert connection.recv(1) == b""


def test_an_error_of_the_broker_s_is_said_to_who_asked(broker: leveret.Broker) -> None:
    with pytest.raises(RequestError, match="there is no vhost 'v'"):
        ask_broker(directory_of(broker), "vhost delete", {"vhost": "v"})


def test_a_connection_is_not_idle_while_its_request_is_carried_out() -> None:
    """An import of definitions may take longer than a connection may be idle."""
    asked, ended = Mock(), Mock()
    asked.actor_stopped.is_set.return_value = False
    ended.is_closing.return_value = False
    stand_in = Mock(connection_count=0, actor_ref=asked, limits=control.ControlLimits(1, 0.0))

    async def ask_and_answer() -> None:
        aborted = asyncio.Event()
        ended.abort.side_effect = aborted.set
        connection = control.ControlConnection(stand_in)
        connection.connection_made(ended)
        connection.data_received(b'{"request": "status"}\n')
        # Timers end in their order, so that an earlier one would have ended.
        later = asyncio.Event()
        asyncio.get_running_loop().call_later(0.001, later.set)
        await later.wait()
        assert not aborted.is_set()
        connection.answer({"result": None})
        await asyncio.wait_for(aborted.wait(), TIMEOUT_SECONDS)

    asyncio.run(ask_and_answer())
    assert asked.method_calls
