"""TLS, deflate and snappy, as IDENTIFY agrees on them."""

from __future__ import annotations

from collections.abc import Callable

import leveret
import pytest
from certificates import Certificates
from nsq_compressed import WRAPPERS
from nsq_wire import NsqClient, identify, pub

Nsq = Callable[[], NsqClient]
BODIES = [b"x", b"y" * 100_000, bytes(range(256)) * 1_000]


def assert_serves(client: NsqClient) -> None:
    client.subscribe("t", "c", 10)
    client.send(*(pub("t", body) for body in BODIES))
    kinds = [client.receive() for _ in range(6)]
    assert kinds.count((0, b"OK")) == 3
    assert [each[1][26:] for each in kinds if each is not None and each[0] == 2] == BODIES


@pytest.mark.parametrize("name", ["deflate", "snappy"])
def test_a_compressed_connection_serves_as_any(nsq: Nsq, name: str) -> None:
    client = nsq()
    # What is sent ahead of the answer does not count.
    client.send(identify(feature_negotiation=True, **{name: True}), b"BOGUS\n")
    assert client.json()[name] is True
    client.upgrade(WRAPPERS[name]).ok()
    assert_serves(client)


@pytest.mark.parametrize(("asked", "level"), [(0, 6), (1, 1), (6, 6), (9, 6)])
def test_the_level_of_deflate_is_at_most_the_settings(nsq: Nsq, asked: int, level: int) -> None:
    client = nsq()
    client.send(identify(feature_negotiation=True, deflate=True, deflate_level=asked))
    answer = client.json()
    assert (answer["deflate_level"], answer["max_deflate_level"]) == (level, 6)


def test_deflate_and_snappy_at_once_are_refused(nsq: Nsq) -> None:
    client = nsq().send(identify(feature_negotiation=True, deflate=True, snappy=True))
    text = b"E_IDENTIFY_FAILED cannot enable both deflate and snappy compression"
    assert client.error() == text
    assert client.receive() is None


@pytest.mark.parametrize("name", ["deflate", "snappy"])
def test_octets_that_are_no_stream_end_the_connection(nsq: Nsq, name: str) -> None:
    client = nsq()
    client.send(identify(feature_negotiation=True, **{name: True}))
    client.json()
    client.socket.sendall(b"\x07" * 200_000)
    client.upgrade(WRAPPERS[name]).ok()
    assert client.receive() is None
    assert_serves(nsq())


class TestWithCertificate:
    @pytest.fixture
    def settings(self, certificates: Certificates) -> dict[str, object]:
        return {"nsq_port": 0, **certificates.settings()}

    @pytest.mark.parametrize("name", ["", "deflate", "snappy"])
    def test_a_client_may_ask_for_tls(
        self, nsq: Nsq, certificates: Certificates, name: str
    ) -> None:
        client = nsq()
        asked = {name: True} if name else {}
        client.send(identify(feature_negotiation=True, tls_v1=True, **asked), b"BOGUS\n")
        assert client.json()["tls_v1"] is True
        context = certificates.client()
        client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
        client.ok()
        if name:
            client.upgrade(WRAPPERS[name]).ok()
        assert_serves(client)

    def test_who_asks_for_tls_and_speaks_none_harms_nobody(self, nsq: Nsq) -> None:
        client = nsq()
        client.send(identify(feature_negotiation=True, tls_v1=True))
        assert client.json()["tls_v1"] is True
        client.send(b"PUB t\n\0\0\0\1x" * 100)
        while client.socket.recv(65_536):
            pass
        assert_serves(nsq())


def test_without_a_certificate_there_is_no_tls(nsq: Nsq, broker: leveret.Broker) -> None:
    client = nsq().send(identify(feature_negotiation=True, tls_v1=True))
    assert client.json()["tls_v1"] is False
    assert_serves(client)
