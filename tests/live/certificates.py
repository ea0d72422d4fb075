"""Certificates for the tests of TLS: an authority of their own, and one that nobody knows."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import trustme
from wire import Client


class Certificates:
    """Files for a broker's settings below `directory`, and contexts for its clients."""

    def __init__(self, directory: Path) -> None:
        self._authority = trustme.CA()
        self._unknown = trustme.CA()
        self.server = str(directory / "server.pem")
        self.key = str(directory / "key.pem")
        self.authority = str(directory / "authority.pem")
        issued = self._authority.issue_cert("localhost", "127.0.0.1")
        issued.cert_chain_pems[0].write_to_path(self.server)
        issued.private_key_pem.write_to_path(self.key)
        self._authority.cert_pem.write_to_path(self.authority)

    def settings(self, verify: str = "none", **others: object) -> dict[str, object]:
        return {
            "tls_port": 0,
            "tls_certificate": self.server,
            "tls_key": self.key,
            "tls_ca_certificates": self.authority,
            "tls_verify_client": verify,
            **others,
        }

    def client(self, certificate: trustme.LeafCert | None = None) -> ssl.SSLContext:
        """A client that trusts the broker's authority, and shows this certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._authority.configure_trust(context)
        if certificate is not None:
            certificate.configure_cert(context)
        return context

    def issued_to(
        self, name: str, organization: str | None = None, unit: str | None = None
    ) -> trustme.LeafCert:
        """A good client certificate with this common name."""
        return self._authority.issue_cert(
            "client@localhost",
            common_name=name,
            organization_name=organization,
            organization_unit_name=unit,
        )

    def expired(self) -> trustme.LeafCert:
        begin, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)
        return self._authority.issue_cert("client@localhost", not_before=begin, not_after=end)

    def of_unknown_authority(self) -> trustme.LeafCert:
        return self._unknown.issue_cert("client@localhost")


class TlsClient(Client):
    """A client that has done no more than TLS's handshake, as far as it knows."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext) -> None:
        super().__init__(host, port)
        self.socket = context.wrap_socket(self.socket, server_hostname=host)


Stranger = Callable[[ssl.SSLContext], Client]


def assert_serves(client: Client) -> None:
    """Publishes, is confirmed and gets it back."""
    client.open_channel(1, confirms=True)
    client.declare("served", auto_delete=False)
    client.publish_all("served", b"body")
    got = client.get("served", no_ack=True)
    assert got is not None
    assert got.body == b"body"
