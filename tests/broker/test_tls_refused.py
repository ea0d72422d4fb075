"""TLS handshakes that fail: the socket is closed, a line says why, and others do not notice."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import leveret
import pytest
from certificates import Certificates, Stranger, TlsClient, assert_serves
from insides import readers, wait_until
from leveret.amqp_frames.constants import PROTOCOL_HEADER
from log_lines import LogLines
from wire import Client


@pytest.fixture
def verify() -> str:
    return "none"


@pytest.fixture
def timeout_ms() -> int:
    return 10_000


@pytest.fixture
def handshakes_max() -> int:
    return 1000


@pytest.fixture
def settings(
    certificates: Certificates,
    verify: str,
    timeout_ms: int,
    handshakes_max: int,
    log: LogLines,
) -> dict[str, object]:
    return certificates.settings(
        verify,
        handshake_timeout_ms=timeout_ms,
        tls_handshakes_max=handshakes_max,
        log_level="info",
        log_format="json",
    )


def assert_refused(connect: Callable[[], Client]) -> None:
    """With TLS 1.3 a client hears of its refusal only when it reads."""
    try:
        client = connect()
        client.send(PROTOCOL_HEADER)
        client.expect_closed()
    except (ConnectionError, ssl.SSLError):
        return


def test_plaintext_on_the_tls_port_is_closed_and_others_go_on(
    stranger: Stranger, certificates: Certificates, broker: leveret.Broker, log: LogLines
) -> None:
    other = stranger(certificates.client()).log_in()
    assert broker.tls_port is not None
    with Client(broker.host, broker.tls_port) as client:
        client.send(PROTOCOL_HEADER)
        client.expect_closed()
    assert log.wait_for_refusal() == "TLS handshake: wrong version number (plaintext?)"
    assert_serves(other)


def test_tls_on_the_plain_port_is_closed_and_others_go_on(
    certificates: Certificates, broker: leveret.Broker, log: LogLines
) -> None:
    with Client(broker.host, broker.port) as other:
        other.log_in()
        with pytest.raises(ssl.SSLError):
            TlsClient(broker.host, broker.port, certificates.client())
        assert log.wait_for_refusal() == "TLS on the plain port"
        assert_serves(other)


def test_octets_that_are_no_tls_end_an_open_connection_and_no_other(
    stranger: Stranger, certificates: Certificates, broker: leveret.Broker, log: LogLines
) -> None:
    other = stranger(certificates.client()).log_in()
    client = stranger(certificates.client()).log_in()
    # Past the TLS of the client's socket.
    os.write(client.socket.fileno(), b"no TLS record" * 100)
    wait_until(lambda: len(readers(broker)) == 1)
    wait_until(lambda: len(log.of("connection.closed")) == 1)
    assert_serves(other)


@pytest.mark.parametrize("timeout_ms", [200])
@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02"])
def test_a_handshake_that_takes_too_long_is_given_up(
    broker: leveret.Broker, log: LogLines, said: bytes, timeout_ms: int
) -> None:
    assert broker.tls_port is not None
    with Client(broker.host, broker.tls_port) as client:
        client.send(said)
        client.expect_closed()
    assert log.wait_for_refusal().startswith("TLS handshake: SSL handshake is taking longer")


def test_a_client_that_leaves_in_the_handshake_is_forgotten(
    broker: leveret.Broker, log: LogLines
) -> None:
    assert broker.tls_port is not None
    with Client(broker.host, broker.tls_port) as client:
        client.send(b"\x16\x03\x01\x02")
    assert log.wait_for_refusal().startswith("TLS handshake: ")
    assert not readers(broker)


def test_a_version_below_the_least_is_refused(tmp_path: Path, certificates: Certificates) -> None:
    old = certificates.client()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    settings: dict[str, Any] = certificates.settings(tls_version_min="1.3", log_level="error")
    with leveret.Broker(data_dir=tmp_path / "new", port=0, **settings) as broker:
        assert broker.tls_port is not None
        with pytest.raises((ssl.SSLError, ConnectionError)):
            TlsClient(broker.host, broker.tls_port, old)
        with TlsClient(broker.host, broker.tls_port, certificates.client()) as client:
            assert_serves(client.log_in())


# --- Client certificates


@pytest.mark.parametrize("verify", ["required"])
def test_only_a_good_certificate_gets_in_where_one_is_required(
    stranger: Stranger, certificates: Certificates, log: LogLines, verify: str
) -> None:
    other = stranger(certificates.client(certificates.issued_to("good"))).log_in()
    refusals = [
        (None, "peer did not return a certificate"),
        (certificates.expired(), "client certificate: certificate has expired"),
        (
            certificates.of_unknown_authority(),
            "client certificate: unable to get local issuer certificate",
        ),
    ]
    for number, (certificate, reason) in enumerate(refusals, 1):
        context = certificates.client(certificate)
        assert_refused(lambda context=context: stranger(context))  # type: ignore[misc]
        wait_until(lambda count=number: len(log.reasons()) == count)  # type: ignore[misc]
        assert log.reasons()[-1] == f"TLS handshake: {reason}"
    assert_serves(other)


@pytest.mark.parametrize("verify", ["optional"])
def test_no_certificate_or_a_good_one_gets_in_where_it_is_optional(
    stranger: Stranger, certificates: Certificates, log: LogLines, verify: str
) -> None:
    assert_serves(stranger(certificates.client()).log_in())
    assert_serves(stranger(certificates.client(certificates.issued_to("good"))).log_in())
    context = certificates.client(certificates.expired())
    assert_refused(lambda: stranger(context))
    assert log.wait_for_refusal() == "TLS handshake: client certificate: certificate has expired"


def test_a_certificate_that_nobody_asked_for_is_not_looked_at(
    stranger: Stranger, certificates: Certificates
) -> None:
    assert_serves(stranger(certificates.client(certificates.expired())).log_in())


def test_a_stop_gives_up_handshakes_that_go_on(broker: leveret.Broker) -> None:
    assert broker.tls_port is not None
    with Client(broker.host, broker.tls_port) as client:
        client.send(b"\x16\x03\x01\x02")
        broker.stop()
        client.expect_closed()


@pytest.mark.parametrize("handshakes_max", [2])
def test_handshakes_are_begun_for_so_many_at_once_and_others_wait(
    certificates: Certificates,
    handshakes_max: int,
    broker: leveret.Broker,
    log: LogLines,
) -> None:
    assert broker.tls_port is not None
    with (
        Client(broker.host, broker.tls_port),
        Client(broker.host, broker.tls_port),
        TlsClient(broker.host, broker.tls_port, certificates.client()) as third,
    ):
        # One of the silent two has been given up for it.
        assert log.reasons()
        assert_serves(third.log_in())
