"""Runtime parameters, limits, topic permissions and metadata: set, changed, cleared, refused."""

from __future__ import annotations

from typing import Any

import pytest
from leveret.core.parameters.limits import UserLimits, VhostLimits, user_limits, vhost_limits
from leveret.core.parameters.parameters import Parameter, Parameters, PutParameter, RemoveParameter
from leveret.core.users.account_requests import prepare_request
from leveret.core.users.accounts import (
    AccountError,
    Accounts,
    AddVhost,
    MissingError,
    TopicPermission,
    VhostMetadata,
    default_accounts,
)
from leveret.core.users.password_hash import hash_password

HASH = hash_password("secret", bytes(16), 10)


@pytest.fixture
def accounts() -> Accounts:
    """A new node's, and a vhost v."""
    accounts = Accounts()
    accounts.apply(default_accounts("guest", HASH))
    request(accounts, "vhost add", vhost="v")
    return accounts


def request(accounts: Accounts, name: str, /, **arguments: Any) -> None:
    accounts.apply(prepare_request(accounts, name, arguments))


def test_a_vhost_s_limits_are_a_parameter(accounts: Accounts) -> None:
    assert vhost_limits(accounts.parameters, "v") == VhostLimits(None, None)
    request(accounts, "vhost limits", vhost="v", limits={"max-queues": 3, "max-connections": -1})
    assert vhost_limits(accounts.parameters, "v") == VhostLimits(None, 3)
    assert vhost_limits(accounts.parameters, "/") == VhostLimits(None, None)
    value = {"max-queues": 3, "max-connections": -1}
    assert accounts.parameters.of("vhost-limits", "v") == [
        Parameter("vhost-limits", "v", "limits", value)
    ]
    named = {"component": "vhost-limits", "vhost": "v", "name": "limits"}
    request(accounts, "parameter set", **named, value={"max-connections": 0})
    assert vhost_limits(accounts.parameters, "v") == VhostLimits(0, None)
    request(accounts, "parameter clear", **named)
    assert accounts.parameters.of("vhost-limits") == []


def test_a_user_s_limits_stay_when_its_password_changes(accounts: Accounts) -> None:
    limits = {"max-connections": 2, "max-channels": 30}
    request(accounts, "user limits", user="guest", limits=limits)
    request(accounts, "user passwd", user="guest", password_hash=HASH)
    assert user_limits(accounts.users["guest"].limits) == UserLimits(2, 30)
    request(accounts, "user limits", user="guest", limits={"max-channels": 30})
    assert user_limits(accounts.users["guest"].limits) == UserLimits(None, 30)


def test_a_global_parameter_is_any_json(accounts: Accounts) -> None:
    request(accounts, "global parameter set", name="x", value=[4, {"a": None}])
    assert accounts.parameters.of("") == [Parameter("", "", "x", [4, {"a": None}])]
    request(accounts, "global parameter clear", name="x")
    assert accounts.parameters.of("") == []


def test_metadata_changes_by_what_is_named(accounts: Accounts) -> None:
    request(accounts, "vhost change", vhost="v", description="a shop", tags=["b", "a", "b"])
    request(accounts, "vhost change", vhost="v", default_queue_type="quorum")
    request(accounts, "vhost change", vhost="v", tracing=True)
    assert accounts.vhosts["v"] == VhostMetadata("a shop", ("b", "a"), "quorum", True)
    request(accounts, "vhost add", vhost="w", description="another")
    assert accounts.vhosts["w"] == VhostMetadata("another")


def test_topic_permissions_go_one_by_one_or_together(accounts: Accounts) -> None:
    named = {"user": "guest", "vhost": "v"}
    for exchange in ("a", "b", "c"):
        request(
            accounts, "topic permissions set", **named, exchange=exchange, write="^a", read=".*"
        )
    request(accounts, "topic permissions clear", **named, exchange="b")
    assert accounts.topic_permissions == {
        ("guest", "v"): {
            name: TopicPermission("guest", "v", name, "^a", ".*") for name in ("a", "c")
        }
    }
    request(accounts, "topic permissions clear", **named)
    assert accounts.topic_permissions == {}


