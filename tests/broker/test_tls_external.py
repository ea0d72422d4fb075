"""EXTERNAL: the user is whom the client's certificate names, and no password is asked for."""

from __future__ import annotations

import leveret
import pika
import pytest
from certificates import Certificates, Stranger, TlsClient, assert_serves
from insides import wait_until
from leveret.amqp_frames.methods import (
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from log_lines import LogLines
from pika.credentials import ExternalCredentials
from wire import Client

REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. "
    "For details see the broker logfile."
)
CHECKED = ("authentication_failure_close",)


@pytest.fixture
def verify() -> str:
    return "optional"


@pytest.fixture
def login_name() -> str:
    return "common_name"


@pytest.fixture
def user() -> str:
    return "joe"


@pytest.fixture
def settings(
    certificates: Certificates, verify: str, login_name: str, user: str, log: LogLines
) -> dict[str, object]:
    return certificates.settings(
        verify,
        tls_login_name=login_name,
        default_user=user,
        log_level="warning",
        log_format="json",
    )


def offered(client: Client) -> bytes:
    assert client.start is not None
    return client.start.mechanisms


def log_in(client: Client) -> None:
    """All the way, with a response that names somebody else."""
    client.offer(mechanism="EXTERNAL", response=b"guest", capabilities=CHECKED)
    tune = client.expect_type(0, ConnectionTune)
    client.send_methods(0, ConnectionTuneOk(tune.channel_max, tune.frame_max, 0), ConnectionOpen())
    client.expect(0, ConnectionOpenOk())


@pytest.mark.parametrize("verify", ["optional", "required"])
def test_a_certificate_logs_in_the_user_it_names(
    stranger: Stranger, certificates: Certificates, verify: str
) -> None:
    client = stranger(certificates.client(certificates.issued_to("joe")))
    log_in(client)
    assert offered(client) == b"PLAIN AMQPLAIN EXTERNAL"
    assert_serves(client)


@pytest.mark.parametrize(
    ("login_name", "user"), [("distinguished_name", "CN=joe,OU=clients,O=Hare")]
)
def test_by_distinguished_name_the_whole_name_must_be_the_user_s(
    stranger: Stranger, certificates: Certificates, login_name: str, user: str
) -> None:
    client = stranger(certificates.client(certificates.issued_to("joe", "Hare", "clients")))
    log_in(client)
    other = stranger(certificates.client(certificates.issued_to("joe", "Leveret", "clients")))
    other.offer(mechanism="EXTERNAL", response=b"", capabilities=CHECKED)
    other.expect(0, ConnectionClose(403, REFUSED, 0, 0))


def test_a_name_that_is_no_user_s_is_refused(
    stranger: Stranger, certificates: Certificates
) -> None:
    client = stranger(certificates.client(certificates.issued_to("jane")))
    client.offer(mechanism="EXTERNAL", response=b"joe", capabilities=CHECKED)
    client.expect(0, ConnectionClose(403, REFUSED, 0, 0))


@pytest.mark.parametrize("name", ["jane", None])
def test_the_log_says_whom_a_refused_certificate_named(
    stranger: Stranger, certificates: Certificates, log: LogLines, name: str | None
) -> None:
    client = stranger(certificates.client(name and certificates.issued_to(name)))
    client.offer(mechanism="EXTERNAL", response=b"", capabilities=CHECKED)
    client.expect_type(0, ConnectionClose)
    wait_until(lambda: bool(log.of("connection.refused")))
    assert log.of("connection.refused")[0]["user"] == (name or "")


def test_a_client_without_a_certificate_is_offered_it_and_refused(
    stranger: Stranger, certificates: Certificates
) -> None:
    client = stranger(certificates.client())
    client.offer(mechanism="EXTERNAL", response=b"joe", capabilities=CHECKED)
    assert offered(client) == b"PLAIN AMQPLAIN EXTERNAL"
    client.expect(0, ConnectionClose(403, REFUSED, 0, 0))


def test_a_password_is_as_good_as_ever(stranger: Stranger, certificates: Certificates) -> None:
    client = stranger(certificates.client())
    client.log_in(user="joe")
    assert_serves(client)


UNKNOWN = "COMMAND_INVALID - unknown authentication mechanism 'EXTERNAL'"


@pytest.mark.parametrize("verify", ["none"])
def test_where_certificates_are_not_asked_for_there_is_no_external(
    stranger: Stranger, certificates: Certificates, verify: str
) -> None:
    client = stranger(certificates.client(certificates.issued_to("joe")))
    client.offer(mechanism="EXTERNAL", response=b"", capabilities=CHECKED)
    assert offered(client) == b"PLAIN AMQPLAIN"
    client.expect(0, ConnectionClose(503, UNKNOWN, 10, 11))


def test_on_the_plain_port_there_is_no_external(broker: leveret.Broker) -> None:
    with Client(broker.host, broker.port) as client:
        client.offer(mechanism="EXTERNAL", response=b"joe", capabilities=CHECKED)
        assert offered(client) == b"PLAIN AMQPLAIN"
        client.expect(0, ConnectionClose(503, UNKNOWN, 10, 11))


def test_pika_s_external_credentials(broker: leveret.Broker, certificates: Certificates) -> None:
    context = certificates.client(certificates.issued_to("joe"))
    parameters = pika.ConnectionParameters(
        broker.host,
        broker.tls_port,
        credentials=ExternalCredentials(),
        ssl_options=pika.SSLOptions(context, broker.host),
    )
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"body", mandatory=True)


@pytest.mark.parametrize("user", ["guest"])
def test_a_user_of_this_machine_only_may_use_it_from_this_machine(
    broker: leveret.Broker, certificates: Certificates, user: str
) -> None:
    context = certificates.client(certificates.issued_to("guest"))
    assert broker.tls_port is not None
    with TlsClient(broker.host, broker.tls_port, context) as client:
        log_in(client)
