"""Who an NSQ client is, and what it may do."""

from __future__ import annotations

from collections.abc import Callable

import leveret
import pytest
from insides import context_of, on_loop
from leveret.core.users.accounts import Permission, PutPermission
from nsq_wire import NsqClient, auth, dpub, identify, mpub, pub

Nsq = Callable[[], NsqClient]
FAILED = b"E_AUTH_FAILED AUTH failed"


def test_auth_names_the_user_and_is_answered_in_nsqds_form(nsq: Nsq) -> None:
    client = nsq().send(auth(b"guest:guest"))
    assert client.json() == {"identity": "guest", "identity_url": "", "permission_count": 1}
    client.send(pub("t", b"x")).ok()
    client.send(auth(b"guest:guest"))
    assert client.error() == b"E_INVALID AUTH already set"
    assert client.receive() is None


@pytest.mark.parametrize("body", [b"guest:wrong", b"nobody:x", b"guest", b":", b"\xff:\xff"])
def test_a_wrong_login_is_refused_without_a_reason(nsq: Nsq, body: bytes) -> None:
    client = nsq().send(auth(body), pub("t", b"x"))
    assert client.error() == FAILED
    assert client.receive() is None


def test_on_this_machine_auth_is_not_required(nsq: Nsq) -> None:
    client = nsq().send(identify(feature_negotiation=True))
    assert client.json()["auth_required"] is False
    client.send(pub("t", b"x")).ok()
    client.send(auth(b"guest:guest"))
    assert client.error() == b"E_INVALID AUTH already set"


class TestAsAnother:
    @pytest.fixture
    def settings(self) -> dict[str, object]:
        return {"nsq_port": 0, "nsq_user": "nobody"}

    @pytest.mark.parametrize(
        "command", [pub("t", b"x"), mpub("t", b"x"), dpub("t", 0, b"x"), b"SUB t c\n"]
    )
    def test_a_user_without_permissions_is_unauthorised(self, nsq: Nsq, command: bytes) -> None:
        client = nsq().send(command)
        assert client.error() == b"E_UNAUTHORIZED access to vhost '/' refused for user 'nobody'"
        assert client.receive() is None

    @pytest.mark.parametrize(
        ("command", "text"),
        [
            (pub("t", b"x"), b'E_UNAUTHORIZED AUTH failed for PUB on "t" ""'),
            (mpub("t", b"x"), b'E_UNAUTHORIZED AUTH failed for MPUB on "t" ""'),
            (dpub("t", 0, b"x"), b'E_UNAUTHORIZED AUTH failed for DPUB on "t" ""'),
            (b"SUB t c\n", b'E_UNAUTHORIZED AUTH failed for SUB on "t" "c"'),
            (b"SUB new c\n", b'E_UNAUTHORIZED AUTH failed for SUB on "new" "c"'),
            (pub("new", b"x"), b'E_UNAUTHORIZED AUTH failed for PUB on "new" ""'),
            (pub("bad!", b"x"), b'E_BAD_TOPIC PUB topic name "bad!" is not valid'),
        ],
    )
    def test_pub_needs_write_and_sub_needs_read(
        self, nsq: Nsq, broker: leveret.Broker, command: bytes, text: bytes
    ) -> None:
        by_guest = nsq().send(auth(b"guest:guest"), pub("t", b"x"))
        by_guest.json()
        by_guest.ok()
        accounts = context_of(broker).accounts
        permission = PutPermission(Permission("nobody", "/", "^$", "^$", "^$"))
        on_loop(broker, lambda: accounts.apply([permission]))
        client = nsq().send(command)
        assert client.error() == text
        assert client.receive() is None


class TestFromAfar:
    """A client that is not on this machine, as far as the broker knows."""

    @pytest.fixture
    def settings(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
        monkeypatch.setattr("leveret.actors.nsq.entrance.is_loopback", lambda _host: False)
        return {"nsq_port": 0}

    @pytest.mark.parametrize(
        ("command", "name"),
        [
            (pub("t", b"x"), b"PUB"),
            (mpub("t", b"x"), b"MPUB"),
            (dpub("t", 0, b"x"), b"DPUB"),
            (b"SUB t c\n", b"SUB"),
        ],
    )
    def test_auth_comes_first(self, nsq: Nsq, command: bytes, name: bytes) -> None:
        client = nsq().send(identify(feature_negotiation=True))
        assert client.json()["auth_required"] is True
        client.send(b"NOP\n", command)
        assert client.error() == b"E_AUTH_FIRST AUTH required before " + name
        assert client.receive() is None

    def test_with_auth_all_goes_as_ever(self, nsq: Nsq) -> None:
        client = nsq().send(auth(b"guest:guest"))
        client.json()
        client.send(pub("t", b"x")).ok()

    @pytest.mark.parametrize(
        "command", [pub("t", bytes(400_000)), mpub("t", bytes(400_000)), auth(bytes(400_000))]
    )
    def test_who_has_not_said_who_it_is_fills_no_memory(self, nsq: Nsq, command: bytes) -> None:
        client = nsq().send(command[:-1])
        assert client.error().startswith(b"E_AUTH_FIRST AUTH required before ")
        assert client.receive() is None
