"""The HTTP listener: that its broken clients harm nobody, where it listens, and the command."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import leveret
import pytest
from asking_http import LIVE, asked, open_connections, port, read_all
from insides import wait_until
from leveret.commands.command_line import main
from leveret.commands.control_client import ask_broker
from leveret.configuration import Configuration
from leveret.listening import http
from leveret.listening.http import PORTS_ABOVE, port_of
from log_lines import LogLines
from served import Served
from timeouts import TIMEOUT_SECONDS
from wire import PERSISTENT, Client


@pytest.fixture
def settings() -> dict[str, object]:
    return {"http_listener": "on", "http_port": 0, "log_level": "info"}


# --- Broken clients


@pytest.mark.parametrize("size", [65_536, 65_537, 500_000])
def test_a_body_may_have_so_many_bytes(size: int, broker: leveret.Broker) -> None:
    body = json.dumps({"rate": 1}).encode()
    answer = asked(broker, "PUT", body=body + b" " * (size - len(body)))
    if size == 65_536:
        assert answer.status == 200
    else:
        assert answer.status == 413
        assert answer.content == {
            "error": "bad_request",
            "reason": "a request's body has at most 65536 bytes (http_body_bytes_max)",
        }


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 100_000,
        b"\r\n" * 100_000,
        b"GET " + b"x" * 1_000_000,
        b"GET / HTTP/1.1\r\nhost: h\r\n\r\n" * 1000,
        b"AMQP\x00\x00\x09\x01",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 100_000,
        b"",
    ],
)
def test_nonsense_harms_no_amqp_client_and_leaves_nothing(
    data: bytes, broker: leveret.Broker, client: Client, socket_to: Callable[[], socket.socket]
) -> None:
    client.declare("queue", durable=True)
    for _ in range(20):
        broken = socket_to()
        try:
            broken.sendall(data)
            broken.shutdown(socket.SHUT_WR)
        except OSError:
            # The broker has had enough of it.
            pass
        broken.close()
        client.publish_all("queue", b"x", properties=PERSISTENT)
    assert client.counts("queue") == (20, 0)
    wait_until(lambda: not open_connections(broker))
    assert asked(broker, path=LIVE).status == 200


def test_who_ends_its_sending_side_is_answered(
    broker: leveret.Broker, socket_to: Callable[[], socket.socket]
) -> None:
    # The end comes right behind the request, as a rule in the same round of the event loop.
    for _ in range(30):
        one = socket_to()
        one.sendall(b"GET /api/health/live HTTP/1.1\r\nhost: h\r\n\r\n")
        one.shutdown(socket.SHUT_WR)
        assert read_all(one).startswith(b"HTTP/1.1 200 OK")
    wait_until(lambda: not open_connections(broker))
    unfinished = socket_to()
    unfinished.sendall(b"GET /api/health/live HTTP/1.1\r\n")
    unfinished.shutdown(socket.SHUT_WR)
    assert read_all(unfinished) == b""


def test_a_fault_of_ours_in_a_request_ends_that_alone(
    broker: leveret.Broker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("leveret.management.api.Api.find", broken)
    assert asked(broker).status == 500
    monkeypatch.undo()
    client.declare("queue")
    assert asked(broker, path=LIVE).status == 200


def test_wrong_passwords_are_checked_off_the_loop_and_logged_without_them(
    log: LogLines, broker: leveret.Broker
) -> None:
    assert asked(broker, password="s3cret-guess").status == 401
    assert asked(broker, path=LIVE).status == 200
    assert asked(broker, "PUT").status == 200
    [refused] = log.of("http.refused")
    assert (refused["user"], refused["status"]) == ("guest", 401)
    [switched] = log.of("control.request")
    assert (switched["request"], switched["user"]) == ("trace on", "guest")
    text = log.stream.getvalue()
    assert "s3cret" not in text
    assert b64encode(b"guest:s3cret-guess").decode() not in text


# --- The listener


@pytest.mark.parametrize(
    ("settings_of", "port_wanted"),
    [
        ({}, 15_672),
        ({"port": 5673}, 15_673),
        ({"port": 0}, 0),
        ({"port": 60_000}, 0),
        ({"http_port": 80}, 80),
        ({"port": 0, "http_port": 80}, 80),
    ],
)
def test_by_default_it_listens_10_000_above_the_other_port(
    settings_of: dict[str, Any], port_wanted: int
) -> None:
    configuration = Configuration(**settings_of)
    assert port_of(configuration.port, configuration.http_port, PORTS_ABOVE) == port_wanted


def test_a_program_s_broker_does_not_listen_unless_it_is_told_to(tmp_path: Path) -> None:
    with leveret.Broker(data_dir=tmp_path, port=0, log_level="error") as broker:
        assert broker.http_port is None


def test_a_port_that_is_taken_is_one_clear_line_and_nothing_is_left(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        settings: dict[str, Any] = {"data_dir": tmp_path, "port": 0, "log_level": "error"}
        with pytest.raises(leveret.StartError) as refused:
            leveret.Broker(http_listener="on", http_port=taken, **settings).start()
        text = str(refused.value)
        begin = f"cannot listen on 127.0.0.1:{taken} for HTTP control: Address already in use; "
        assert text.startswith(begin)
        assert "put LEVERET_HTTP_PORT=" in text
        assert text.endswith("; LEVERET_HTTP_LISTENER=off does without")
        with leveret.Broker(**settings):
            pass


@contextmanager
def only_its_http_port_taken() -> Iterator[int]:
    """A port for AMQP that is free while the one that goes with it is not."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1] - PORTS_ABOVE
            try:
                socket.create_server(("127.0.0.1", port)).close()
            except OSError:
                # Somebody else's, at the moment.
                continue
            yield port
            return


