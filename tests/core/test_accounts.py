"""Users, vhosts and permissions: what can be done with them, and what is said where it cannot."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from leveret.amqp_frames.errors import HardError
from leveret.core.users.accounts import (
    AccountChanges,
    AccountError,
    Accounts,
    Permission,
    TopicPermission,
    User,
    default_accounts,
)
from leveret.core.users.password_hash import hash_password

HASH = hash_password("secret", bytes(16), 10)
OTHER_HASH = hash_password("other", bytes(16), 10)


def new() -> Accounts:
    """One vhost, / , where guest may do all; ann, who may do nothing anywhere."""
    accounts = Accounts()
    accounts.apply(default_accounts("guest", HASH))
    accounts.apply(accounts.prepare_add_user("ann", HASH, ["monitoring"]))
    return accounts


def allow(accounts: Accounts, user: str, vhost: str) -> None:
    accounts.apply(accounts.prepare_set_permission(Permission(user, vhost, "", "", "")))


def test_a_new_node_has_one_vhost_and_one_user_who_may_do_everything_in_it() -> None:
    accounts = Accounts()
    accounts.apply(default_accounts("guest", HASH))
    assert accounts.users == {"guest": User("guest", HASH, ("administrator",))}
    assert list(accounts.vhosts) == ["/"]
    assert accounts.permissions == {("guest", "/"): Permission("guest", "/", ".*", ".*", ".*")}
    accounts.check_open("guest", "/")


def test_a_change_is_made_by_apply_only_and_counted() -> None:
    accounts = new()
    version = accounts.version
    changes = accounts.prepare_add_user("bob", HASH, ())
    assert "bob" not in accounts.users
    assert accounts.version == version
    accounts.apply(changes)
    assert accounts.users["bob"] == User("bob", HASH, ())
    assert accounts.version == version + 1


def test_password_and_tags_change_one_without_the_other() -> None:
    accounts = new()
    accounts.apply(accounts.prepare_change_password("ann", OTHER_HASH))
    assert accounts.users["ann"] == User("ann", OTHER_HASH, ("monitoring",))
    accounts.apply(accounts.prepare_set_tags("ann", ["b", "a", "b"]))
    assert accounts.users["ann"] == User("ann", OTHER_HASH, ("b", "a"))


def test_a_user_goes_with_its_permissions() -> None:
    accounts = new()
    allow(accounts, "ann", "/")
    accounts.apply(accounts.prepare_delete_user("ann"))
    assert list(accounts.users) == ["guest"]
    assert list(accounts.permissions) == [("guest", "/")]


def test_a_vhost_goes_with_the_permissions_in_it() -> None:
    accounts = new()
    accounts.apply(accounts.prepare_add_vhost("v"))
    allow(accounts, "guest", "v")
    accounts.apply(accounts.prepare_delete_vhost("v"))
    assert list(accounts.vhosts) == ["/"]
    assert list(accounts.permissions) == [("guest", "/")]


def refusal(accounts: Accounts, user: str, vhost: str) -> tuple[int, str, int, int]:
    with pytest.raises(HardError) as caught:
        accounts.check_open(user, vhost)
    error = caught.value
    return error.reply_code, error.reply_text, error.class_id, error.method_id


def test_a_user_with_any_permission_in_a_vhost_may_open_it_even_an_empty_one() -> None:
    accounts = new()
    assert refusal(accounts, "ann", "none") == (
        530,
        "NOT_ALLOWED - vhost none not found",
        10,
        40,
    )
    words = "NOT_ALLOWED - access to vhost '/' refused for user 'ann'"
    assert refusal(accounts, "ann", "/") == (530, words, 10, 40)
    allow(accounts, "ann", "/")
    accounts.check_open("ann", "/")
    accounts.apply(accounts.prepare_clear_permission("ann", "/"))
    assert refusal(accounts, "ann", "/") == (530, words, 10, 40)


def test_clearing_a_permission_that_is_not_there_changes_nothing() -> None:
    assert new().prepare_clear_permission("ann", "/") == ()


@pytest.mark.parametrize(
    ("words", "prepare"),
    [
        ("user 'ann' exists already", lambda a: a.prepare_add_user("ann", HASH, ())),
        ("a user name must not be empty", lambda a: a.prepare_add_user("", HASH, ())),
        ("a user name has at most 255 bytes", lambda a: a.prepare_add_user("é" * 128, HASH, ())),
        ("a user name has printable characters", lambda a: a.prepare_add_user("a\n", HASH, ())),
        ("a user name has printable characters", lambda a: a.prepare_add_user("\ud800", HASH, ())),
        ("not a password hash", lambda a: a.prepare_add_user("bob", "secret", ())),
        ("not a password hash", lambda a: a.prepare_change_password("ann", "secret")),
        ("tag 'a,b' has a comma", lambda a: a.prepare_set_tags("ann", ["a,b"])),
        ("a tag must not be empty", lambda a: a.prepare_set_tags("ann", [""])),
        ("at most 32 tags", lambda a: a.prepare_set_tags("ann", map(str, range(33)))),
        ("there is no user 'bob'", lambda a: a.prepare_change_password("bob", HASH)),
        ("there is no user 'bob'", lambda a: a.prepare_set_tags("bob", ())),
        ("there is no user 'bob'", lambda a: a.prepare_delete_user("bob")),
        ("vhost '/' exists already", lambda a: a.prepare_add_vhost("/")),
        ("a vhost name must not be empty", lambda a: a.prepare_add_vhost("")),
        ("there is no vhost 'v'", lambda a: a.prepare_delete_vhost("v")),
        ("there is no user 'bob'", lambda a: a.prepare_clear_permission("bob", "/")),
        ("there is no vhost 'v'", lambda a: a.prepare_clear_permission("ann", "v")),
        (
            "there is no user 'bob'",
            lambda a: a.prepare_set_permission(Permission("bob", "/", "", "", "")),
        ),
        (
            "there is no vhost 'v'",
            lambda a: a.prepare_set_permission(Permission("ann", "v", "", "", "")),
        ),
        (
            "'(' is not a regular expression: missing ): (",
            lambda a: a.prepare_set_permission(Permission("ann", "/", "", "(", "")),
        ),
        *(
            (
                f"is not a regular expression: {fault}",
                lambda a, text=text: a.prepare_set_permission(Permission("ann", "/", "", "", text)),
            )
            for text, fault in (
                ("a{1001}", "invalid repetition size: {1001}"),
                ("(?!amq)", "invalid perl operator: (?!"),
                ("(a)\\1", "invalid escape sequence: \\1"),
                ("\ud800", "'utf-8' codec can't encode"),
            )
        ),
        (
            "the name of an exchange is not UTF-8",
            lambda a: a.prepare_set_topic_permission(TopicPermission("ann", "/", "\ud800", "", "")),
        ),
        (
            "a pattern has at most 4096 characters",
            lambda a: a.prepare_set_permission(Permission("ann", "/", "", "", "a" * 4097)),
        ),
    ],
)
def test_impossible_changes_of_accounts_are_refused_with_the_reason(
    words: str, prepare: Callable[[Accounts], AccountChanges]
) -> None:
    with pytest.raises(AccountError) as caught:
        prepare(new())
    assert words in str(caught.value)
