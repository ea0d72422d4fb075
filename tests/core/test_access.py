"""A user's permissions in a vhost, by RabbitMQ's rules for patterns."""

from __future__ import annotations

import itertools

import pytest
from holding import parts
from leveret.amqp_frames.errors import SoftError
from leveret.core.topology.topology import CONFIGURE, READ, WRITE, Topology
from leveret.core.users.access import ANSWERS_KEPT_MAX, Access
from leveret.core.users.accounts import Accounts, Permission, PutPermission, RemovePermission

NAMES = ("", "q", "queue", "my.queue", "amq.default", "amq.gen-1", "a\nq")


def accounts_with(configure: str = "", write: str = "", read: str = "") -> Accounts:
    accounts = Accounts()
    accounts.apply([PutPermission(Permission("ann", "v", configure, write, read))])
    return accounts


def access_of(accounts: Accounts) -> Access:
    topology = Topology(itertools.count(1).__next__, bytes, "v")
    return Access(accounts, "ann", topology)


def is_allowed(access: Access, wanted: str, kind: str, name: str) -> bool:
    try:
        access.check(wanted, kind, name)
    except SoftError:
        return False
    return True


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [
        # Empty fits the empty name only; a queue's can be, in a permission check at least.
        ("", {""}),
        (".*", set(NAMES)),
        # Searched for, not matched against the whole name.
        ("q", set(NAMES) - {""}),
        ("^q", {"q", "queue"}),
        ("^q$", {"q"}),
        ("^(q|amq\\.gen.*)$", {"q", "amq.gen-1"}),
        ("my.queue", {"my.queue"}),
        ("none", set()),
    ],
)
def test_a_pattern_is_searched_for_in_the_name(pattern: str, allowed: set[str]) -> None:
    access = access_of(accounts_with(read=pattern))
    assert {name for name in NAMES if is_allowed(access, READ, "queue", name)} == allowed


def test_each_pattern_is_for_its_own_kind_of_access() -> None:
    access = access_of(accounts_with("^c", "^w", "^r"))
    for kind in ("queue", "exchange"):
        allowed = {
            (wanted, name)
            for wanted in (CONFIGURE, WRITE, READ)
            for name in ("c", "w", "r")
            if is_allowed(access, wanted, kind, name)
        }
        assert allowed == {(CONFIGURE, "c"), (WRITE, "w"), (READ, "r")}


def test_the_default_exchange_is_called_amq_default() -> None:
    access = access_of(accounts_with(write="^amq\\.default$"))
    access.check(WRITE, "exchange", "")
    # A queue without a name is only that.
    assert not is_allowed(access, WRITE, "queue", "")


@pytest.mark.parametrize(
    ("wanted", "kind", "name", "text"),
    [
        (CONFIGURE, "queue", "q", "configure access to queue 'q' in vhost 'v'"),
        (WRITE, "exchange", "x", "write access to exchange 'x' in vhost 'v'"),
        (READ, "queue", "q", "read access to queue 'q' in vhost 'v'"),
        (WRITE, "exchange", "", "write access to exchange 'amq.default' in vhost 'v'"),
    ],
)
def test_a_refusal_names_the_right_the_resource_and_the_user(
    wanted: str, kind: str, name: str, text: str
) -> None:
    for accounts in (accounts_with(), Accounts()):
        with pytest.raises(SoftError) as caught:
            access_of(accounts).check(wanted, kind, name)
        assert caught.value.reply_code == 403
        expected = f"ACCESS_REFUSED - {text} refused for user 'ann'"
        assert caught.value.reply_text == expected


def test_a_change_of_accounts_counts_at_once() -> None:
    accounts = accounts_with(read="q")
    access = access_of(accounts)
    access.check(READ, "queue", "q")
    accounts.apply([PutPermission(Permission("ann", "v", "", "", "other"))])
    assert not is_allowed(access, READ, "queue", "q")
    access.check(READ, "queue", "other")
    accounts.apply([RemovePermission("ann", "v")])
    assert not is_allowed(access, READ, "queue", "other")


def test_answers_that_are_kept_are_bounded() -> None:
    access = access_of(accounts_with(".*", ".*", ".*"))
    for number in range(3 * ANSWERS_KEPT_MAX):
        access.check(WRITE, "exchange", f"x{number}")
        if number % 100 == 0:
            kept = [each for each in parts(access, str) if each.startswith("x")]
            assert len(kept) <= ANSWERS_KEPT_MAX + 1
