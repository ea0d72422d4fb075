"""Who may call: users with a password, and on this machine `nsq_user` without one."""

from __future__ import annotations

import leveret
import pytest
from insides import context_of, on_loop
from leveret.core.users.accounts import Permission, PutPermission, PutUser, User
from leveret.open_accounts import new_password_hash
from nsq_calls import call, post

ANN = ("ann", "hare")
GUEST = ("guest", "guest")
OPEN = [("GET", "/ping"), ("OPTIONS", "/pub"), ("GET", "/ping/")]
CLOSED = [
    ("GET", "/info"),
    ("GET", "/stats"),
    ("POST", "/pub?topic=t"),
    ("POST", "/mpub?topic=t"),
    ("POST", "/topic/create?topic=t"),
    ("POST", "/channel/create?topic=t&channel=c"),
    ("GET", "/lookup?topic=t"),
    ("GET", "/topics"),
    ("GET", "/channels?topic=t"),
    ("GET", "/nodes"),
]


def add_ann(broker: leveret.Broker, *permission: str) -> None:
    """A user without tags, who may configure, write and read these names."""
    accounts = context_of(broker).accounts
    changes = [PutUser(User("ann", new_password_hash("hare", 10)))]
    on_loop(broker, lambda: accounts.apply(changes))
    if permission:
        put = PutPermission(Permission("ann", "/", *permission))
        on_loop(broker, lambda: accounts.apply([put]))


def test_on_this_machine_no_login_is_needed(broker: leveret.Broker) -> None:
    post(broker, "/pub?topic=t", b"x")
    assert call(broker, "GET", "/stats").status == 200


@pytest.mark.parametrize("login", [("guest", "wrong"), ("nobody", "x"), ("guest", "")])
def test_a_wrong_login_is_refused_without_a_reason(
    broker: leveret.Broker, login: tuple[str, str]
) -> None:
    called = call(broker, "POST", "/pub?topic=t", b"x", login=login)
    assert (called.status, called.json) == (401, {"message": "UNAUTHORIZED"})
    assert called.headers["www-authenticate"].startswith("Basic ")
    assert call(broker, "POST", "/pub?topic=t", b"x", login=GUEST).status == 200


def test_from_elsewhere_a_login_is_needed(
    broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(broker, "/topic/create?topic=t")
    monkeypatch.setattr("leveret.management.nsq.site.is_loopback", lambda _host: False)
    for method, path in CLOSED:
        called = call(broker, method, path, b"x" if method == "POST" else None)
        assert (called.status, called.json) == (401, {"message": "UNAUTHORIZED"}), path
    for method, path in OPEN:
        assert call(broker, method, path).status in (200, 301), path
    for method, path in CLOSED:
        body = b"x" if method == "POST" else None
        assert call(broker, method, path, body, login=GUEST).status == 200, path


def test_a_user_needs_permissions_in_the_vhost(broker: leveret.Broker) -> None:
    add_ann(broker)
    for method, path in CLOSED:
        called = call(broker, method, path, b"x" if method == "POST" else None, login=ANN)
        assert (called.status, called.json["message"]) == (403, "FORBIDDEN"), path
        assert called.json["reason"] == "access to vhost '/' refused for user 'ann'", path


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/pub?topic=written", 200),
        ("POST", "/mpub?topic=written", 200),
        ("POST", "/pub?topic=other", 403),
        ("POST", "/pub?topic=other&defer=1", 403),
        ("POST", "/mpub?topic=other", 403),
        ("POST", "/topic/create?topic=configured", 200),
        ("POST", "/topic/create?topic=new", 403),
        ("POST", "/topic/delete?topic=other", 403),
        ("POST", "/topic/empty?topic=other", 403),
        ("POST", "/topic/pause?topic=other", 403),
        ("POST", "/topic/unpause?topic=other", 403),
        ("POST", "/channel/create?topic=other&channel=new", 403),
        ("POST", "/channel/delete?topic=other&channel=c", 403),
        ("POST", "/channel/empty?topic=other&channel=c", 403),
        ("POST", "/channel/pause?topic=other&channel=c", 403),
        ("POST", "/channel/unpause?topic=other&channel=c", 403),
        ("GET", "/stats", 403),
        ("GET", "/lookup?topic=other", 200),
        ("GET", "/topics", 200),
    ],
)
class TestPermissions:
    @pytest.fixture(scope="class")
    @staticmethod
    def shared(tmp_path_factory: pytest.TempPathFactory) -> object:
        settings: dict[str, object] = {"nsq_http_port": 0, "password_hash_cost": 10}
        running = leveret.Broker(
            data_dir=tmp_path_factory.mktemp("data"), port=0, log_level="error", **settings
        )
        with running as broker:
            for topic in ("other", "written"):
                post(broker, f"/topic/create?topic={topic}")
                post(broker, f"/channel/create?topic={topic}&channel=c")
            add_ann(broker, "^configured", "^written$", "^$")
            yield broker

    def test_a_call_needs_those_of_its_command(
        self, shared: leveret.Broker, method: str, path: str, status: int
    ) -> None:
        called = call(shared, method, path, b"x" if method == "POST" else None, login=ANN)
        assert called.status == status, called
        if status == 403:
            assert called.json["message"] == "FORBIDDEN"
            assert called.json["reason"]
