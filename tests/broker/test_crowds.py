"""Anybody can connect and say nothing; nobody else is kept out by that.

Addresses of the loopback network are different clients: the crowd comes from 127.0.0.2.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import leveret
import pytest
from asking_http import LIVE, READY, asked, open_connections, port
from certificates import Certificates, TlsClient
from gated_files import GatedFiles
from insides import context_of, wait_until
from leveret.amqp_frames.methods import ConnectionTune
from log_lines import LogLines
from timeouts import TIMEOUT_SECONDS
from wire import PERSISTENT, Client, publish

CROWD, OTHER, OWN = "127.0.0.2", "127.0.0.3", "127.0.0.1"
# Nobody is let in because somebody's time is over.
LONG_MS = 3_600_000

Silent = Callable[[int, str, int], list[socket.socket]]


@pytest.fixture
def silent() -> Iterator[Silent]:
    """Connects so many sockets from an address, which say nothing."""
    with ExitStack() as stack:

        def connected(to_port: int, host: str, count: int) -> list[socket.socket]:
            made = []
            for _ in range(count):
                each = socket.create_connection(("127.0.0.1", to_port), TIMEOUT_SECONDS, (host, 0))
                made.append(stack.enter_context(each))
            return made

        yield connected


def is_closed(one: socket.socket) -> bool:
    try:
        one.setblocking(False)
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


class TestAmqp:
    @pytest.fixture
    def settings(self, log: LogLines) -> dict[str, object]:
        return {
            "unopened_connections_max": 20,
            "handshake_timeout_ms": LONG_MS,
            "log_level": "info",
            "log_format": "json",
        }

    def test_the_address_with_most_gives_way_to_who_comes_and_open_connections_stay(
        self, broker: leveret.Broker, silent: Silent, log: LogLines
    ) -> None:
        with Client(broker.host, broker.port).log_in() as open_before:
            few = silent(broker.port, OTHER, 5)
            crowd = silent(broker.port, CROWD, 15)
            wait_until(lambda: len(context_of(broker).unopened) == 20)
            with ExitStack() as stack:
                clients = [stack.enter_context(Client(broker.host, broker.port)) for _ in range(5)]
                wait_until(lambda: all(map(is_closed, crowd[:5])))
                for client in clients:
                    client.log_in().open_channel()
            assert not any(map(is_closed, few + crowd[5:]))
            open_before.open_channel()
            assert set(log.reasons()) == {"gave way: unopened_connections_max"}

    def test_a_crowd_that_goes_on_coming_takes_from_itself(
        self, broker: leveret.Broker, silent: Silent
    ) -> None:
        few = silent(broker.port, OTHER, 5)
        crowd = silent(broker.port, CROWD, 100)
        wait_until(lambda: sum(map(is_closed, crowd)) >= 85)
        assert not any(map(is_closed, few))
        with Client(broker.host, broker.port).log_in() as client:
            client.open_channel()

    def test_a_client_whose_password_is_being_checked_does_not_give_way(
        self, broker: leveret.Broker, silent: Silent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        may_go_on = threading.Event()
        checking = threading.Event()

        def check(*_arguments: object) -> bool:
            checking.set()
            return may_go_on.wait(TIMEOUT_SECONDS)

        monkeypatch.setattr("leveret.actors.connection.logins.is_right_password", check)
        with Client(broker.host, broker.port) as client:
            client.offer()
            assert checking.wait(TIMEOUT_SECONDS)
            crowd = silent(broker.port, CROWD, 40)
            wait_until(lambda: sum(map(is_closed, crowd)) >= 20)
            may_go_on.set()
            client.expect_type(0, ConnectionTune)


class TestTls:
    @pytest.fixture
    def settings(self, certificates: Certificates) -> dict[str, object]:
        limits = {"tls_handshakes_max": 20, "handshake_timeout_ms": LONG_MS}
        return certificates.settings() | limits | {"log_level": "error"}

    @pytest.mark.parametrize("host", [CROWD, OWN])
    def test_handshakes_that_do_not_go_on_give_way(
        self, broker: leveret.Broker, silent: Silent, certificates: Certificates, host: str
    ) -> None:
        assert broker.tls_port is not None
        crowd = silent(broker.tls_port, host, 30)
        for _ in range(3):
            with TlsClient(broker.host, broker.tls_port, certificates.client()) as client:
                client.log_in().open_channel()
        # No more than there must.
        assert 10 <= sum(map(is_closed, crowd)) <= 13


class TestHttp:
    @pytest.fixture
    def settings(self) -> dict[str, object]:
        return {
            "http_listener": "on",
            "http_port": 0,
            "http_connections_max": 4,
            "http_loopback_connections_kept": 1,
            "http_request_timeout_ms": LONG_MS,
        }

    @pytest.mark.parametrize("host", [CROWD, OWN])
    def test_requests_that_do_not_come_give_way(
        self, broker: leveret.Broker, silent: Silent, host: str
    ) -> None:
        crowd = silent(port(broker), host, 10)
        for _ in range(3):
            assert asked(broker, path=LIVE).status == 200
        wait_until(lambda: len(open_connections(broker)) <= 5)
        assert sum(map(is_closed, crowd)) >= 5

    def test_a_request_that_waits_for_the_broker_does_not_give_way_and_one_more_gets_503(
        self, broker: leveret.Broker, client: Client, files: GatedFiles
    ) -> None:
        client.declare("durable", durable=True)
        files.hold()
        client.send(publish("durable", b"", PERSISTENT))
        files.wait_until_syncing()
        # Ready is who has written all that he was asked to.
        answers: list[int] = []
        asking = [
            threading.Thread(target=lambda: answers.append(asked(broker, path=READY).status))
            for _ in range(5)
        ]
        for each in asking:
            each.start()
        wait_until(lambda: len(open_connections(broker)) == 5)
        wait_until(lambda: asked(broker, path=LIVE).status == 503)
        files.release()
        for each in asking:
            each.join()
        assert answers == [200] * 5
