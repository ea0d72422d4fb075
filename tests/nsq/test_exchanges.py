"""Each exchange of exchanges.py with Leveret, and with nsqd itself where there is one."""

from __future__ import annotations

import os
from pathlib import Path

import leveret
import pytest
from exchanges import AUTH_REQUIRED, GROUPS, MESSAGE_BYTES_MAX, Exchange, titles
from insides import context_of, on_loop
from leveret.core.users.accounts import Permission, PutPermission, PutUser, User
from leveret.core.users.password_hash import hash_password
from nsqd import authorisation_server, real_nsqd
from playing import Player

NSQ_PAGE = Path(__file__).parents[2] / "docs" / "NSQ.md"
GROUP = pytest.mark.parametrize("exchanges", GROUPS.values(), ids=GROUPS)


@pytest.fixture
def settings() -> dict[str, object]:
    return {"nsq_port": 0, "message_size_max_bytes": MESSAGE_BYTES_MAX}


@GROUP
def test_the_answers_are_nsqds(broker: leveret.Broker, exchanges: list[Exchange]) -> None:
    assert broker.nsq_port
    assert Player(broker.nsq_port, is_nsqd=False).faults(exchanges) == []


def test_the_answers_are_nsqds_where_auth_is_required(
    broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leveret.actors.nsq.entrance.is_loopback", lambda _host: False)
    joe = User("joe", hash_password("good", bytes(16), 10))
    changes = [
        PutUser(joe),
        PutPermission(Permission("joe", "/", "^allowed(:|$)", "^allowed$", "^allowed(:|$)")),
    ]
    accounts = context_of(broker).accounts
    on_loop(broker, lambda: accounts.apply(changes))
    assert broker.nsq_port
    assert Player(broker.nsq_port, is_nsqd=False).faults(AUTH_REQUIRED) == []


def test_each_difference_has_its_row_and_reason() -> None:
    """As `| title | nsqd | Leveret | reason |` in docs/NSQ.md."""
    rows = {line.split("|")[1].strip() for line in NSQ_PAGE.read_text().splitlines() if "|" in line}
    assert titles() - rows == set()


@pytest.mark.soak
class TestNsqd:
    """nsqd itself: so the table keeps to the facts."""

    @pytest.fixture
    def program(self) -> str:
        program = os.environ.get("LEVERET_NSQD", "")
        if not program:
            pytest.skip("LEVERET_NSQD is not set: the path of an nsqd 1.3.0")
        return program

    @GROUP
    def test_nsqd_answers_so(self, program: str, tmp_path: Path, exchanges: list[Exchange]) -> None:
        with real_nsqd(program, tmp_path) as port:
            assert Player(port, is_nsqd=True).faults(exchanges) == []

    def test_nsqd_answers_so_where_auth_is_required(self, program: str, tmp_path: Path) -> None:
        with (
            authorisation_server() as server,
            real_nsqd(program, tmp_path, f"-auth-http-address={server}") as port,
        ):
            assert Player(port, is_nsqd=True).faults(AUTH_REQUIRED) == []