def test_all_of_a_vhost_goes_with_it(accounts: Accounts) -> None:
    request(accounts, "vhost limits", vhost="v", limits={})
    request(accounts, "vhost limits", vhost="/", limits={})
    patterns = {"exchange": "x", "write": "", "read": ""}
    request(accounts, "topic permissions set", user="guest", vhost="v", **patterns)
    request(accounts, "global parameter set", name="x", value=1)
    request(accounts, "vhost delete", vhost="v")
    assert accounts.topic_permissions == {}
    assert [each.vhost for each in accounts.parameters.of("vhost-limits")] == ["/"]
    assert len(accounts.parameters.of("")) == 1


NAMED = {"vhost": "v", "name": "limits"}


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("parameter set", NAMED | {"component": "foo", "value": 1}, "component foo not found"),
        ("parameter set", NAMED | {"component": "policy", "value": 1}, "policies may not be set"),
        (
            "vhost limits",
            {"vhost": "v", "limits": {"max-zz": 1}},
            r'Unrecognised terms \[{<<"max-zz">>,1}\] in limits',
        ),
        (
            "vhost limits",
            {"vhost": "v", "limits": {"max-queues": "a"}},
            'max-queues should be a number, actually was <<"a">>',
        ),
        ("vhost limits", {"vhost": "v", "limits": {"max-queues": True}}, "should be a number"),
        ("vhost limits", {"vhost": "v", "limits": {"max-queues": 1.5}}, "should be a number"),
        ("vhost limits", {"vhost": "v", "limits": {"max-queues": 1e999}}, "should be a number"),
        ("vhost limits", {"vhost": "v", "limits": 5}, "limits not a list 5"),
        ("user limits", {"user": "guest", "limits": {"max-queues": 1}}, "in user-limits"),
        ("vhost change", {"vhost": "v", "default_queue_type": "x"}, "unsupported queue type 'x'"),
        ("vhost change", {"vhost": "v", "tags": ["a,b"]}, "has a comma"),
        ("vhost change", {"vhost": "v", "description": "x" * 4097}, "at most 4096 characters"),
        ("global parameter set", {"name": "", "value": 1}, "must not be empty"),
        ("global parameter set", {"name": "x"}, "'value' must be there"),
        (
            "topic permissions set",
            {"user": "guest", "vhost": "v", "exchange": "x", "write": "(", "read": ""},
            "is not a regular expression",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_and_changes_nothing(
    name: str, arguments: dict[str, Any], words: str, accounts: Accounts
) -> None:
    with pytest.raises(AccountError, match=words) as caught:
        prepare_request(accounts, name, arguments)
    assert not isinstance(caught.value, MissingError)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("vhost limits", {"vhost": "w", "limits": {}}),
        ("user limits", {"user": "ann", "limits": {}}),
        ("vhost change", {"vhost": "w"}),
        ("parameter clear", NAMED | {"component": "vhost-limits"}),
        ("global parameter clear", {"name": "x"}),
        ("topic permissions clear", {"user": "guest", "vhost": "w"}),
        ("topic permissions clear", {"user": "ann", "vhost": "v"}),
    ],
)
def test_what_is_not_there_is_told_apart(
    name: str, arguments: dict[str, Any], accounts: Accounts
) -> None:
    with pytest.raises(MissingError):
        prepare_request(accounts, name, arguments)


def test_changes_are_tried_on_a_copy() -> None:
    parameters = Parameters([Parameter("policy", "/", "p", 1), Parameter("policy", "/", "q", 2)])
    put = PutParameter(Parameter("policy", "/", "p", 3))
    after = parameters.after([AddVhost("v"), put, RemoveParameter("policy", "/", "q")])
    assert [each.value for each in after] == [3]
    assert [each.value for each in parameters] == [1, 2]
