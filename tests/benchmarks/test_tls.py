from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from leveret.broker import Broker

from benchmarks.client import Client
from benchmarks.generator import run
from benchmarks.scenarios import scenario_named
from benchmarks.tls import TlsSocket, context_of, issue
from benchmarks.topology import Connect


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    directory: Path = tmp_path_factory.mktemp("tls")
    files = issue(directory)
    settings = {"tls_certificate": str(files.certificate), "tls_key": str(files.key)}
    with Broker(
        data_dir=directory / "data", port=0, tls_port=0, log_level="error", **settings
    ) as broker:
        assert broker.tls_port is not None
        yield partial(Client, broker.tls_port, context=context_of(files.authority))


def test_the_load_s_socket_speaks_tls(connect: Connect) -> None:
    client = connect()
    assert isinstance(client.socket, TlsSocket)
    assert client.socket.cipher.startswith("TLSv1.")
    client.close()


# Reads of many records, writes of several, and one message at a time.
@pytest.mark.parametrize("name", ["consume", "large", "small-frames", "window-1"])
def test_every_publish_is_confirmed_over_tls(connect: Connect, name: str) -> None:
    figures = run(connect, scenario_named(name), seconds=0.3, warmup_seconds=0.1)
    assert figures["messages"] > 0