def test_a_port_that_goes_with_amqp_s_is_said_to_move_with_it(tmp_path: Path) -> None:
    """As for who has RabbitMQ with its management on this machine, and so both ports taken."""
    with only_its_http_port_taken() as port, pytest.raises(leveret.StartError) as refused:
        leveret.Broker(data_dir=tmp_path, port=port, http_listener="on").start()
    assert "; another `port` brings another here, LEVERET_HTTP_LISTENER=off" in str(refused.value)


def test_where_both_ports_are_taken_the_one_that_moves_both_is_named(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as amqp,
        socket.create_server(("127.0.0.1", 0)) as http,
    ):
        port, http_port = amqp.getsockname()[1], http.getsockname()[1]
        with pytest.raises(leveret.StartError) as refused:
            leveret.Broker(
                data_dir=tmp_path, port=port, http_listener="on", http_port=http_port
            ).start()
    assert str(refused.value).startswith(f"cannot listen on 127.0.0.1:{port}: Address already in")
    assert "put LEVERET_PORT=" in str(refused.value)


def test_a_host_that_is_not_known_is_said_in_the_resolver_s_words(tmp_path: Path) -> None:
    with pytest.raises(leveret.StartError) as refused:
        leveret.Broker(data_dir=tmp_path, port=0, http_listener="on", http_host="no host").start()
    assert "Unknown error" not in str(refused.value)
    assert str(refused.value).startswith("cannot listen on no host:0 for HTTP control: ")


def test_status_names_its_address(broker: leveret.Broker) -> None:
    status = ask_broker(broker.configuration.data_dir, "status", {})
    assert status["http_address"] == f"127.0.0.1:{port(broker)}"


def test_the_http_listener_closes_when_the_broker_stops(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"data_dir": tmp_path, "port": 0, "log_level": "error"}
    with leveret.Broker(http_listener="on", http_port=0, **settings) as broker:
        address = "127.0.0.1", port(broker)
        waiting = socket.create_connection(address, timeout=TIMEOUT_SECONDS)
        wait_until(lambda: len(open_connections(broker)) == 1)
    with pytest.raises(OSError):
        socket.create_connection(address, timeout=1)
    with suppress(ConnectionResetError):
        assert waiting.recv(1) == b""
    waiting.close()


# --- The command


