"""The sentences about changes of accounts, and which of them ask a person first."""

from __future__ import annotations

import pytest
from leveret.commands.account_words import COMPARED, DONE, Before, done, warning
from leveret.core.users.account_requests import REQUESTS

BEFORE = Before(
    [{"user": "guest", "tags": ["administrator"]}, {"user": "ann", "tags": ["monitoring"]}],
    [{"user": "ann", "vhost": "shop", "configure": "^ann", "write": ".*", "read": ""}],
)
TWO = BEFORE._replace(users=[*BEFORE.users, {"user": "bob", "tags": ["a", "administrator"]}])


def permission(user: str, vhost: str, *patterns: str) -> dict[str, str]:
    named = dict(zip(("configure", "write", "read"), patterns, strict=True))
    return {"user": user, "vhost": vhost, **named}


def test_the_words_are_of_changes_that_there_are() -> None:
    assert set(REQUESTS) >= set(DONE) | {"user tags", "permissions set"}
    assert set(REQUESTS) >= COMPARED


@pytest.mark.parametrize(
    ("request_name", "given", "words"),
    [
        (
            "user tags",
            {"user": "ann", "tags": ["management", "monitoring"]},
            "user 'ann' has the tags management, monitoring now, and had the tag monitoring",
        ),
        (
            "user tags",
            {"user": "ann", "tags": []},
            "user 'ann' has no tags now, and had the tag monitoring",
        ),
        (
            "user tags",
            {"user": "ann", "tags": ["monitoring"]},
            "user 'ann' had the tag monitoring already: nothing has changed",
        ),
        (
            "permissions set",
            permission("ann", "shop", "", ".*", ".*"),
            "user 'ann' has in vhost 'shop' now configure '', write '.*', read '.*', "
            "and had configure '^ann', write '.*', read ''",
        ),
        (
            "permissions set",
            permission("ann", "/", "", "", ".*"),
            "user 'ann' has in vhost '/' now configure '', write '', read '.*', "
            "and had no permissions there",
        ),
        (
            "permissions set",
            permission("ann", "shop", "^ann", ".*", ""),
            "user 'ann' had these permissions in vhost 'shop': nothing has changed",
        ),
        (
            "permissions clear",
            {"user": "ann", "vhost": "shop"},
            "user 'ann' may not use vhost 'shop' any more",
        ),
        (
            "permissions clear",
            {"user": "ann", "vhost": "/"},
            "user 'ann' had no permissions in vhost '/': nothing has changed",
        ),
        ("vhost add", {"vhost": "v"}, "vhost 'v' is added; nobody has permissions there yet"),
    ],
)
def test_a_change_is_told_by_what_it_has_changed(
    request_name: str, given: dict[str, object], words: str
) -> None:
    assert done(request_name, given, BEFORE) == words


@pytest.mark.parametrize(
    ("request_name", "given", "before", "words"),
    [
        ("vhost delete", {"vhost": "/"}, Before(), "vhost '/' is the one of clients that name no"),
        ("vhost delete", {"vhost": "shop"}, Before(), ""),
        ("user delete", {"user": "guest"}, BEFORE, "user 'guest' is the last administrator"),
        ("user delete", {"user": "guest"}, TWO, ""),
        ("user delete", {"user": "ann"}, BEFORE, ""),
        ("user tags", {"user": "guest", "tags": ["x"]}, BEFORE, "user 'guest' is the last admin"),
        ("user tags", {"user": "guest", "tags": ["administrator"]}, BEFORE, ""),
        ("user tags", {"user": "guest", "tags": []}, TWO, ""),
    ],
)
def test_only_changes_that_are_hard_to_undo_ask_first(
    request_name: str, given: dict[str, object], before: Before, words: str
) -> None:
    said = warning(request_name, given, before)
    assert said.startswith(words)
    assert bool(said) == bool(words)
