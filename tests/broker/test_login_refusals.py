"""A login that fails: the log says why, and the client hears no more than RabbitMQ tells."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

import leveret
import psutil
import pytest
from asking_http import asked
from certificates import Certificates, TlsClient
from insides import wait_until
from leveret.amqp_frames.methods import ConnectionClose, ConnectionOpen, ConnectionTuneOk
from leveret.commands.control_client import ask_broker
from leveret.core.users.login_checks import PASSWORD_BYTES_MAX
from leveret.open_accounts import new_password_hash
from log_lines import LogLines
from wire import Client

CHECKED = ("authentication_failure_close",)
LOGIN_REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism {mechanism}. "
    "For details see the broker logfile."
)


@pytest.fixture
def settings(certificates: Certificates, log: LogLines) -> dict[str, object]:
    """On every address, with TLS that may have client certificates, and HTTP."""
    on = {"host": "0.0.0.0", "http_listener": "on", "http_port": 0}
    return certificates.settings("optional", log_level="info", log_format="json", **on)


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """An address of this machine that is not loopback."""
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            if "." in address.address and not address.address.startswith("127."):
                yield address.address
                return
    pytest.skip("there is no address but loopback")


def add_ann(broker: leveret.Broker) -> None:
    """A user without a permission anywhere."""
    arguments = {"user": "ann", "password_hash": new_password_hash("hare", 10), "tags": []}
    ask_broker(broker.configuration.data_dir, "user add", arguments)


def refusal_of(log: LogLines) -> tuple[str, str]:
    """User and reason in the only line about a refused connection."""
    wait_until(lambda: bool(log.of("connection.refused")))
    [line] = log.of("connection.refused")
    assert line["level"] == "warning"
    return line["user"], line["reason"]


def assert_login_refused(client: Client, mechanism: str = "PLAIN") -> None:
    client.expect(0, ConnectionClose(403, LOGIN_REFUSED.format(mechanism=mechanism), 0, 0))


@pytest.mark.parametrize(
    ("user", "password", "reason"),
    [
        ("guest", "wrong", "wrong password"),
        ("nobody", "guest", "unknown user"),
        ("guest", "", "empty password"),
        ("guest", "p" * (PASSWORD_BYTES_MAX + 1), "user name or password too long"),
    ],
)
def test_the_log_says_why_a_password_lets_nobody_in_and_the_client_is_not_told(
    broker: leveret.Broker, log: LogLines, user: str, password: str, reason: str
) -> None:
    with Client("127.0.0.1", broker.port) as client:
        client.offer(user=user, password=password, capabilities=CHECKED)
        assert_login_refused(client)
        assert refusal_of(log) == (user, reason)


def test_the_log_says_why_also_of_a_client_that_did_not_ask_to_be_told(
    broker: leveret.Broker, log: LogLines
) -> None:
    with Client("127.0.0.1", broker.port) as client:
        client.offer(password="wrong")
        assert refusal_of(log) == ("guest", "wrong password")


def test_the_log_says_that_a_user_may_come_over_loopback_only(
    broker: leveret.Broker, log: LogLines, elsewhere: str
) -> None:
    with Client(elsewhere, broker.port) as client:
        client.offer(capabilities=CHECKED)
        assert_login_refused(client)
        user, reason = refusal_of(log)
        assert (user, reason.partition(":")[0]) == ("guest", "loopback only")
        assert "loopback_users" in reason


@pytest.mark.parametrize(
    ("vhost", "told", "reason"),
    [
        ("shop", "NOT_ALLOWED - vhost shop not found", "no such vhost"),
        (
            "/",
            "NOT_ALLOWED - access to vhost '/' refused for user 'ann'",
            "not permitted: the user has no permission in the vhost",
        ),
    ],
)
def test_the_log_says_why_a_vhost_is_not_opened(
    broker: leveret.Broker, log: LogLines, vhost: str, told: str, reason: str
) -> None:
    add_ann(broker)
    with Client("127.0.0.1", broker.port) as client:
        client.offer(user="ann", password="hare", capabilities=CHECKED)
        client.read_method(0)
        client.send_methods(0, ConnectionTuneOk(2047, 131_072, 0), ConnectionOpen(vhost))
        ids = ConnectionOpen.class_id, ConnectionOpen.method_id
        client.expect(0, ConnectionClose(530, told, *ids))
        assert refusal_of(log) == ("ann", reason)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("jane", "unknown user"), (None, "no client certificate, or none that names a user")],
)
def test_the_log_says_why_a_certificate_lets_nobody_in(
    broker: leveret.Broker,
    certificates: Certificates,
    log: LogLines,
    name: str | None,
    reason: str,
) -> None:
    assert broker.tls_port is not None
    context = certificates.client(name and certificates.issued_to(name))
    with TlsClient("127.0.0.1", broker.tls_port, context) as client:
        client.offer(mechanism="EXTERNAL", response=b"", capabilities=CHECKED)
        assert_login_refused(client, "EXTERNAL")
        assert refusal_of(log)[1] == reason


@pytest.mark.parametrize(
    ("user", "password", "reason"),
    [("guest", "wrong", "wrong password"), ("nobody", "guest", "unknown user")],
)
def test_the_log_says_why_a_login_over_http_fails_and_the_client_is_not_told(
    broker: leveret.Broker, log: LogLines, user: str, password: str, reason: str
) -> None:
    answer = asked(broker, user=user, password=password)
    assert (answer.status, answer.content) == (
        401,
        {"error": "not_authorized", "reason": "Login failed"},
    )
    [line] = log.of("http.refused")
    assert (line["user"], line["reason"]) == (user, reason)
    assert b64encode(password.encode()).decode() not in log.stream.getvalue()