def test_the_command_switches_the_trace_by_http(
    broker: leveret.Broker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = ["--url", f"http://127.0.0.1:{port(broker)}"]
    (tmp_path / "password").write_text("guest\n")
    file = ["--password-file", str(tmp_path / "password")]
    assert main(["trace", "on", "--rate", "0.5", "--user", "ann", *url, *file]) == 0
    assert capsys.readouterr().out.startswith("trace on (one of 2 messages, users ann), boot ")
    monkeypatch.setenv("LEVERET_PASSWORD", "guest")
    assert main(["trace", "status", "--login", "guest", *url]) == 0
    assert capsys.readouterr().out.startswith("trace on ")
    monkeypatch.delenv("LEVERET_PASSWORD")
    monkeypatch.setattr("getpass.getpass", lambda prompt: prompt.partition(" of ")[2][:-2])
    assert main(["trace", "off", *url]) == 0
    assert capsys.readouterr().out.startswith("trace off, boot ")


def test_the_command_says_what_is_wrong_in_one_line(
    broker: leveret.Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://127.0.0.1:{port(broker)}"
    monkeypatch.setenv("LEVERET_PASSWORD", "wrong")
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = f"http://127.0.0.1:{free.getsockname()[1]}"
    for address, said in (
        (url, f"{url}: 401 Login failed"),
        (closed, f"no broker answers at {closed}: Connection refused"),
        ("ftp://x", "'ftp://x' is no address of a broker, as in http://127.0.0.1:15672"),
        (
            "http://guest:guest@x",
            "a URL of a broker has no user: --login gives it, and never a password",
        ),
    ):
        assert main(["trace", "status", "--url", address]) == 1
        assert capsys.readouterr().err == f"leveret: {said}\n"
    monkeypatch.setenv("LEVERET_PASSWORD", "\udcff")
    assert main(["trace", "status", "--url", url]) == 1
    assert ": 401 Unauthorized" in capsys.readouterr().err
    monkeypatch.setenv("LEVERET_PASSWORD", "guest")
    assert main(["trace", "on", "--url", url, "--queue", "missing"]) == 1
    assert capsys.readouterr().err == f"leveret: {url}: 400 there is no queue 'missing'\n"


# --- As a process


def has_reader(fifo: Path) -> bool:
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return False
    return True


def test_the_api_is_imported_for_its_first_client_and_amqp_clients_are_served_meanwhile(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    # It is found before the installed one, and waits for what comes through the gate.
    (tmp_path / "aiohttp.py").write_text("while True: open('gate').read()\n")
    with Served(tmp_path, http_listener="on", http_port=0) as broker:
        with Client(broker.host, broker.port) as client:
            client.log_in()
        host, _, number = ask_broker(tmp_path / "data", "status", {})["http_address"].partition(":")
        assert not has_reader(gate)
        with socket.create_connection((host, int(number))):
            wait_until(lambda: has_reader(gate))
            with Client(broker.host, broker.port) as client:
                client.log_in()


def test_an_import_of_the_api_that_fails_is_logged_and_tried_again(
    log: LogLines, broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = http.load_listeners
    failures = [OSError(errno.EMFILE, "Too many open files")]

    def fail_first() -> object:
        if failures:
            raise failures.pop()
        return load()

    monkeypatch.setattr(http, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(http, "load_listeners", fail_first)
    assert asked(broker, "GET", path="/api/health/live").status == 200
    [line] = log.of("http.unavailable")
    assert (line["level"], line["retry_seconds"]) == ("error", 0.01)
    assert "Too many open files" in str(line)


def test_a_broker_stops_while_the_api_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    load = http.load_listeners

    def wait() -> object:
        begun.set()
        assert go_on.wait(TIMEOUT_SECONDS)
        return load()

    monkeypatch.setattr(http, "load_listeners", wait)
    broker = leveret.Broker(data_dir=tmp_path / "data", port=0, http_listener="on", http_port=0)
    broker.start()
    with socket.create_connection(("127.0.0.1", port(broker)), timeout=TIMEOUT_SECONDS) as client:
        assert begun.wait(TIMEOUT_SECONDS)
        stopping = threading.Thread(target=broker.stop)
        stopping.start()
        # The listening socket is closed, and with it what the kernel held.
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""
        go_on.set()
        stopping.join(TIMEOUT_SECONDS)
        assert not stopping.is_alive()


def test_the_command_serves_it_unless_it_is_off(tmp_path: Path) -> None:
    with Served(tmp_path, log_level="error"):
        address = ask_broker(tmp_path / "data", "status", {})["http_address"]
        host, _, number = address.partition(":")
        with socket.create_connection((host, int(number)), timeout=TIMEOUT_SECONDS) as connection:
            connection.sendall(b"GET /api/trace HTTP/1.0\r\nhost: h\r\n\r\n")
            assert read_all(connection).startswith(b"HTTP/1.0 401 Unauthorized\r\n")
    with Served(tmp_path, log_level="error", http_listener="off"):
        assert ask_broker(tmp_path / "data", "status", {})["http_address"] == ""


def test_the_command_ends_with_one_line_when_the_port_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        config = tmp_path / "leveret.toml"
        config.write_text(f'port = 0\nhttp_port = {taken}\nlog_level = "error"\n')
        ended = subprocess.run(
            [sys.executable, "-m", "leveret", "serve", "--config", str(config)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (1, "")
    begin = f"leveret: cannot listen on 127.0.0.1:{taken} for HTTP control: Address already in use"
    assert ended.stderr.startswith(begin)
    assert ended.stderr.count("\n") == 1
