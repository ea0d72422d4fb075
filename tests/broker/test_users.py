"""Logging in: users in the catalog, and passwords checked where they stall nobody."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import leveret
import pytest
from holding import parts
from insides import context_of, inside, wait_until
from leveret.actors.connection import logins
from leveret.actors.connection.opening import HELD_BACK_MAX, HELD_BACK_METHODS_BYTES_MAX
from leveret.amqp_frames.constants import PROTOCOL_HEADER
from leveret.amqp_frames.methods import (
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from leveret.core.users.login_checks import PasswordCheck
from timeouts import TIMEOUT_SECONDS
from wire import Client, methods_of

CHECKED = ("authentication_failure_close",)


class SlowChecks:
    """Password checks that are counted and, while the gate is closed, not done."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.passwords: list[str] = []
        self._check = logins.is_right_password

    def __call__(self, password: str, stored: str) -> bool:
        self.passwords.append(password)
        assert self.gate.wait(TIMEOUT_SECONDS)
        return self._check(password, stored)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowChecks]:
    slow = SlowChecks()
    monkeypatch.setattr(logins, "is_right_password", slow)
    yield slow
    slow.gate.set()


def refused(client: Client, password: str) -> int:
    client.offer(password=password, capabilities=CHECKED)
    return client.expect_type(0, ConnectionClose).reply_code


def test_the_default_user_is_made_at_the_first_start_and_only_then(tmp_path: Path) -> None:
    def start(password: str) -> leveret.Broker:
        return leveret.Broker(
            data_dir=tmp_path,
            port=0,
            log_level="error",
            default_password=password,
            password_hash_cost=10,
        )

    with start("first") as broker, Client(broker.host, broker.port) as client:
        client.log_in(password="first")
    with start("second") as broker:
        with Client(broker.host, broker.port) as client:
            client.log_in(password="first")
        with Client(broker.host, broker.port) as client:
            assert refused(client, "second") == 403
    assert b"first" not in (tmp_path / "catalog.sqlite").read_bytes()


def test_a_password_is_hashed_at_the_cost_that_is_set(broker: leveret.Broker) -> None:
    stored = context_of(broker).accounts.users["guest"].password_hash
    assert stored.startswith("scrypt$10$8$1$")


def test_what_is_sent_ahead_of_the_answer_to_a_login_is_taken_behind_it(
    broker: leveret.Broker, checks: SlowChecks
) -> None:
    checks.gate.clear()
    with Client(broker.host, broker.port) as client:
        start_ok = ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")
        tune_ok = ConnectionTuneOk(2047, 131_072, 0)
        opening = methods_of(0, start_ok, tune_ok, ConnectionOpen(virtual_host="/"))
        client.send(PROTOCOL_HEADER, opening)
        client.expect_type(0, ConnectionStart)
        wait_until(lambda: bool(checks.passwords))
        client.send(methods_of(1, ChannelOpen()))
        checks.gate.set()
        client.expect_type(0, ConnectionTune)
        client.expect(0, ConnectionOpenOk())
        client.expect(1, ChannelOpenOk())


@pytest.mark.parametrize(
    "ahead",
    [
        # In number, in octets of methods all together, and of one.
        methods_of(0, *[ConnectionOpen()] * (HELD_BACK_MAX + 1)),
        methods_of(0, *[ConnectionOpen(virtual_host="v" * 200)] * 80),
        methods_of(0, ConnectionStartOk(response=bytes(HELD_BACK_METHODS_BYTES_MAX))),
    ],
)
def test_no_more_is_kept_ahead_of_that_answer_than_anybody_needs(
    broker: leveret.Broker, checks: SlowChecks, ahead: bytes
) -> None:
    checks.gate.clear()
    with Client(broker.host, broker.port) as client:
        start_ok = ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")
        client.send(PROTOCOL_HEADER, methods_of(0, start_ok) + ahead)
        client.expect_type(0, ConnectionStart)
        text = "RESOURCE_ERROR - too many frames ahead of the login's answer"
        client.expect(0, ConnectionClose(506, text, 0, 0))
    checks.gate.set()


def test_clients_that_come_back_at_once_cost_one_check(
    broker: leveret.Broker, checks: SlowChecks
) -> None:
    checks.gate.clear()
    clients = [Client(broker.host, broker.port) for _ in range(50)]
    try:
        for client in clients:
            client.offer()
        wait_until(lambda: bool(checks.passwords))
        checks.gate.set()
        for client in clients:
            client.expect_type(0, ConnectionTune)
        with Client(broker.host, broker.port) as later:
            later.log_in()
    finally:
        for client in clients:
            client.drop()
    assert checks.passwords == ["guest"]


def test_a_login_that_is_being_checked_stalls_nobody(
    client: Client, broker: leveret.Broker, connect: Callable[..., Client], checks: SlowChecks
) -> None:
    client.declare("q", durable=True)
    checks.gate.clear()
    with Client(broker.host, broker.port) as guesser:
        guesser.offer(password="wrong", capabilities=CHECKED)
        wait_until(lambda: bool(checks.passwords))
        client.publish_all("q", b"confirmed meanwhile")
        # Who logged in before needs no check.
        connect().open_channel(1)
        assert checks.passwords == ["wrong"]
        checks.gate.set()
        assert guesser.expect_type(0, ConnectionClose).reply_code == 403


def test_a_client_that_goes_while_it_is_checked_harms_nobody(
    broker: leveret.Broker, connect: Callable[..., Client], checks: SlowChecks
) -> None:
    checks.gate.clear()
    with Client(broker.host, broker.port) as first, Client(broker.host, broker.port) as second:
        first.offer(password="wrong 1")
        second.offer(password="wrong 2")
        wait_until(lambda: bool(checks.passwords))
    checks.gate.set()
    connect().open_channel(1)


class TestWithFewWaiting:
    @pytest.fixture
    def settings(self) -> dict[str, object]:
        return {"password_checks_waiting_max": 1}

    def test_a_login_beyond_those_that_may_wait_is_refused(
        self, broker: leveret.Broker, checks: SlowChecks
    ) -> None:
        checks.gate.clear()
        with (
            Client(broker.host, broker.port) as running,
            Client(broker.host, broker.port) as waiting,
            Client(broker.host, broker.port) as beyond,
        ):
            running.offer(password="wrong")
            wait_until(lambda: bool(checks.passwords))
            waiting.offer(password="guest")
            logins_actor = inside(context_of(broker).logins)
            # One check runs, and the other waits.
            wait_until(lambda: len(parts(logins_actor, PasswordCheck)) == 2)
            assert refused(beyond, "also wrong") == 403
            checks.gate.set()
            waiting.expect_type(0, ConnectionTune)
