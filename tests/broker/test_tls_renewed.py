"""New certificates at a SIGHUP: for the handshakes to come, and only if they can be used."""

from __future__ import annotations

import signal
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Certificates, TlsClient, assert_serves
from insides import wait_until
from served import Served


@pytest.fixture
def files(tmp_path: Path) -> Certificates:
    """In use from the start; what is written over them is read at the signal."""
    (tmp_path / "tls").mkdir()
    return Certificates(tmp_path / "tls")


@pytest.fixture
def served(tmp_path: Path, files: Certificates) -> Iterator[Served]:
    settings = files.settings("optional", log_level="info", log_format="json")
    with Served(tmp_path, **settings, password_hash_cost=10) as broker:
        yield broker


def renew(served: Served, event: str) -> None:
    before = served.log().count(event)
    served.signal(signal.SIGHUP)
    wait_until(lambda: served.log().count(event) > before)


def log_in(served: Served, context: ssl.SSLContext) -> TlsClient:
    client = TlsClient(served.host, served.tls_port, context)
    client.log_in()
    return client


def test_at_a_sighup_new_certificates_count_for_new_connections(
    served: Served, files: Certificates, tmp_path: Path
) -> None:
    believes_old = files.client()
    old = log_in(served, believes_old)
    # Another authority's, over the same files.
    believes_new = Certificates(tmp_path / "tls").client()
    log_in(served, believes_old).drop()
    renew(served, "certificates.renewed")
    with log_in(served, believes_new) as client:
        assert_serves(client)
    with pytest.raises(ssl.SSLCertVerificationError):
        log_in(served, believes_old)
    # Who is there stays.
    with old:
        old.open_channel(2)
        assert old.counts("served", 2) == (0, 0)


def test_files_that_cannot_be_used_change_nothing(
    served: Served, files: Certificates, tmp_path: Path
) -> None:
    Path(files.key).write_text("junk")
    renew(served, "certificates.refused")
    assert f"tls_key: {files.key}: no private key in it" in served.log()
    with log_in(served, files.client()) as client:
        assert_serves(client)


def test_clients_are_known_by_the_new_authority_and_no_more_by_the_old(
    served: Served, files: Certificates, tmp_path: Path
) -> None:
    old = files.issued_to("joe")
    new = Certificates(tmp_path / "tls")
    renew(served, "certificates.renewed")
    log_in(served, new.client(new.issued_to("joe"))).drop()
    context = new.client(old)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        log_in(served, context)
