"""Clients that only connect: they cannot take the journal's file descriptors."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Certificates
from insides import wait_until
from served import Served
from wire import PERSISTENT, Client, publish

DESCRIPTORS = 256
MIB = 1 << 20


def few() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


@contextlib.contextmanager
def silent_connections(host: str, port: int) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(2 * DESCRIPTORS):
            stack.enter_context(socket.create_connection((host, port)))
        yield


def is_served(served: Served) -> bool:
    try:
        with Client(served.host, served.port) as client:
            client.log_in()
    except (ConnectionError, AssertionError):
        return False
    return True


@pytest.mark.parametrize("listener", ["AMQP", "TLS", "HTTP"])
def test_clients_that_only_connect_leave_the_journal_its_file_descriptors(
    tmp_path: Path, listener: str
) -> None:
    settings = Certificates(tmp_path).settings() | {
        "file_descriptors_min": 128,
        "file_descriptors_kept": 64,
        "segment_bytes_max": MIB,
        "http_port": 0,
        "http_connections_max": 10 * DESCRIPTORS,
        "log_format": "json",
    }
    with (
        Served(tmp_path, few, **settings) as served,
        Client(served.host, served.port).log_in() as client,
    ):
        client.open_channel(1, confirms=True)
        client.declare("durable", durable=True)
        lines = map(json.loads, served.log().splitlines())
        [listening] = [line for line in lines if line["event"] == "broker.listening"]
        http_port = int(listening["http_address"].rpartition(":")[2])
        port = {"AMQP": served.port, "TLS": served.tls_port, "HTTP": http_port}[listener]
        with silent_connections(served.host, port):
            # Wherever they have connected, they give way to one that says something.
            wait_until(lambda: is_served(served))
            # Some of them large enough to go past the page cache; each begins a segment.
            for number in range(1, 21):
                client.send(publish("durable", bytes(MIB * (number % 2) + MIB // 2), PERSISTENT))
                client.expect_acks(range(number, number + 1))
        assert client.counts("durable") == (20, 0)
        # When they have gone, others can come.
        wait_until(lambda: is_served(served))
