"""The end of a socket after connection.close, from the client or the broker."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import leveret
import pytest
from certificates import Certificates, Stranger
from insides import readers, wait_until
from leveret.amqp_frames.methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionTune,
)
from log_lines import LogLines
from wire import Client, publish

Connect = Callable[..., Client]

CLOSE = ConnectionClose(200, "bye")
# More than the sockets' buffers hold.
MUCH = publish("nowhere", bytes(100_000)) * 200


@pytest.fixture
def settings(certificates: Certificates, log: LogLines) -> dict[str, object]:
    return certificates.settings(log_level="info", log_format="json")


def closed(client: Client) -> Client:
    """The client has closed its connection, and keeps its socket."""
    assert client.ask(0, CLOSE) == ConnectionCloseOk()
    return client


def assert_reads_on(client: Client) -> None:
    """The broker takes what comes, and closes the socket behind it: without a reset."""
    client.send(MUCH)
    client.socket.shutdown(socket.SHUT_WR)
    assert client.socket.recv(1) == b""


def test_bytes_behind_close_ok_are_read_and_dropped_until_the_client_hangs_up(
    client: Client,
) -> None:
    assert_reads_on(closed(client))


def test_frames_behind_the_broker_s_own_close_are_read_and_dropped(client: Client) -> None:
    client.send_methods(0, ConnectionOpen())
    assert client.expect_type(0, ConnectionClose).reply_code == 504
    assert_reads_on(client)


def test_a_second_close_is_answered_and_a_late_close_ok_ends_the_connection(
    client: Client,
) -> None:
    assert closed(client).ask(0, CLOSE) == ConnectionCloseOk()
    client.send_methods(0, ConnectionCloseOk())
    client.expect_closed()


def test_over_tls_the_socket_is_read_on_as_well(
    connect: Connect, stranger: Stranger, certificates: Certificates
) -> None:
    client = closed(stranger(certificates.client()).log_in())
    client.send(MUCH)
    assert isinstance(client.socket, ssl.SSLSocket)
    # Waits for the broker to end TLS, too.
    client.socket.unwrap()


@pytest.mark.parametrize("settings", [{"drain_timeout_ms": 100}])
def test_a_socket_that_its_client_keeps_is_closed_after_the_setting_s_time(
    connect: Connect,
) -> None:
    closed(connect()).expect_closed()


def test_no_heartbeat_comes_behind_close_ok_and_the_heartbeat_bounds_the_time(
    connect: Connect,
) -> None:
    closed(connect(heartbeat_seconds=1)).expect_closed()


def test_a_closed_connection_does_not_count_for_connections_max(tmp_path: Path) -> None:
    settings = {"port": 0, "log_level": "error", "connections_max": 1}
    with (
        leveret.Broker(data_dir=tmp_path / "data", **settings) as broker,
        Client(broker.host, broker.port) as first,
        Client(broker.host, broker.port) as second,
    ):
        closed(first.log_in())
        second.log_in()


def test_one_socket_too_many_closes_that_of_the_connection_closed_first(tmp_path: Path) -> None:
    settings = {"port": 0, "log_level": "error", "connections_max": 1}
    with (
        leveret.Broker(
            data_dir=tmp_path / "data", sockets_above_connections_max=1, **settings
        ) as broker,
        Client(broker.host, broker.port) as first,
        Client(broker.host, broker.port) as second,
    ):
        closed(first.log_in())
        second.log_in()
        with Client(broker.host, broker.port) as third:
            first.expect_closed()
            third.offer()
            third.expect_type(0, ConnectionTune)


@pytest.mark.parametrize("settings", [{"draining_sockets_max": 2}])
def test_closed_connections_keep_no_more_sockets_than_draining_sockets_max(
    connect: Connect, broker: leveret.Broker
) -> None:
    first, second, third = (closed(connect()) for _ in range(3))
    first.expect_closed()
    wait_until(lambda: len(readers(broker)) == 2)
    for kept in (second, third):
        assert_reads_on(kept)


def test_a_stop_waits_for_no_connection_that_is_closed(
    connect: Connect, broker: leveret.Broker, log: LogLines
) -> None:
    polite, refused = closed(connect()), connect()
    refused.send_methods(0, ConnectionOpen())
    assert refused.expect_type(0, ConnectionClose).reply_code == 504
    broker.stop()
    assert log.of("broker.stopped")
    assert not log.of("broker.stop_timeout")
    polite.expect_closed()
    refused.expect_closed()
