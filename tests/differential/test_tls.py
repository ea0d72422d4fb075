"""TLS: sessions as without it, client certificates, and EXTERNAL."""

from __future__ import annotations

import contextlib
import socket
import ssl

import pytest
import trustme
from both_brokers import BothBrokers, Script
from certificates import Certificates
from client_frames import publish
from leveret.amqp_frames.constants import PROTOCOL_HEADER
from leveret.amqp_frames.methods import (
    BasicConsume,
    BasicGet,
    ConfirmSelect,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    QueueDeclare,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from scripted_session import Session

Q = QueueDeclare(queue="q")


# --- Sessions


def the_first_method(session: Session) -> None:
    session.raw_connection().ask(PROTOCOL_HEADER)


def a_session(session: Session) -> None:
    """Confirms, returns, large bodies both ways, consuming, a new secret and the close."""
    connection = session.connect()
    channel = connection.channel(1)
    channel.ask(Q, ConfirmSelect())
    channel.send(publish("q", bytes(250_000)), publish("nowhere", b"lost", mandatory=True))
    channel.confirms(2)
    channel.ask(BasicGet(queue="q"))
    # On a channel of its own: the delivery and the confirm may come in any order.
    consuming = connection.channel(2)
    consuming.ask(BasicConsume(queue="q", consumer_tag="c"))
    channel.send(publish("q", b"more", Properties(delivery_mode=2)))
    channel.confirms(1)
    consuming.read(1)
    connection.ask(ConnectionUpdateSecret(b"fresh", "the old one expires"))
    connection.ask(ConnectionClose(200, "Goodbye"))


def a_mistake(session: Session) -> None:
    session.channel().ask(BasicGet(queue="missing"))


def a_login_that_is_refused(session: Session) -> None:
    external(session, b"\0guest\0wrong", "PLAIN")


def another_protocol(session: Session) -> None:
    connection = session.raw_connection()
    connection.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    session.record("answer", repr(connection.read_bytes(8)))
    connection.end()


def test_a_session_over_tls(both: BothBrokers, certificates: Certificates) -> None:
    context = certificates.client()
    for script in (
        the_first_method,
        a_session,
        a_mistake,
        a_login_that_is_refused,
        another_protocol,
    ):
        both.compare(f"over TLS: {script.__name__}", script, context)


def test_either_version_of_tls_is_spoken(both: BothBrokers, certificates: Certificates) -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = certificates.client()
        context.minimum_version = context.maximum_version = version

        def script(session: Session) -> None:
            connection = session.connect()
            assert isinstance(connection.socket, ssl.SSLSocket)
            session.record("TLS", str(connection.socket.version()))

        both.compare(f"over {version.name}", script, context)


# --- EXTERNAL


def external(
    session: Session, response: bytes = b"", mechanism: str = "EXTERNAL", other: str = "guest"
) -> None:
    """Log in so, and be told as whom: a message may not name another user."""
    connection = session.raw_connection()
    connection.ask(PROTOCOL_HEADER)
    properties = table_of({"capabilities": {"authentication_failure_close": True}})
    connection.ask(ConnectionStartOk(properties, mechanism, response, "en_US"))
    connection.ask(ConnectionTuneOk(2047, 131_072, 0), ConnectionOpen(virtual_host="/"))
    channel = connection.channel(1)
    channel.ask(publish("q", b"", Properties(user_id=other)))


NAMES = {
    "the name of a user": ("joe", "Hare", "clients"),
    "a name with a comma": ("Doe, Jane", "Hare", "clients"),
    "a name beyond ASCII": ("Jörg", "Hare", "clients"),
    "the name of nobody": ("jane", "Hare", "clients"),
    "another organization": ("joe", "Tortoise", "clients"),
}


@pytest.mark.parametrize("claim", NAMES)
def test_a_certificate_names_the_user(
    both: BothBrokers, certificates: Certificates, claim: str
) -> None:
    context = certificates.client(certificates.issued_to(*NAMES[claim]))
    both.compare(f"EXTERNAL: {claim}", external, context)


def responding(response: bytes) -> Script:
    def script(session: Session) -> None:
        external(session, response)

    return script


@pytest.mark.parametrize("response", [b"joe", b"\0guest\0guest", bytes(300)])
def test_what_external_responds_means_nothing(
    both: BothBrokers, certificates: Certificates, response: bytes
) -> None:
    context = certificates.client(certificates.issued_to("joe", "Hare", "clients"))
    both.compare(f"EXTERNAL responds {response[:20]!r}", responding(response), context)


def test_external_without_a_certificate(both: BothBrokers, certificates: Certificates) -> None:
    both.compare("EXTERNAL without a certificate", external, certificates.client())


def test_external_on_the_plain_port(both: BothBrokers) -> None:
    both.compare("EXTERNAL on the plain port", external)


def test_a_password_beside_a_certificate(both: BothBrokers, certificates: Certificates) -> None:
    context = certificates.client(certificates.issued_to("joe", "Hare", "clients"))

    def script(session: Session) -> None:
        external(session, b"\0guest\0guest", "PLAIN", "joe")

    both.compare("PLAIN beside a certificate", script, context)


# --- Handshakes of TLS that fail


def bad(kind: str, certificates: Certificates) -> trustme.LeafCert:
    return certificates.expired() if kind == "expired" else certificates.of_unknown_authority()


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("kind", ["expired", "unknown"])
def test_a_bad_certificate_is_refused(
    both: BothBrokers, certificates: Certificates, kind: str, version: str
) -> None:
    context = certificates.client(bad(kind, certificates))
    context.maximum_version = ssl.TLSVersion[version]

    def script(session: Session) -> None:
        try:
            connection = session.raw_connection()
        except ssl.SSLError as error:
            session.record("TLS's handshake", str(error.reason))
            return
        # With TLS 1.3 a client is told behind its own end of the handshake.
        connection.end()

    both.compare(f"certificate: {kind}, {version}", script, context)


def test_plaintext_on_the_tls_port_is_not_spoken_to(
    both: BothBrokers, certificates: Certificates
) -> None:
    def script(session: Session) -> None:
        answer = b""
        with socket.create_connection(("127.0.0.1", session.port), 5) as plain:
            plain.sendall(PROTOCOL_HEADER)
            # RabbitMQ's alert may be lost with the reset behind it, so it is not compared.
            with contextlib.suppress(ConnectionError):
                while data := plain.recv(100):
                    answer += data
        session.record("answered in AMQP", str(b"AMQP" in answer or b"\x00\x0a" in answer))

    both.compare("plaintext on the TLS port", script, certificates.client())
